"""Creates the folder of a new sweep and writes its plan, before anything is submitted."""

from __future__ import annotations

import getpass
import json
import os
import platform
import shutil
import sys
from importlib import metadata

from conf.choices import Share
from conf.verbs import Run
from jobs.errors import LedgerError
from jobs.files import readable_like, write_atomic
from jobs.sweeps.folders import runs_dir
from jobs.sweeps.ledger import Ledger, SweepInfo, now
from jobs.sweeps.plan import Plan
from jobs.sweeps.sharing import sharing_note
from jobs.terminal.console import Console


def new_ledger(config: Run) -> Ledger:
    """Create the folder of a sweep, readable as `launch.share` says, and report with whom."""
    shared = config.launch.share is Share.group
    ledger = Ledger.create(runs_dir(config), shared=shared)
    if shared:
        Console().print_line(sharing_note(ledger.root))
    return ledger


def write_ledger(plan: Plan, ledger: Ledger, *, verb: str, command: str) -> None:
    """Write everything that a node or a reader needs to an empty ledger.

    Raises:
        LedgerError: The folder cannot be written; it was removed, as it is after Ctrl-C.
    """
    try:
        with readable_like(ledger.root):
            _write_points(plan, ledger, command)
            info = SweepInfo(
                sweep_id=ledger.sweep_id,
                verb=verb,
                command=command,
                source=plan.source,
                software=software(),
                cluster=plan.config.cluster.name,
                scheduler=plan.config.cluster.scheduler.name,
                host=platform.node(),
                user=_user(),
                created_at=now(),
                points=len(plan.points),
            )
            ledger.write_plan(info, plan.points)
    except BaseException as error:
        shutil.rmtree(ledger.root, ignore_errors=True)
        if not isinstance(error, OSError):
            raise
        problem = f"(runs_dir) cannot be written: {error.strerror or error}"
        raise LedgerError(ledger.root.parent, problem, "nothing was started") from error


def _write_points(plan: Plan, ledger: Ledger, command: str) -> None:
    (ledger.root / "points").mkdir()
    for point in plan.points:
        content = {
            "point_id": point.point_id,
            "sweep_id": ledger.sweep_id,
            "point": point.config,
            "command": command,
            "image": plan.config.cluster.container.image,
            **plan.source.model_dump(),
        }
        write_atomic(ledger.point_file(point.point_id), json.dumps(content, indent=1) + "\n")


def software() -> dict[str, str]:
    """Return versions of the packages that submit a sweep, without importing them."""
    versions = {"python": sys.version.split()[0]}
    for name in ("hydra-core", "submitit", "pydantic", "torch"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
