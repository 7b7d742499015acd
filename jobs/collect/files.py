"""Copies of logs, scripts and records in a collection; no pickles, and nothing twice."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

from jobs.files import MAX_TABLE_BYTES, is_outside, open_regular, read_bounded, replace_atomically
from jobs.status.job_logs import SHELL_LOG, is_of
from jobs.sweeps.ledger import JOBS_NAME, SWEEP_NAME
from jobs.sweeps.planned_point import PLAN_NAME
from jobs.sweeps.sweep_files import SweepFiles, Task
from jobs.text import mask_secrets

LEDGER_FILES = (SWEEP_NAME, PLAN_NAME, JOBS_NAME)
_POINT_FILES = frozenset({"point.json", "started.json", "record.json", "output.log"})
_JOB_ENDS = (".sh", ".out", ".err", ".log")


class SweepCopy:
    """Copy of some points of a sweep in a collection's folder.

    Attributes:
        places: Folder of each copied job, by job id.
    """

    def __init__(
        self, sweep: SweepFiles, point_ids: list[str], folder: Path, jobs: dict[str, None]
    ) -> None:
        """Copy the jobs that ran the points, and add the names of their folders to `jobs`."""
        self.sweep = sweep
        self.point_ids = point_ids
        self.places: dict[str, Path] = {}
        for name in LEDGER_FILES:
            if (sweep.folder / name).is_file():
                self._copy(sweep.folder / name, folder / "sweeps" / sweep.sweep_id / name)
        complete = len(point_ids) == len(sweep.planned)
        tasks = {task for point_id in point_ids for task in sweep.tasks.get(point_id, [])}
        chosen = {job for point_id in point_ids for job in sweep.jobs_of(point_id)}
        logged = {task.job_id for task in tasks if str(task) in sweep.shell_logs}
        for job in sorted({*sweep.job_folders, *logged}):
            if not complete and job not in chosen:
                continue
            # Two sweeps of different clusters may have jobs of one number.
            name = job if job not in jobs else f"{job}.{sweep.sweep_id}"
            jobs[name] = None
            self.places[job] = folder / "jobs" / name
            own = {task for task in tasks if task.job_id == job}
            if job in sweep.job_folders:
                self._copy_job(job, set() if complete else own)
            self._copy_shell_logs(job, own)

    def _copy_job(self, job: str, tasks: set[Task]) -> None:
        """Copy a job's folder; of its logs those of some tasks, or all."""
        source, target = self.sweep.job_folders[job], self.places[job]
        target.mkdir(parents=True, exist_ok=True)
        try:
            files = sorted(path for path in source.iterdir() if path.is_file())
        except OSError as error:
            self.sweep.add_problem(source, f"cannot be read: {error.strerror}")
            files = []
        for path in files:
            if path.name.endswith(_JOB_ENDS) and (not tasks or is_of(path, tasks)):
                self._copy(path, target / path.name)
        for point_id in self.point_ids:
            for name, folders, names in os.walk(source / point_id):
                folders[:] = [child for child in folders if not Path(name, child).is_symlink()]
                place = target / os.path.relpath(name, source)
                for file in sorted(_POINT_FILES.intersection(names)):
                    self._copy(Path(name, file), place / file)

    def _copy_shell_logs(self, job: str, tasks: Iterable[Task]) -> None:
        """Copy logs of batch shells that the job's folder does not hold."""
        for task in tasks:
            path = self.sweep.shell_logs.get(str(task))
            copy = self.places[job] / f"{task}{SHELL_LOG}"
            if path is not None and not copy.exists():
                self._copy(path, copy)

    def _copy(self, source: Path, target: Path) -> None:
        """Copy a regular file with its modification time, unless the copy is current.

        A link that leaves the sweep's folder is not followed. Collections are made to be shared,
        so the copies of plans and scripts hold no secrets.
        """
        folder = self.sweep.folder
        try:
            status = source.lstat()
            if stat.S_ISLNK(status.st_mode):
                if is_outside(source, folder):
                    return
                status = source.stat()
            if not stat.S_ISREG(status.st_mode) or _is_current(target, status):
                return
            target.parent.mkdir(parents=True, exist_ok=True)
            with replace_atomically(target) as part:
                _write_copy(source, part, folder)
                os.utime(part, ns=(status.st_atime_ns, status.st_mtime_ns))
        except OSError as error:
            file = str(source.relative_to(folder))
            if not any(problem.file == file for problem in self.sweep.problems):
                self.sweep.add_problem(source, f"cannot be copied: {error.strerror}")


def _write_copy(source: Path, part: Path, folder: Path) -> None:
    if _may_hold_secrets(source.name):
        data = read_bounded(source, MAX_TABLE_BYTES, inside=folder)
        # Bytes that are not text stay unchanged.
        text = mask_secrets(data.decode("utf-8", "surrogateescape"))
        part.write_bytes(text.encode("utf-8", "surrogateescape"))
    elif source.suffix == ".json":  # a file that is too large to read is not worth a copy
        part.write_bytes(read_bounded(source, inside=folder))
    else:
        with open_regular(source, inside=folder) as reader, part.open("wb") as writer:
            shutil.copyfileobj(reader, writer, 2**20)


def _may_hold_secrets(name: str) -> bool:
    return name in LEDGER_FILES or name.endswith(".sh")


def _is_current(target: Path, source: os.stat_result) -> bool:
    try:
        copy = target.stat()
    except FileNotFoundError:
        return False
    same_size = copy.st_size == source.st_size or _may_hold_secrets(target.name)
    return same_size and copy.st_mtime_ns == source.st_mtime_ns
