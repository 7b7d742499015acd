"""Reads a sweep's folder as it is found: running, partial, damaged, or copied from elsewhere.

Nothing here trusts the folder: a link that leaves it, a file that is no regular file, a line that
is no JSON and a name that is no id each become a `Problem`, and reading goes on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from jobs.errors import RecordError
from jobs.files import MAX_BYTES, MAX_TABLE_BYTES, read_bounded
from jobs.record import Record, Started, read_record
from jobs.sweeps.ledger import PLAN_NAME, JobLine, PlannedPoint, SweepInfo
from jobs.sweeps.problem import Problem
from jobs.text import parse_int, pluralize
from jobs.validation import first_problem

Row = TypeVar("Row", bound=BaseModel)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,127}")
LOG_ENDS = ("_log.out", "_log.err")
SHELL_LOG_END = "_batch.out"
_ATTEMPT = re.compile(r"attempt-(\d{1,6})")
_ATTEMPT_FILES = frozenset({"started.json", "record.json", "output.log"})


@dataclass(frozen=True)
class Task:
    """A point's place in a submission: a job, or one task of an array."""

    job_id: str
    index: int | None = None

    def __str__(self) -> str:
        return self.job_id if self.index is None else f"{self.job_id}_{self.index}"


@dataclass(frozen=True)
class Attempt:
    """One attempt's folder and what could be read in it."""

    point_id: str
    job_folder: str
    number: int
    folder: Path
    started: Started | None = None
    record: Record | None = None
    damage: str | None = None


@dataclass
class SweepFiles:
    """What a sweep's folder holds.

    Attributes:
        sweep_id: The sweep, by its folder's name where `sweep.json` cannot say.
        folder: Where it lies.
        info: What `sweep.json` held.
        planned: The points, in the plan's order.
        tasks: Submissions of each point, oldest first, from `jobs.jsonl`.
        lines: The submissions themselves, by job.
        attempts: Attempts of each point, oldest first.
        job_folders: The folders of jobs that are there, by name.
        shell_logs: Where the shell wrote its log, by the job or task as people type it; the
            job's folder has it by a second name, unless the folder was never made, or is lost.
        problems: What could not be read.
    """

    sweep_id: str
    folder: Path
    info: SweepInfo | None = None
    planned: dict[str, PlannedPoint] = field(default_factory=dict)
    tasks: dict[str, list[Task]] = field(default_factory=dict)
    lines: dict[str, JobLine] = field(default_factory=dict)
    attempts: dict[str, list[Attempt]] = field(default_factory=dict)
    job_folders: dict[str, Path] = field(default_factory=dict)
    shell_logs: dict[str, Path] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, str]:
        """What its jobs may be called by: the folder may have been renamed since."""
        return self.sweep_id, self.folder.name


def read_sweep(folder: Path) -> SweepFiles:
    """Reads everything of one sweep's folder that can be read.

    Args:
        folder: `runs/<sweep_id>`, or a copy of one.

    Returns:
        What is there; points that only an attempt or `jobs.jsonl` names are planned points too.
    """
    sweep = SweepFiles(folder.name, folder)
    _read_info(sweep)
    for planned in _rows(sweep, PLAN_NAME, PlannedPoint):
        if _is_name(planned.point_id):
            sweep.planned[planned.point_id] = planned
    _compare_count(sweep)
    for line in _rows(sweep, "jobs.jsonl", JobLine):
        sweep.lines[line.job_id] = line
        for index, point_ids in line.tasks.items():
            alone = len(line.tasks) == 1 and index == "0"
            task = Task(line.job_id, None if alone else parse_int(index))
            for point_id in filter(_is_name, point_ids):
                sweep.tasks.setdefault(point_id, []).append(task)
    _read_folders(sweep)
    for point_id in [*sweep.tasks, *sweep.attempts]:
        if point_id not in sweep.planned:
            config = _config_from(sweep, point_id)
            place = len(sweep.planned)
            sweep.planned[point_id] = PlannedPoint(point_id=point_id, index=place, config=config)
    for attempts in sweep.attempts.values():
        attempts.sort(key=_order(sweep, attempts))
    return sweep


def _read_info(sweep: SweepFiles) -> None:
    path = sweep.folder / "sweep.json"
    if not path.exists():
        sweep.problems.append(Problem(path.name, "is missing"))
        return
    text = _text(sweep, path)
    if text is None:
        return
    try:
        sweep.info = SweepInfo.model_validate_json(text)
    except ValidationError as error:
        sweep.problems.append(Problem(path.name, f"is damaged: {first_problem(error)}"))
        return
    if _is_name(sweep.info.sweep_id):
        sweep.sweep_id = sweep.info.sweep_id


def _compare_count(sweep: SweepFiles) -> None:
    """Names a plan that lost lines; one whose lines are damaged, or missing, is named already."""
    named = any(problem.file.startswith(PLAN_NAME) for problem in sweep.problems)
    if sweep.info is None or named or len(sweep.planned) == sweep.info.points:
        return
    plans = pluralize(len(sweep.planned), "point")
    what = f"plans {plans}, but sweep.json says points: {sweep.info.points}"
    sweep.problems.append(Problem(PLAN_NAME, what))


def _rows(sweep: SweepFiles, name: str, kind: type[Row]) -> Iterator[Row]:
    path = sweep.folder / name
    if not path.exists():
        if kind is PlannedPoint:
            sweep.problems.append(Problem(name, "is missing: points are taken from records"))
        return
    text = _text(sweep, path, MAX_TABLE_BYTES) or ""
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            yield kind.model_validate_json(line)
        except ValidationError as error:
            sweep.problems.append(
                Problem(f"{name}:{number}", f"is damaged: {first_problem(error)}")
            )


def _read_folders(sweep: SweepFiles) -> None:
    """Finds attempts and jobs at any depth: a copy may have lost or gained a level."""
    for name, folders, files in os.walk(sweep.folder, onerror=_noted(sweep)):
        folder = Path(name)
        for link in [sub for sub in folders if (folder / sub).is_symlink()]:
            sweep.problems.append(
                Problem(_inside(sweep, folder / link), "is a link: not followed")
            )
        folders[:] = sorted(sub for sub in folders if _is_name(sub))
        match = _ATTEMPT.fullmatch(folder.name)
        if match is not None and _is_attempt(sweep, folder, files):
            point_folder, job_folder = folder.parent, folder.parent.parent
            sweep.job_folders.setdefault(job_folder.name, job_folder)
            record, damage = None, None
            if "record.json" in files:
                record, damage = _record(sweep, folder / "record.json")
            has_started = "started.json" in files
            attempt = Attempt(
                point_folder.name,
                job_folder.name,
                int(match[1]),
                folder,
                _started(sweep, folder / "started.json") if has_started else None,
                record,
                damage,
            )
            sweep.attempts.setdefault(attempt.point_id, []).append(attempt)
            folders.clear()
        elif folder.parent.name == "submissions":
            ends = (file for file in files if file.endswith(SHELL_LOG_END))
            sweep.shell_logs |= {file.removesuffix(SHELL_LOG_END): folder / file for file in ends}
        elif any(file.endswith(LOG_ENDS) for file in files):
            sweep.job_folders.setdefault(folder.name, folder)


def _is_attempt(sweep: SweepFiles, folder: Path, files: list[str]) -> bool:
    """Whether a folder of an attempt's name is one: of a point, planned or with files of ours."""
    if folder == sweep.folder or folder.parent == sweep.folder:
        return False
    return folder.parent.name in sweep.planned or not _ATTEMPT_FILES.isdisjoint(files)


def _noted(sweep: SweepFiles) -> Callable[[OSError], None]:
    def note(error: OSError) -> None:
        where = _inside(sweep, Path(error.filename)) if error.filename else "."
        sweep.problems.append(Problem(where, f"cannot be read: {error.strerror}"))

    return note


def _started(sweep: SweepFiles, path: Path) -> Started | None:
    text = _text(sweep, path)
    if text is None:
        return None
    try:
        return Started.model_validate_json(text)
    except ValidationError as error:
        sweep.problems.append(Problem(_inside(sweep, path), f"is damaged: {first_problem(error)}"))
        return None


def _record(sweep: SweepFiles, path: Path) -> tuple[Record | None, str | None]:
    try:
        record = read_record(path, inside=sweep.folder)
        check_owner(record, path.parent.parent.name, path)
        return record, None
    except RecordError as error:
        what = error.problem
        sweep.problems.append(Problem(_inside(sweep, path), what))
        return None, what


def check_owner(record: Record, point_id: str, path: Path) -> None:
    """Raise RecordError if a record belongs to another point, as after a folder was copied."""
    owner = record.identity.point_id
    if owner != point_id:
        raise RecordError(path, f"is the record of {owner!r}, not of {point_id!r}")


def _config_from(sweep: SweepFiles, point_id: str) -> dict[str, Any]:
    records = [attempt.record for attempt in sweep.attempts.get(point_id, []) if attempt.record]
    return records[-1].config if records else {}


def _order(
    sweep: SweepFiles, attempts: list[Attempt]
) -> Callable[[Attempt], tuple[int, str, str, int]]:
    """The order of a point's attempts: of jobs as the ledger has them, within a job by number.

    The clocks of nodes differ: what they say decides only between jobs that no ledger knows.
    """
    jobs = [task.job_id for task in sweep.tasks.get(attempts[0].point_id, [])]
    began: dict[str, str] = {}
    for attempt in attempts:
        if attempt.job_folder not in jobs and attempt.started is not None:
            known = began.get(attempt.job_folder, attempt.started.started_at)
            began[attempt.job_folder] = min(known, attempt.started.started_at)

    def place(attempt: Attempt) -> tuple[int, str, str, int]:
        folder = attempt.job_folder
        known = jobs.index(folder) if folder in jobs else -1
        return known, began.get(folder, ""), folder, attempt.number

    return place


def _text(sweep: SweepFiles, path: Path, limit: int = MAX_BYTES) -> str | None:
    try:
        return read_bounded(path, limit, inside=sweep.folder).decode("utf-8", "replace")
    except OSError as error:
        sweep.problems.append(Problem(_inside(sweep, path), f"cannot be read: {error.strerror}"))
        return None


def _inside(sweep: SweepFiles, path: Path) -> str:
    return str(path.relative_to(sweep.folder))


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None
