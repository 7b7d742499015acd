"""Finds the logs of points: their own and their jobs'."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from jobs.files import attempt_folders, is_outside
from jobs.sweeps.sweep_files import SweepFiles, Task

SHELL_LOG = "_batch_log.out"
"""End of the name of a batch shell's log in its job's folder."""
_ENDS = ("_log.err", "_log.out")


class JobLogs:
    """Logs of a sweep's jobs; each job's folder is listed once.

    Attributes:
        folders: Folders of the jobs, by job id.
        shell_logs: Logs of batch shells that no job's folder may hold, by job or task id.
    """

    def __init__(self, folders: Mapping[str, Path], shell_logs: Mapping[str, Path]) -> None:
        self.folders = folders
        self.shell_logs = shell_logs
        self._lists: dict[Path, list[Path]] = {}

    @classmethod
    def of_sweep(cls, sweep: SweepFiles) -> JobLogs:
        """Return the logs in a sweep's own folder."""
        return cls(sweep.job_folders, sweep.shell_logs)

    def of_point(self, point_id: str, job: str, task: Task | None) -> list[Path]:
        """Return the logs that may explain a point's state, most relevant first.

        They are the newest attempt's own log, then those of its job, or of its task if known.
        """
        logs: list[Path] = []
        folder = self.folders.get(job)
        if folder is not None:
            own = [path / "output.log" for path in attempt_folders(folder / point_id)]
            logs = [path for path in own if _is_log(path, folder)][-1:]
            logs += [path for path in self._of_job(folder) if task is None or is_of(path, {task})]
        shell_log = self.shell_logs.get(str(task))
        if shell_log is not None and not any(path.name == f"{task}{SHELL_LOG}" for path in logs):
            logs.append(shell_log)
        return logs

    def _of_job(self, folder: Path) -> list[Path]:
        """Return the scheduler's logs of a job: errors first, then output."""
        if folder not in self._lists:
            paths = sorted(folder.glob("*_log.*"))
            logs = [one for one in paths if one.name.endswith(_ENDS) and _is_log(one, folder)]
            self._lists[folder] = logs
        return self._lists[folder]


def is_of(path: Path, tasks: Iterable[Task]) -> bool:
    """True if a file of a job's folder belongs to one of these tasks, or to all of them."""
    name = path.name
    return not name.endswith(_ENDS) or any(name.startswith(f"{task}_") for task in tasks)


def _is_log(path: Path, folder: Path) -> bool:
    return path.is_file() and not is_outside(path, folder)
