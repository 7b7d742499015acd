"""Reads a sweep's folder in any condition: running, partial, damaged or copied from elsewhere.

Nothing here trusts the folder. A link that leaves it, a special file, a line that is not JSON and
a name that is not an id each become a `Problem`, and reading continues.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from jobs.errors import RecordError
from jobs.files import MAX_BYTES, MAX_TABLE_BYTES, attempt_number, read_bounded
from jobs.record import Record, Started, read_record
from jobs.sweeps.ledger import JOBS_NAME, SNAPSHOT, SWEEP_NAME, JobLine, SweepInfo
from jobs.sweeps.planned_point import PLAN_NAME, PlannedPoint
from jobs.sweeps.sweep_files import Attempt, SweepFiles, Task
from jobs.text import parse_int, pluralize
from jobs.validation import first_problem

_Line = TypeVar("_Line", bound=BaseModel)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,127}")
_JOB_LOG_ENDS = ("_log.out", "_log.err")
_SHELL_LOG_END = "_batch.out"
_ATTEMPT_FILES = frozenset({"started.json", "record.json", "output.log"})


def read_sweep(folder: Path) -> SweepFiles:
    """Read everything readable in `runs/<sweep_id>`, or in a copy of it.

    Points that only an attempt or `jobs.jsonl` names count as planned.
    """
    reader = _Reader(folder)
    reader.read_info()
    reader.read_plan()
    reader.read_jobs()
    reader.read_folders()
    reader.add_unplanned_points()
    reader.order_attempts()
    return reader.sweep


def check_owner(record: Record, point_id: str, path: Path) -> None:
    """Raise RecordError if a record belongs to another point, as after copying a folder."""
    owner = record.identity.point_id
    if owner != point_id:
        raise RecordError(path, f"is the record of {owner!r}, not of {point_id!r}")


class _Reader:
    """Fills a `SweepFiles` from its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sweep = SweepFiles(folder.name, folder)

    def read_info(self) -> None:
        path = self.folder / SWEEP_NAME
        if not path.exists():
            self.sweep.add_problem(path, "is missing")
            return
        self.sweep.info = info = self._model(path, SweepInfo)
        if info is not None and _is_name(info.sweep_id):
            self.sweep.sweep_id = info.sweep_id

    def read_plan(self) -> None:
        if not (self.folder / PLAN_NAME).exists():
            self.sweep.add_problem(PLAN_NAME, "is missing: points are taken from records")
            return
        points = [one for one in self._lines(PLAN_NAME, PlannedPoint) if _is_name(one.point_id)]
        self.sweep.planned = {point.point_id: point for point in points}
        info, count = self.sweep.info, len(self.sweep.planned)
        # A plan whose lines are damaged is a problem already.
        damaged = any(problem.file.startswith(PLAN_NAME) for problem in self.sweep.problems)
        if info is not None and not damaged and count != info.points:
            what = f"holds {pluralize(count, 'point')}, but {SWEEP_NAME} counts {info.points}"
            self.sweep.add_problem(PLAN_NAME, what)

    def read_jobs(self) -> None:
        for line in self._lines(JOBS_NAME, JobLine):
            self.sweep.lines[line.job_id] = line
            for index, point_ids in line.tasks.items():
                single = len(line.tasks) == 1 and index == "0"
                task = Task(line.job_id, None if single else parse_int(index))
                for point_id in filter(_is_name, point_ids):
                    self.sweep.tasks.setdefault(point_id, []).append(task)

    def read_folders(self) -> None:
        """Find attempts and jobs at any depth: a copy may have lost or gained a level."""
        for name, folders, files in os.walk(self.folder, onerror=self._note_unreadable):
            folder = Path(name)
            for link in [sub for sub in folders if (folder / sub).is_symlink()]:
                self.sweep.add_problem(folder / link, "is a link and was not followed")
            folders[:] = sorted(sub for sub in folders if _is_name(sub) and sub != SNAPSHOT)
            number = attempt_number(folder)
            if number is not None and self._is_attempt(folder, files):
                self._read_attempt(folder, number, files)
                folders.clear()
            elif folder.parent.name == "submissions":
                for file in files:
                    if file.endswith(_SHELL_LOG_END):
                        task = file.removesuffix(_SHELL_LOG_END)
                        self.sweep.shell_logs[task] = folder / file
            elif any(file.endswith(_JOB_LOG_ENDS) for file in files):
                self.sweep.job_folders.setdefault(folder.name, folder)

    def add_unplanned_points(self) -> None:
        planned = self.sweep.planned
        for point_id in [*self.sweep.tasks, *self.sweep.attempts]:
            if point_id not in planned:
                attempts = self.sweep.attempts.get(point_id, [])
                configs = [attempt.record.config for attempt in attempts if attempt.record]
                config = configs[-1] if configs else {}
                point = PlannedPoint(point_id=point_id, index=len(planned), config=config)
                planned[point_id] = point

    def order_attempts(self) -> None:
        """Order a point's attempts: jobs as in the ledger, within a job by number.

        The clocks of nodes differ. They decide only between jobs that the ledger does not list.
        """
        for point_id, attempts in self.sweep.attempts.items():
            jobs = [task.job_id for task in self.sweep.tasks.get(point_id, [])]
            first_start: dict[str, str] = {}
            for attempt in attempts:
                if attempt.started is not None:
                    moment = attempt.started.started_at
                    earliest = first_start.get(attempt.job_folder, moment)
                    first_start[attempt.job_folder] = min(earliest, moment)

            def place(
                attempt: Attempt, jobs: list[str] = jobs, first_start: dict[str, str] = first_start
            ) -> tuple[int, str, str, int]:
                job = attempt.job_folder
                if job in jobs:
                    return jobs.index(job), "", job, attempt.number
                return -1, first_start.get(job, ""), job, attempt.number

            attempts.sort(key=place)

    def _is_attempt(self, folder: Path, files: list[str]) -> bool:
        """True for an attempt of a planned point, or one with files of ours."""
        if folder == self.folder or folder.parent == self.folder:
            return False
        return folder.parent.name in self.sweep.planned or not _ATTEMPT_FILES.isdisjoint(files)

    def _read_attempt(self, folder: Path, number: int, files: list[str]) -> None:
        point_id, job_folder = folder.parent.name, folder.parent.parent
        self.sweep.job_folders.setdefault(job_folder.name, job_folder)
        record, damage, started = None, None, None
        if "record.json" in files:
            record, damage = self._record(folder / "record.json", point_id)
        if "started.json" in files:
            started = self._model(folder / "started.json", Started)
        attempt = Attempt(point_id, job_folder.name, number, folder, started, record, damage)
        self.sweep.attempts.setdefault(point_id, []).append(attempt)

    def _record(self, path: Path, point_id: str) -> tuple[Record | None, str | None]:
        try:
            record = read_record(path, inside=self.folder)
            check_owner(record, point_id, path)
        except RecordError as error:
            self.sweep.add_problem(path, error.problem)
            return None, error.problem
        return record, None

    def _lines(self, name: str, kind: type[_Line]) -> Iterator[_Line]:
        path = self.folder / name
        text = (self._text(path, MAX_TABLE_BYTES) or "") if path.exists() else ""
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip():
                continue
            try:
                yield kind.model_validate_json(line)
            except ValidationError as error:
                self.sweep.add_problem(f"{name}:{number}", f"is damaged: {first_problem(error)}")

    def _model(self, path: Path, kind: type[_Line]) -> _Line | None:
        text = self._text(path)
        if text is None:
            return None
        try:
            return kind.model_validate_json(text)
        except ValidationError as error:
            self.sweep.add_problem(path, f"is damaged: {first_problem(error)}")
            return None

    def _text(self, path: Path, limit: int = MAX_BYTES) -> str | None:
        try:
            return read_bounded(path, limit, inside=self.folder).decode("utf-8", "replace")
        except OSError as error:
            self.sweep.add_problem(path, f"cannot be read: {error.strerror}")
            return None

    def _note_unreadable(self, error: OSError) -> None:
        path = Path(error.filename) if error.filename else self.folder
        self.sweep.add_problem(path, f"cannot be read: {error.strerror}")


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None
