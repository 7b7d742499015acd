"""`launch.share=group`: which group may read a sweep, and which folder keeps it out."""

from __future__ import annotations

import grp
from pathlib import Path

from jobs.text import shell_quote


def sharing_note(root: Path) -> str:
    """Return with which group a sweep's folder is shared, or which folder is closed to it."""
    gid = root.stat().st_gid
    closed = closed_to_group(root, gid)
    if closed is None:
        return f"Shared with group {_group(gid)}."
    mode = "g+rx" if closed == root.parent else "g+x"
    return (
        f"Note: group {_group(gid)} may read the sweep, but cannot enter {closed}; to allow it: "
        f"chmod {mode} {shell_quote(closed)} (or choose another runs_dir)"
    )


def closed_to_group(root: Path, gid: int) -> Path | None:
    """Return the outermost folder above a sweep that members of a group cannot enter.

    The innermost one must be readable too, because sweeps are listed.
    """
    for folder in reversed(root.parents):
        status = folder.stat()
        needed = 0o5 if folder == root.parent else 0o1
        mode = status.st_mode >> 3 if status.st_gid == gid else status.st_mode
        if mode & needed != needed:
            return folder
    return None


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
