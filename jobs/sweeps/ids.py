"""Every form in which people paste an id: SLURM's own, and this tool's points, sweeps, folders."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from jobs.errors import UsageError

# SLURM's own upper bounds: job ids are 26 bits wide, MaxArraySize is at most 4,000,001.
MAX_JOB_ID = 0x03FF_FFFF
MAX_ARRAY_INDEX = 4_000_000

_JOB = re.compile(
    r"(?P<job>\d+)"
    r"(?:_(?:(?P<index>\d+)|\[(?P<tasks>[^\]]*)\])|\+(?P<component>\d+))?"
    r"(?:\.(?P<step>\d+|batch|extern|interactive))?"
)
_RANGE = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")
_OWN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")


@dataclass(frozen=True)
class JobTarget:
    """A SLURM job, or some tasks of an array.

    Attributes:
        job: The number, of an array or raw: which of both, only the cluster can say.
        tasks: The array indices that were named; None: the whole job.
        component: The part of a heterogeneous job.
        step: The step that was named; it never narrows what is meant.
    """

    job: int
    tasks: tuple[range, ...] | None = None
    component: int | None = None
    step: str | None = None

    def __str__(self) -> str:
        tail = f".{self.step}" if self.step else ""
        if self.component is not None:
            return f"{self.job}+{self.component}{tail}"
        if self.tasks is None:
            return f"{self.job}{tail}"
        if len(self.tasks) == 1 and len(self.tasks[0]) == 1:
            return f"{self.job}_{self.tasks[0][0]}{tail}"
        return f"{self.job}_[{','.join(_range_text(part) for part in self.tasks)}]{tail}"

    def covers(self, job: int, task: int | None) -> bool:
        """Whether it means this job, or this task of this array."""
        if job != self.job:
            return False
        return self.tasks is None or any(task in part for part in self.tasks if task is not None)


@dataclass(frozen=True)
class SweepTarget:
    """A sweep of this tool: `s-...`."""

    sweep_id: str

    def __str__(self) -> str:
        return self.sweep_id


@dataclass(frozen=True)
class PointTarget:
    """A point: `p-...`."""

    point_id: str

    def __str__(self) -> str:
        return self.point_id


@dataclass(frozen=True)
class LocalTarget:
    """A job that ran on this machine without a scheduler: `local-...`."""

    job_id: str

    def __str__(self) -> str:
        return self.job_id


@dataclass(frozen=True)
class LatestTarget:
    """The newest sweep: `latest`."""

    def __str__(self) -> str:
        return "latest"


@dataclass(frozen=True)
class FolderTarget:
    """A sweep's folder, here or copied from elsewhere: any word with a `/`."""

    folder: Path

    def __str__(self) -> str:
        return str(self.folder)


Target = JobTarget | SweepTarget | PointTarget | LocalTarget | LatestTarget | FolderTarget


def looks_like_target(word: str) -> bool:
    """Whether a word of the command line can only be an id, right or wrong.

    An override holds `=`, a flag starts with `-`, and a verb is made of letters alone.
    """
    if "=" in word or word.startswith(("-", "+")):
        return False
    if word.startswith("~") and "/" not in word:  # takes a key away; with a / it is a folder
        return False
    return word[:1].isdecimal() or "/" in word or word.startswith(("s-", "p-", "local-", "latest"))


def parse_target(word: str) -> Target:
    """Reads an id in any form that SLURM or this tool prints.

    Args:
        word: `14`, `14_2`, `14_[2-7%2]`, `14+0`, `14.batch`, `14_2.0`, `s-...`, `p-...`,
            `local-...`, `latest`, or a folder with a `/` in its name.

    Returns:
        What it means. A bare number may be an array's or a task's own: ask the cluster.

    Raises:
        UsageError: It is none of these; the message says what would be one.
    """
    if "/" in word:
        return FolderTarget(Path(os.path.expanduser(word)))
    if word.strip(", ") and "," in word and "[" not in word:
        raise UsageError(f"ids must be separated by spaces, got {word!r}; {_separated(word)}")
    if word == "latest":
        return LatestTarget()
    for prefix, kind in (("s-", SweepTarget), ("p-", PointTarget), ("local-", LocalTarget)):
        if word.startswith(prefix):
            if not _OWN_NAME.fullmatch(word.removeprefix(prefix)):
                raise UsageError(f"id must have letters, digits and dashes alone, got {word!r}")
            return kind(word)
    match = _JOB.fullmatch(word) if word.isascii() else None
    if match is None:
        raise UsageError(
            f"id must be a job (14, 14_2, 14_[2-7], 14.batch), s-..., p-..., local-..., latest "
            f"or a folder with a /, got {word!r}"
        )
    return JobTarget(
        job=_bounded(match["job"], MAX_JOB_ID, word),
        tasks=_tasks(match, word),
        component=None if match["component"] is None else _bounded(match["component"], 128, word),
        step=match["step"],
    )


def _separated(word: str) -> str:
    """What a list of ids by commas should have been: tasks of one array, or words."""
    first, *others = filter(None, (part.strip() for part in word.split(",")))
    array, underscore, index = first.partition("_")
    tasks = f"{array}_[{','.join((index, *others))}]"
    if underscore and others and _is_id(tasks):
        return f"use {tasks}"
    if all(_is_id(part) for part in (first, *others)):
        return f"use {' '.join((first, *others))}"
    return "for instance 14_0 15 s-..."  # what cannot be an id is not offered, nor shown as it is


def _is_id(word: str) -> bool:
    try:
        parse_target(word)
    except UsageError:
        return False
    return True


def _tasks(match: re.Match[str], word: str) -> tuple[range, ...] | None:
    if match["index"] is not None:
        index = _bounded(match["index"], MAX_ARRAY_INDEX, word)
        return (range(index, index + 1),)
    if match["tasks"] is None:
        return None
    # squeue shortens a long list with "...": what it left out must not be guessed at.
    if "..." in match["tasks"]:
        raise UsageError(
            f"id must name every task, got {word!r}, which SLURM has cut short; "
            f"use {match['job']} for the whole array"
        )
    listed = re.sub(r"%\d+$", "", match["tasks"])
    return tuple(_range(part, word) for part in listed.split(","))


def _range(text: str, word: str) -> range:
    match = _RANGE.fullmatch(text)
    if match is None:
        raise UsageError(f"tasks must be written like 2-7 or 0,3,5, got {text!r} in {word!r}")
    first = _bounded(match[1], MAX_ARRAY_INDEX, word)
    last = first if match[2] is None else _bounded(match[2], MAX_ARRAY_INDEX, word)
    step = 1 if match[3] is None else _bounded(match[3], MAX_ARRAY_INDEX, word)
    if last < first or step < 1:
        raise UsageError(f"tasks must go upwards, got {text!r} in {word!r}")
    return range(first, last + 1, step)


def _range_text(tasks: range) -> str:
    if len(tasks) == 1:
        return str(tasks[0])
    step = "" if tasks.step == 1 else f":{tasks.step}"
    return f"{tasks[0]}-{tasks[-1]}{step}"


def _bounded(digits: str, largest: int, word: str) -> int:
    # Without zeros and the length first: int() of a million digits takes its time, or raises.
    digits = digits.lstrip("0") or "0"
    if len(digits) > len(str(largest)) or int(digits) > largest:
        raise UsageError(f"a number in an id must be at most {largest}, got {word[:40]!r}")
    return int(digits)
