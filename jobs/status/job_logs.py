"""Finds the logs of a point: its own and its job's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from jobs.files import is_outside
from jobs.sweeps.reading import Task
from jobs.text import parse_int

SHELL_LOG = "_batch_log.out"


def job_logs(folder: Path) -> list[Path]:
    """The scheduler's logs in a job's folder: errors first, then output."""
    names = [path for path in folder.glob("*_log.*") if path.suffix in (".err", ".out")]
    return sorted(path for path in names if path.is_file() and not is_outside(path, folder))


def logs_of(
    folder: Path | None,
    logs: list[Path],
    point_id: str,
    task: Task | None,
    shell_logs: Mapping[str, Path],
) -> list[Path]:
    """The logs that may tell why a point ended, the most telling first.

    Args:
        folder: Its job's folder; None: there is none.
        logs: What `job_logs` found there.
        point_id: The point.
        task: Its task, where the ledger names one.
        shell_logs: Where shells wrote theirs, for a job that has lost its folder or had none.

    Returns:
        Files that exist: the newest attempt's own log, then the job's.
    """
    own: list[Path] = []
    if folder is not None:
        found = sorted((folder / point_id).glob("attempt-*/output.log"), key=_number)
        own = [path for path in found if not is_outside(path, folder)][-1:]
    own += [path for path in logs if task is None or is_of_tasks(path.name, {task})]
    shell_log = shell_logs.get(str(task))
    if shell_log is not None and not any(path.name == f"{task}{SHELL_LOG}" for path in own):
        own.append(shell_log)
    return own


def _number(path: Path) -> int:
    digits = path.parent.name.removeprefix("attempt-")
    return parse_int(digits) or 0


def is_of_tasks(name: str, tasks: set[Task]) -> bool:
    """True if a file of a job's folder is of one of these tasks, or of all of them."""
    if not name.endswith(("_log.out", "_log.err")):
        return True
    return any(name.startswith(f"{task}_") for task in tasks)
