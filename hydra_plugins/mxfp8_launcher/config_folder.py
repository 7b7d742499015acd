"""Adds the user's own config folder to Hydra's search path."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin

from jobs.errors import UsageError

VARIABLE = "MXFP8_CONFIG_DIR"


def user_config_folder() -> Path | None:
    """The folder of a user's own shape/, gpu/, cluster/ and grid/ files.

    Returns:
        What MXFP8_CONFIG_DIR names, else `mxfp8-attention` in the user's config folder; None
        where that folder does not exist and was not asked for.

    Raises:
        UsageError: MXFP8_CONFIG_DIR names no folder.
    """
    named = os.environ.get(VARIABLE)
    if named:
        folder = Path(os.path.expanduser(named))
        if not folder.is_dir():
            raise UsageError(f"{VARIABLE} must name a folder, got {named}; make it or unset it")
        return folder
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    folder = Path(os.path.expanduser(home)) / "mxfp8-attention"
    try:
        return folder if folder.is_dir() else None
    except OSError:  # a home that may not be looked into holds no choices
        return None


def refuse_hidden(shipped: Path, words: Sequence[str]) -> None:
    """Refuses a file of a user's own that another one of the same name would hide.

    Args:
        shipped: The configuration that comes with the tool, and comes first.
        words: What goes to Hydra: `--config-dir` is read.

    Raises:
        UsageError: Names both files.
    """
    named = [Path(word.partition("=")[2]) for word in words if word.startswith("--config-dir=")]
    own = user_config_folder()
    groups = ["", *sorted(entry.name for entry in shipped.iterdir() if entry.is_dir())]
    first: dict[tuple[str, str], Path] = {}
    for folder in [shipped, *named, *([own] if own else [])]:
        for group in groups:
            for path in sorted((folder / group).glob("*.yaml")):
                if not group and path.stem.startswith("schema_") and folder != shipped:
                    raise UsageError(f"{path} hides a type of this tool; give it another name")
                before = first.setdefault((group, path.name), path)
                if before.resolve() != path.resolve():
                    raise UsageError(f"{path} is hidden by {before}; give it another name")


class UserConfigFolder(SearchPathPlugin):
    """Found by Hydra in this package; appended, so that it adds choices and hides none."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Appends the user's folder, where there is one."""
        try:
            folder = user_config_folder()
        except UsageError:  # `refuse_hidden` told it, to a verb that needs none as a note
            return
        if folder is not None:
            search_path.append(provider="user", path=f"file://{folder.resolve()}")
