"""The ledger: one class that owns every path of `runs/<sweep_id>/`, and what its files hold.

    runs/<sweep_id>/
      sweep.json                        written once, before anything starts
      plan.jsonl                        every point, whole config, before the first submission
      points/<point_id>.json            what the node is given, before the first submission
      jobs.jsonl                        a line appended after each submission
      <job_id>/<point_id>/attempt-<n>/  started.json, record.json, output.log
      <job_id>/                         under SLURM also the job's script and its logs
      submissions/<n>/                  under SLURM: all that a job needs, before its sbatch
      snapshot/                         under SLURM: the tree that its points run from
      .submitting, .last_seen.json      a lock; what the scheduler last said, a cache

Nothing but the cache is ever rewritten. Files appear whole, lines are appended in one write.
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
from typing import Any, TypeVar

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
from jobs.validation import first_problem

PLAN_NAME = "plan.jsonl"
SWEEP_NAME = "sweep.json"
JOBS_NAME = "jobs.jsonl"
PLANNED_JOB = "planned"  # the folder of records that the planner itself writes
_SWEEP_ID = re.compile(r"s-\d{8}-\d{6}-[0-9a-f]{6}")
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_Row = TypeVar("_Row", bound=Model)

SUBMISSION_JSON = "submission.json"
"""In a submission's folder: what was asked for, written last."""


class Source(Model):
    """Which code a sweep was submitted from."""

    commit: str | None = None
    dirty: bool | None = None
    dirty_hash: str | None = None


class SweepInfo(Model):
    """`sweep.json`."""

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


class PlannedPoint(Model):
    """One line of `plan.jsonl`.

    `config` is the point, `site` the cluster and launch configuration it runs under, `choices` the
    values of the sweep's axes, `unsupported` why no node will ever take it.
    """

    point_id: str
    index: int
    config: dict[str, Any]
    site: dict[str, Any] = Field(default_factory=dict)
    choices: dict[str, str] = Field(default_factory=dict)
    unsupported: str | None = None


class JobLine(Model):
    """One line of `jobs.jsonl`: a submission, and which of its tasks runs which points.

    `tasks` maps the array index ("0" for a job that is no array) to point ids in their order.
    `runner` is the process that runs the job, where no scheduler does.
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
    """This moment, UTC, ISO 8601 to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class Ledger:
    """One sweep's folder."""

    root: Path

    @property
    def sweep_id(self) -> str:
        """The folder's name."""
        return self.root.name

    @property
    def sweep_json(self) -> Path:
        """What was asked, by whom, from which code."""
        return self.root / SWEEP_NAME

    @property
    def plan_jsonl(self) -> Path:
        """Every point."""
        return self.root / PLAN_NAME

    @property
    def jobs_jsonl(self) -> Path:
        """Every submission."""
        return self.root / JOBS_NAME

    def point_file(self, point_id: str) -> Path:
        """What the node is given of a point."""
        return self.root / "points" / f"{safe_name(point_id)}.json"

    def job_folder(self, job_id: str) -> Path:
        """A job's folder; refuses an id that would leave the ledger."""
        return self.root / safe_name(job_id)

    def point_folder(self, job_id: str, point_id: str) -> Path:
        """A point's folder under its job."""
        return self.job_folder(job_id) / safe_name(point_id)

    @classmethod
    def create(cls, runs_dir: Path, *, shared: bool = False) -> Ledger:
        """Makes a new sweep's folder, which no other sweep ever shares.

        Args:
            runs_dir: Where sweeps lie; made if it is missing.
            shared: Its group may read it, not its owner alone.

        Returns:
            The empty ledger.

        Raises:
            LedgerError: The folder cannot be made.
        """
        try:
            _make_runs_dir(runs_dir, shared=shared)
            _clear_unplanned(runs_dir)
            while True:
                root = runs_dir / _new_sweep_id()
                try:
                    root.mkdir(mode=0o700)
                except FileExistsError:
                    continue
                # Whatever the umask is; a set-group-id bit, which hands the group on, stays.
                mode = 0o750 if shared else 0o700
                root.chmod(stat.S_IMODE(root.stat().st_mode) & ~0o077 | mode)
                return cls(root)
        except OSError as error:
            raise LedgerError(
                runs_dir, f"(runs_dir) cannot be written: {error.strerror}"
            ) from error

    def write_plan(self, info: SweepInfo, points: Iterable[PlannedPoint]) -> None:
        """Writes the plan, then `sweep.json`, whose presence says that the plan is whole."""
        lines = (point.model_dump_json() for point in points)
        write_atomic(self.plan_jsonl, "".join(f"{line}\n" for line in lines))
        write_atomic(self.sweep_json, info.model_dump_json(indent=2) + "\n")

    def add_job(self, line: JobLine) -> None:
        """Appends a submission."""
        append_line(self.jobs_jsonl, line.model_dump_json())

    def info(self) -> SweepInfo:
        """Reads `sweep.json`; LedgerError names the file where it cannot be read."""
        try:
            return SweepInfo.model_validate_json(read_bounded(self.sweep_json))
        except FileNotFoundError:
            # Written before anything is started, and last.
            incomplete = "planning did not finish and nothing was started; run the command again"
            remedy = "" if self.jobs_jsonl.exists() else incomplete
            raise LedgerError(self.sweep_json, "is missing", remedy) from None
        except OSError as error:
            raise LedgerError(self.sweep_json, f"cannot be read: {error.strerror}") from error
        except ValidationError as error:
            raise LedgerError(self.sweep_json, f"is damaged: {first_problem(error)}") from error

    def plan(self) -> list[PlannedPoint]:
        """Every planned point; a damaged line is an error, for the plan is written whole."""
        return list(_rows(self.plan_jsonl, PlannedPoint, strict=True))

    def jobs(self) -> list[JobLine]:
        """Every submission so far; a last line that is still being written is left out."""
        return list(_rows(self.jobs_jsonl, JobLine, strict=False))

    def attempts(self, job_id: str, point_id: str) -> list[Path]:
        """Return a point's attempts under one job, oldest first."""
        return attempt_folders(self.point_folder(job_id, point_id))


def _make_runs_dir(folder: Path, *, shared: bool) -> None:
    """Makes the folder of all sweeps, which guard themselves; an existing one is left as it is."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        # Whoever may write there could put a folder of his own in a sweep's place.
        mode = stat.S_IMODE(folder.stat().st_mode) & ~0o022
        folder.chmod(mode | 0o750 if shared else mode)


def _clear_unplanned(runs_dir: Path) -> None:
    """Removes what a process left that died while it planned: an hour old, and nothing but a plan.

    A sweep that has a job, a submission or a record stays, whatever else it has lost.
    """
    for name in filter(_SWEEP_ID.fullmatch, os.listdir(runs_dir)):
        root = runs_dir / name
        if (root / "sweep.json").exists() or root.is_symlink():
            continue
        with contextlib.suppress(OSError):
            held = {path.name for path in root.iterdir() if not path.name.endswith(PARTIAL_SUFFIX)}
            if held <= {"points", "plan.jsonl"} and is_stale(root):
                shutil.rmtree(root)


def _new_sweep_id() -> str:
    """The moment as a name, so that names sort as sweeps were made, also within one second.

    The last part is the microsecond in five hexadecimal digits, then one digit by chance.
    """
    moment = datetime.now(UTC)
    chance = secrets.randbelow(16)
    return f"s-{moment:%Y%m%d-%H%M%S}-{moment.microsecond:05x}{chance:x}"


def safe_name(name: str) -> str:
    """A job's or point's id as a folder name.

    Raises:
        LedgerError: The id holds a separator, or would be hidden or relative.
    """
    if not _SAFE.fullmatch(name) or ".." in name:
        problem = "cannot be an id: only letters, digits and . _ + - are allowed"
        raise LedgerError(Path(name), problem)
    return name


def sweeps(runs_dir: Path) -> list[Ledger]:
    """Every whole sweep under `runs_dir`, oldest first; other folders are left alone."""
    try:
        names = sorted(entry.name for entry in os.scandir(runs_dir) if entry.is_dir())
    except OSError:
        return []
    ledgers = (Ledger(runs_dir / name) for name in names if _SWEEP_ID.fullmatch(name))
    return [ledger for ledger in ledgers if _is_whole(ledger)]


def _is_whole(ledger: Ledger) -> bool:
    """Whether its plan was written; another user's private sweep is left alone too."""
    try:
        return ledger.sweep_json.is_file() and os.access(ledger.sweep_json, os.R_OK)
    except OSError:
        return False


def latest(runs_dir: Path) -> Ledger:
    """The newest sweep, a doctor's probe left aside; NoSweep where there is none."""
    for ledger in reversed(sweeps(runs_dir)):
        try:
            if ledger.info().verb != "doctor":
                return ledger
        except LedgerError:
            return ledger  # damaged: whoever reads it says so
    raise NoSweep(runs_dir)


def _rows(path: Path, kind: type[_Row], *, strict: bool) -> Iterator[_Row]:
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
