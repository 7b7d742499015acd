"""`--help` of every verb: the verbs, the choices of its groups, its composed configuration.

Hydra's own `--help` copies every composed configuration twice for each group, which takes 1.5 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from hydra_plugins.mxfp8_launcher._groups import choices, groups
from jobs.verbs.table import VERBS

HEADER = """\
Validates and benchmarks MXFP8 attention, on this machine or on a SLURM cluster.

python launch.py [VERB] [IDS] [key=value ...] [flags]
"""
FLAGS = """
Flags: --cfg job (print this configuration as YAML), --info, --multirun (same as sweep),
--hydra-help, -sc install=bash (tab completion: eval "$(python launch.py -sc install=bash)")
"""
FOOTER = """\
Your own shape/, gpu/, cluster/ and grid/ files are read from ~/.config/mxfp8-attention/, or from
the folder in MXFP8_CONFIG_DIR or --config-dir."""


def help_text(verb: str, words: Sequence[str], config_path: str) -> str:
    """Return the help of a verb, composed with the overrides and `--config-dir` in `words`."""
    overrides = [word for word in words if not word.startswith("-") and "=" in word]
    folders = [word.partition("=")[2] for word in words if word.startswith("--config-dir=")]
    with initialize_config_dir(config_path, version_base="1.3"):
        if folders:
            _add_folder(config_path, folders[0])
        loader = GlobalHydra.instance().config_loader()
        config = compose(verb, overrides=overrides)
        used = {name: choices(loader, name) for name in groups(loader) if name in config}
    lines = [HEADER, *(f"  {name:<9} {about.summary}" for name, about in VERBS.items()), FLAGS]
    if used:
        lines.append("Choices:")
        lines += [f"  {name}={'|'.join(names)}" for name, names in used.items()]
        lines.append("")
    lines.append(f"Configuration of {verb} (change any key with key=value):\n")
    lines.append(OmegaConf.to_yaml(config))
    lines.append(FOOTER)
    return "\n".join(lines)


def _add_folder(config_path: str, folder: str) -> None:
    """Do what `--config-dir` does in `hydra.main`; `compose` has no such argument."""
    search_path = create_config_search_path(config_path)
    search_path.prepend("command-line", f"file://{Path(folder).resolve()}", anchor="schema")
    GlobalHydra.instance().clear()
    Hydra.create_main_hydra2("app", search_path)
