"""`launch.share`: makes a sweep's folder, and says who may read it and what is in their way."""

from __future__ import annotations

import grp
from pathlib import Path

from conf.choices import Share
from conf.verbs import Run
from jobs.sweeps.ledger import Ledger
from jobs.sweeps.plan import runs_dir
from jobs.terminal import screen
from jobs.text import shell_quote


def new_ledger(config: Run) -> Ledger:
    """Makes the folder of a new sweep, readable as `launch.share` says.

    Args:
        config: Where sweeps lie, and who may read this one.

    Returns:
        The empty ledger; of a shared one it was said which group it is shared with.

    Raises:
        LedgerError: The folder cannot be made.
    """
    shared = config.launch.share is Share.group
    ledger = Ledger.create(runs_dir(config), shared=shared)
    if shared:
        screen.say(screen.console(), _who_may_read(ledger.root))
    return ledger


def _who_may_read(root: Path) -> str:
    gid = root.stat().st_gid
    name = _group(gid)
    closed = closed_to_group(root, gid)
    if closed is None:
        return f"Shared: group {name} may read the sweep"
    wanted = "g+rx" if closed == root.parent else "g+x"
    return (
        f"Note: group {name} may read the sweep, but cannot enter {closed}; "
        f"let it, or take another runs_dir: chmod {wanted} {shell_quote(closed)}"
    )


def closed_to_group(root: Path, gid: int) -> Path | None:
    """The outermost folder on the way to a sweep that a group's members cannot pass.

    Args:
        root: The sweep's folder.
        gid: The group.

    Returns:
        The folder; None where the way is open. Sweeps are listed, so the last one must be
        readable too.
    """
    for folder in reversed(root.parents):
        status = folder.stat()
        needed = 0o5 if folder == root.parent else 0o1
        given = status.st_mode >> 3 if status.st_gid == gid else status.st_mode
        if given & needed != needed:
            return folder
    return None


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
