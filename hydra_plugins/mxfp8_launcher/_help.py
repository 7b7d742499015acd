"""`--help` of every verb: the verbs, the choices of its groups, its composed configuration.

Hydra's own `--help` copies every composed configuration once for each group, twice: 1.5 s for
ours. This one asks for the choices before it composes.
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
from jobs.errors import UsageError

VERBS = """\
Validates and benchmarks MXFP8 attention, here or on a SLURM cluster.

python launch.py [VERB] [IDS] [key=value ...] [flags]

  run       one point: here, or one SLURM job (the default verb)
  plan      what a sweep would run and submit; submits nothing
  sweep     every point of a grid, or of axes: shape.seq_len=1024,4096 recipe=bf16,mxfp8
  status    one table for a sweep or for job ids
  logs      a job's log
  cancel    cancel a sweep or jobs
  resume    submit the points without a good record
  repro     rerun one point exactly
  collect   tables and report of jobs, from any form of their ids
  compare   what changed between collections, and whether that is more than noise
  baseline  name a collection to compare with
  history   figures over many collections
  doctor    what this machine, or with cluster=... a node, can do

Flags: --cfg job (this configuration as YAML), --info, --multirun (as sweep), --hydra-help,
-sc install=bash (tab completion: eval "$(python launch.py -sc install=bash)")
"""
FOOTER = """\
Your own shape/, gpu/, cluster/ and grid/ files are read from ~/.config/mxfp8-attention/, or from
the folder that MXFP8_CONFIG_DIR names, or --config-dir."""


def help_text(verb: str, words: Sequence[str], config_path: str) -> str:
    """Composes a verb and describes it.

    Args:
        verb: The verb.
        words: What would have gone to Hydra: overrides are composed, `--config-dir` is read.
        config_path: The folder conf/, absolute.

    Returns:
        The whole text.

    Raises:
        UsageError: `--config-dir` names no folder.
    """
    overrides = [word for word in words if not word.startswith("-") and "=" in word]
    folders = [word.partition("=")[2] for word in words if word.startswith("--config-dir=")]
    with initialize_config_dir(config_path, version_base="1.3"):
        if folders:
            _add_folder(config_path, folders[0])
        loader = GlobalHydra.instance().config_loader()
        config = compose(verb, overrides=overrides)
        used = {name: choices(loader, name) for name in groups(loader) if name in config}
    lines = [VERBS]
    if used:
        lines.append("Choices:")
        lines += [f"  {name}={'|'.join(names)}" for name, names in used.items()]
        lines.append("")
    lines.append(f"Configuration of {verb} (any of it as key=value):\n")
    lines.append(OmegaConf.to_yaml(config))
    lines.append(FOOTER)
    return "\n".join(lines)


def _add_folder(config_path: str, folder: str) -> None:
    """Does what `--config-dir` does in Hydra's own main, which `compose` cannot be asked for."""
    if not Path(folder).is_dir():
        raise UsageError(f"--config-dir must name a folder, got {folder}")
    search_path = create_config_search_path(config_path)
    search_path.prepend("command-line", f"file://{Path(folder).resolve()}", anchor="schema")
    GlobalHydra.instance().clear()
    Hydra.create_main_hydra2("app", search_path)
