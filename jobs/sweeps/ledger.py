"""The ledger of a sweep: the paths of `runs/<sweep_id>/` and the content of its files.

    runs/<sweep_id>/
      sweep.json                        written once, before anything starts
      plan.jsonl                        every point, before the first submission
      points/<point_id>.json            input of the node, before the first submission
      jobs.jsonl                        a line appended after each submission
      <job_id>/<point_id>/attempt-<n>/  started.json, record.json, output.log
      <job_id>/                         under SLURM also the job's script and logs
      submissions/<n>/                  under SLURM: everything a job needs, before its sbatch
      snapshot/                         under SLURM: the source tree that its points run from
      .submitting, .last_seen.json      a lock; the scheduler's last answer, as a cache

Only the cache is ever rewritten. Files appear whole, lines are appended in one write.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from pydantic import Field, ValidationError

from jobs.errors import LedgerError, NoSweep
from jobs.files import (
    MAX_TABLE_BYTES,
    PARTIAL_SUFFIX,
    append_line,
    attempt_folders,
    is_stale,
    read_bounded,
    write_atomic,
)
from jobs.record import Model, Process
from jobs.sweeps.planned_point import PLAN_NAME, PlannedPoint
from jobs.sweeps.source import Source
from jobs.validation import first_problem

SWEEP_NAME = "sweep.json"
JOBS_NAME = "jobs.jsonl"
SNAPSHOT = "snapshot"
PLANNED_JOB = "planned"  # folder of the records that the planner itself writes
SUBMISSION_JSON = "submission.json"
"""In a submission's folder: the request, written last."""

_SWEEP_ID = re.compile(r"s-\d{8}-\d{6}-[0-9a-f]{6}")
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_Line = TypeVar("_Line", bound=Model)


class SweepInfo(Model):
    """`sweep.json`: the command, and where and with what it was submitted."""

    schema_version: int = 1
    sweep_id: str
    verb: str
    command: str
    overrides: list[str] = Field(default_factory=list)
    source: Source = Source()
    software: dict[str, str] = Field(default_factory=dict)
    cluster: str
    scheduler: str
    host: str
    user: str
    created_at: str
    points: int


class JobLine(Model):
    """One line of `jobs.jsonl`: a submission.

    Attributes:
        job_id: Id of the job or array.
        tasks: Point ids by array index, in their order; "0" for a job that is not an array.
        scheduler: Name of the scheduler.
        submitted_at: Time of the submission.
        name: Name of the job.
        chunk: Number of the array of this submission.
        submission: Number of its folder in `submissions/`.
        runner: Process that runs the job, if no scheduler does.
    """

    job_id: str
    tasks: dict[str, list[str]]
    scheduler: str
    submitted_at: str
    name: str | None = None
    chunk: int = 0
    submission: int = 0
    runner: Process | None = None


def now() -> str:
    """Return the current time in UTC, ISO 8601 to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class Ledger:
    """One sweep's folder."""

    root: Path

    @property
    def sweep_id(self) -> str:
        """Name of the folder."""
        return self.root.name

    @property
    def sweep_json(self) -> Path:
        """Path of the sweep's description."""
        return self.root / SWEEP_NAME

    @property
    def plan_jsonl(self) -> Path:
        """Path of the plan."""
        return self.root / PLAN_NAME

    @property
    def jobs_jsonl(self) -> Path:
        """Path of the list of submissions."""
        return self.root / JOBS_NAME

    def point_file(self, point_id: str) -> Path:
        """Return the path of a point's input for the node."""
        return self.root / "points" / f"{safe_name(point_id)}.json"

    def job_folder(self, job_id: str) -> Path:
        """Return a job's folder; LedgerError for an id that would leave the ledger."""
        return self.root / safe_name(job_id)

    def point_folder(self, job_id: str, point_id: str) -> Path:
        """Return a point's folder under its job."""
        return self.job_folder(job_id) / safe_name(point_id)

    def attempts(self, job_id: str, point_id: str) -> list[Path]:
        """Return a point's attempts under one job, oldest first."""
        return attempt_folders(self.point_folder(job_id, point_id))

    @classmethod
    def create(cls, runs_dir: Path, *, shared: bool = False) -> Ledger:
        """Create the folder of a new sweep, which its group may read if it is shared.

        Raises:
            LedgerError: The folder cannot be created.
        """
        try:
            _create_runs_dir(runs_dir, shared=shared)
            _remove_unplanned(runs_dir)
            while True:
                root = runs_dir / _new_sweep_id()
                with contextlib.suppress(FileExistsError):
                    root.mkdir(mode=0o700)
                    break
            # Independent of the umask; a set-group-id bit, which new folders inherit, stays.
            mode = 0o750 if shared else 0o700
            root.chmod(stat.S_IMODE(root.stat().st_mode) & ~0o077 | mode)
        except OSError as error:
            problem = f"(runs_dir) cannot be written: {error.strerror}"
            raise LedgerError(runs_dir, problem) from error
        return cls(root)

    def write_plan(self, info: SweepInfo, points: Iterable[PlannedPoint]) -> None:
        """Write the plan, then `sweep.json`, which marks the plan as complete."""
        lines = (point.model_dump_json() for point in points)
        write_atomic(self.plan_jsonl, "".join(f"{line}\n" for line in lines))
        write_atomic(self.sweep_json, info.model_dump_json(indent=2) + "\n")

    def add_job(self, line: JobLine) -> None:
        """Append a submission."""
        append_line(self.jobs_jsonl, line.model_dump_json())

    def info(self) -> SweepInfo:
        """Read `sweep.json`; LedgerError if it is missing or damaged."""
        path = self.sweep_json
        try:
            return SweepInfo.model_validate_json(read_bounded(path))
        except FileNotFoundError:
            # It is written last, and before anything is started.
            unfinished = "planning did not finish and nothing was started; run the command again"
            remedy = "" if self.jobs_jsonl.exists() else unfinished
            raise LedgerError(path, "is missing", remedy) from None
        except OSError as error:
            raise LedgerError(path, f"cannot be read: {error.strerror}") from error
        except ValidationError as error:
            raise LedgerError(path, f"is damaged: {first_problem(error)}") from error

    def plan(self) -> list[PlannedPoint]:
        """Read every planned point; LedgerError if a line is damaged."""
        return list(_lines(self.plan_jsonl, PlannedPoint, strict=True))

    def jobs(self) -> list[JobLine]:
        """Read every submission; a last line that is still being written is skipped."""
        return list(_lines(self.jobs_jsonl, JobLine, strict=False))


def _create_runs_dir(folder: Path, *, shared: bool) -> None:
    """Create the folder of all sweeps; an existing one is left as it is."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        # Whoever may write to it could replace a sweep by a folder of his own.
        mode = stat.S_IMODE(folder.stat().st_mode) & ~0o022
        folder.chmod(mode | 0o750 if shared else mode)


def _remove_unplanned(runs_dir: Path) -> None:
    """Remove folders of processes that died while planning, an hour old and without a job."""
    for name in filter(_SWEEP_ID.fullmatch, os.listdir(runs_dir)):
        root = runs_dir / name
        if (root / SWEEP_NAME).exists() or root.is_symlink():
            continue
        with contextlib.suppress(OSError):
            names = {one.name for one in root.iterdir() if not one.name.endswith(PARTIAL_SUFFIX)}
            if names <= {"points", PLAN_NAME} and is_stale(root):
                shutil.rmtree(root)


def _new_sweep_id() -> str:
    """Return an id that sorts by time, within one second too.

    Its last part is the microsecond in five hexadecimal digits and one random digit.
    """
    moment = datetime.now(UTC)
    return f"s-{moment:%Y%m%d-%H%M%S}-{moment.microsecond:05x}{secrets.randbelow(16):x}"


def safe_name(name: str) -> str:
    """Return the id of a job or point; LedgerError if it cannot name a folder of the ledger."""
    if not _SAFE.fullmatch(name) or ".." in name:
        problem = "is not an id: only letters, digits and . _ + - are allowed"
        raise LedgerError(Path(name), problem)
    return name


def sweeps(runs_dir: Path) -> list[Ledger]:
    """Return every completely planned sweep that can be read, oldest first."""
    try:
        names = sorted(entry.name for entry in os.scandir(runs_dir) if entry.is_dir())
    except OSError:
        return []
    ledgers = (Ledger(runs_dir / name) for name in names if _SWEEP_ID.fullmatch(name))
    return [ledger for ledger in ledgers if _is_readable(ledger.sweep_json)]


def _is_readable(path: Path) -> bool:
    try:
        return path.is_file() and os.access(path, os.R_OK)
    except OSError:
        return False


def latest(runs_dir: Path) -> Ledger:
    """Return the newest sweep that is not a probe of `doctor`; NoSweep if there is none."""
    for ledger in reversed(sweeps(runs_dir)):
        try:
            if ledger.info().verb != "doctor":
                return ledger
        except LedgerError:
            return ledger  # whoever reads it reports the damage
    raise NoSweep(runs_dir)


def _lines(path: Path, kind: type[_Line], *, strict: bool) -> Iterator[_Line]:
    try:
        text = read_bounded(path, MAX_TABLE_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        if strict:
            raise LedgerError(path, "is missing") from None
        return
    except OSError as error:
        raise LedgerError(path, f"cannot be read: {error.strerror}") from error
    for number, line in enumerate(text.splitlines(), 1):
        try:
            yield kind.model_validate(json.loads(line))
        except (ValueError, RecursionError) as error:
            if strict:
                problem = f"is damaged: {first_problem(error)}"
                raise LedgerError(path, problem, line=number) from error
