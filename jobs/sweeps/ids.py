"""Every form of an id: SLURM's own, and those of points, sweeps, local jobs and folders."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from jobs.errors import InvalidWord, UsageError

# SLURM's own upper bounds: job ids are 26 bits wide, MaxArraySize is at most 4,000,001.
MAX_JOB_ID = 0x03FF_FFFF
MAX_ARRAY_INDEX = 4_000_000
_MAX_COMPONENT = 128

_JOB = re.compile(
    r"(?P<job>\d+)"
    r"(?:_(?:(?P<index>\d+)|\[(?P<tasks>[^\]]*)\])|\+(?P<component>\d+))?"
    r"(?:\.(?P<step>\d+|batch|extern|interactive))?"
)
_RANGE = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")
_OWN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
_FORMS = "14, 14_2, 14_[2-7], 14.batch, s-..., p-..., local-..., latest, or a folder with a /"


@dataclass(frozen=True)
class JobTarget:
    """A SLURM job, or some tasks of an array.

    Attributes:
        job: Id of an array, or of a job or task; only the cluster can tell which.
        tasks: Array indices; None means the whole job.
        component: Component of a heterogeneous job.
        step: Step, which never narrows what is meant.
    """

    job: int
    tasks: tuple[range, ...] | None = None
    component: int | None = None
    step: str | None = None

    def __str__(self) -> str:
        step = f".{self.step}" if self.step else ""
        if self.component is not None:
            return f"{self.job}+{self.component}{step}"
        if self.tasks is None:
            return f"{self.job}{step}"
        if len(self.tasks) == 1 and len(self.tasks[0]) == 1:
            return f"{self.job}_{self.tasks[0][0]}{step}"
        return f"{self.job}_[{','.join(map(_range_text, self.tasks))}]{step}"

    def covers(self, job: int, task: int | None) -> bool:
        """True if it means this job, or this task of this array."""
        if job != self.job:
            return False
        return self.tasks is None or any(task in part for part in self.tasks if task is not None)


@dataclass(frozen=True)
class SweepTarget:
    """A sweep: `s-...`."""

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
    """A job that ran on this machine: `local-...`."""

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
    """A sweep's folder, possibly a copy: any word with a `/`."""

    folder: Path

    def __str__(self) -> str:
        return str(self.folder)


Target = JobTarget | SweepTarget | PointTarget | LocalTarget | LatestTarget | FolderTarget


def looks_like_target(word: str) -> bool:
    """True if a word of the command line can only be an id, valid or not.

    An override contains `=`, a flag starts with `-`, and a verb consists of letters.
    """
    if "=" in word or word.startswith(("-", "+")):
        return False
    if word.startswith("~") and "/" not in word:  # removes a key; with a / it is a folder
        return False
    return word[:1].isdecimal() or "/" in word or word.startswith(("s-", "p-", "local-", "latest"))


def parse_target(word: str) -> Target:
    """Return the meaning of an id in any form that SLURM or this tool prints.

    Raises:
        InvalidWord: It is not an id.
    """
    if "/" in word:
        return FolderTarget(Path(os.path.expanduser(word)))
    if word.strip(", ") and "," in word and "[" not in word:
        raise InvalidWord(repr(word), "ids are separated by spaces", _separated(word))
    if word == "latest":
        return LatestTarget()
    for prefix, kind in (("s-", SweepTarget), ("p-", PointTarget), ("local-", LocalTarget)):
        if word.startswith(prefix):
            if not _OWN_NAME.fullmatch(word.removeprefix(prefix)):
                raise InvalidWord(repr(word), "an id has only letters, digits and dashes")
            return kind(word)
    match = _JOB.fullmatch(word) if word.isascii() else None
    if match is None:
        raise InvalidWord(repr(word), "not an id", f"use one of {_FORMS}")
    component = match["component"]
    return JobTarget(
        job=_number(match["job"], MAX_JOB_ID, word),
        tasks=_tasks(match, word),
        component=None if component is None else _number(component, _MAX_COMPONENT, word),
        step=match["step"],
    )


def _separated(word: str) -> str:
    """Return how to write a list with commas: as tasks of one array, or as several ids."""
    first, *others = filter(None, (part.strip() for part in word.split(",")))
    array, underscore, index = first.partition("_")
    tasks = f"{array}_[{','.join((index, *others))}]"
    if underscore and others and _is_id(tasks):
        return f"use {tasks}"
    if all(map(_is_id, (first, *others))):
        return f"use {' '.join((first, *others))}"
    return "for example 14_0 15 s-..."


def _is_id(word: str) -> bool:
    try:
        parse_target(word)
    except UsageError:
        return False
    return True


def _tasks(match: re.Match[str], word: str) -> tuple[range, ...] | None:
    if match["index"] is not None:
        index = _number(match["index"], MAX_ARRAY_INDEX, word)
        return (range(index, index + 1),)
    if match["tasks"] is None:
        return None
    # squeue abbreviates a long list with "...", and the rest cannot be guessed.
    if "..." in match["tasks"]:
        remedy = f"use {match['job']} for the whole array"
        raise InvalidWord(repr(word), "SLURM has abbreviated this list of tasks", remedy)
    listed = re.sub(r"%\d+$", "", match["tasks"])
    return tuple(_range(part, word) for part in listed.split(","))


def _range(text: str, word: str) -> range:
    match = _RANGE.fullmatch(text)
    if match is None:
        raise InvalidWord(repr(word), f"{text!r} is not a range of tasks", "use 2-7 or 0,3,5")
    first = _number(match[1], MAX_ARRAY_INDEX, word)
    last = first if match[2] is None else _number(match[2], MAX_ARRAY_INDEX, word)
    step = 1 if match[3] is None else _number(match[3], MAX_ARRAY_INDEX, word)
    if last < first or step < 1:
        raise InvalidWord(repr(word), f"the range {text!r} does not ascend")
    return range(first, last + 1, step)


def _range_text(tasks: range) -> str:
    if len(tasks) == 1:
        return str(tasks[0])
    step = "" if tasks.step == 1 else f":{tasks.step}"
    return f"{tasks[0]}-{tasks[-1]}{step}"


def _number(digits: str, largest: int, word: str) -> int:
    # The length first: int() of a million digits is slow, or raises.
    digits = digits.lstrip("0") or "0"
    if len(digits) > len(str(largest)) or int(digits) > largest:
        raise InvalidWord(repr(word[:40]), f"a number in it exceeds {largest}")
    return int(digits)
