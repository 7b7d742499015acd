"""Copies a job's logs, script and records into a collection; never a pickle, never twice."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

from jobs.files import MAX_TABLE_BYTES, is_outside, open_regular, read_bounded, replace_atomically
from jobs.status.job_logs import SHELL_LOG, is_of_tasks
from jobs.sweeps.problem import Problem
from jobs.sweeps.reading import SweepFiles, Task
from jobs.text import mask_secrets

LEDGER_FILES = ("sweep.json", "plan.jsonl", "jobs.jsonl")
_POINT_FILES = frozenset({"point.json", "started.json", "record.json", "output.log"})
_JOB_ENDS = (".sh", ".out", ".err", ".log")


def copy_job(
    sweep: SweepFiles, source: Path, target: Path, point_ids: Iterable[str], tasks: set[Task]
) -> int:
    """Copies what a job left of the chosen points.

    Args:
        sweep: The sweep that the job belongs to; takes the problems that are met.
        source: The job's folder.
        target: Where its files go; made if it is missing.
        point_ids: The points that are wanted.
        tasks: The tasks whose logs are wanted; empty: every log.

    Returns:
        How many files were copied because they were new or had changed.
    """
    target.mkdir(parents=True, exist_ok=True)
    copied = 0
    for path in _files(sweep, source):
        if path.name.endswith(_JOB_ENDS) and (not tasks or is_of_tasks(path.name, tasks)):
            copied += copy_file(sweep, path, target / path.name)
    for point_id in point_ids:
        for name, folders, files in os.walk(source / point_id):
            folders[:] = [sub for sub in folders if not os.path.islink(os.path.join(name, sub))]
            place = target / os.path.relpath(name, source)
            for file in sorted(_POINT_FILES.intersection(files)):
                copied += copy_file(sweep, Path(name, file), place / file)
    return copied


def copy_file(sweep: SweepFiles, source: Path, target: Path) -> bool:
    """Copies a regular file with its time, whole or not at all, unless it is there already.

    Plans and scripts hold what a job is given; the copy, which is made to be shared, does not tell
    the secrets among it.

    Args:
        sweep: Takes the problem where the file cannot be copied.
        source: A file of the sweep; a link that leaves the sweep's folder is not followed.
        target: The copy; its folder is made.

    Returns:
        Whether anything was copied.
    """
    try:
        about = source.lstat()
        if stat.S_ISLNK(about.st_mode):
            if is_outside(source, sweep.folder):
                return False
            about = source.stat()
        if not stat.S_ISREG(about.st_mode) or _is_same(about, target):
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        with replace_atomically(target) as part:
            _copy(source, part, sweep.folder)
            os.utime(part, ns=(about.st_atime_ns, about.st_mtime_ns))
    except OSError as error:
        where = str(source.relative_to(sweep.folder))
        problem = Problem(where, f"cannot be copied: {error.strerror}")
        if not any(known.file == where for known in sweep.problems):
            sweep.problems.append(problem)
        return False
    return True


def _copy(source: Path, part: Path, folder: Path) -> None:
    if _is_masked(source.name):
        data = read_bounded(source, MAX_TABLE_BYTES, inside=folder)
        # Bytes that are no text stay what they are.
        text = mask_secrets(data.decode("utf-8", "surrogateescape"))
        part.write_bytes(text.encode("utf-8", "surrogateescape"))
    elif source.suffix == ".json":  # what is too large to be read is not worth a copy
        part.write_bytes(read_bounded(source, inside=folder))
    else:
        with open_regular(source, inside=folder) as read, part.open("wb") as written:
            shutil.copyfileobj(read, written, 2**20)


def _is_masked(name: str) -> bool:
    return name in LEDGER_FILES or name.endswith(".sh")


def copy_shell_logs(sweep: SweepFiles, tasks: Iterable[Task], target: Path) -> None:
    """Copies the shells' logs of a job whose folder does not hold them.

    Args:
        sweep: The sweep that the job belongs to.
        tasks: The job's tasks.
        target: Where the job's files go, and went already.
    """
    for task in tasks:
        path = sweep.shell_logs.get(str(task))
        copy = target / f"{task}{SHELL_LOG}"
        if path is not None and not copy.exists():
            copy_file(sweep, path, copy)


def _is_same(about: os.stat_result, target: Path) -> bool:
    try:
        there = target.stat()
    except FileNotFoundError:
        return False
    same_size = there.st_size == about.st_size or _is_masked(target.name)
    return same_size and there.st_mtime_ns == about.st_mtime_ns


def _files(sweep: SweepFiles, folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_file())
    except OSError as error:
        where = str(folder.relative_to(sweep.folder))
        sweep.problems.append(Problem(where, f"cannot be read: {error.strerror}"))
        return []
