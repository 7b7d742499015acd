"""Content of a sweep's folder: its plan, submissions and attempts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from jobs.files import read_json
from jobs.record import Record, Started
from jobs.sweeps.file_problem import FileProblem
from jobs.sweeps.ledger import SUBMISSION_JSON, JobLine, SweepInfo
from jobs.sweeps.planned_point import PlannedPoint
from jobs.text import plain_text


@dataclass(frozen=True)
class Task:
    """A point's place in a submission: a job, or one task of an array."""

    job_id: str
    index: int | None = None

    def __str__(self) -> str:
        return self.job_id if self.index is None else f"{self.job_id}_{self.index}"


@dataclass(frozen=True)
class Attempt:
    """One execution of a point.

    Attributes:
        point_id: The point.
        job_folder: Name of the job's folder.
        number: Number n of its folder `attempt-<n>`.
        folder: Its folder.
        started: Content of `started.json`.
        record: Content of `record.json`.
        damage: Reason why `record.json` cannot be used.
    """

    point_id: str
    job_folder: str
    number: int
    folder: Path
    started: Started | None = None
    record: Record | None = None
    damage: str | None = None

    @property
    def job_id(self) -> str | None:
        """Job or task that ran it, as its own files name it."""
        ids = (source.identity.job_id for source in (self.record, self.started) if source)
        return next(filter(None, ids), None)

    @property
    def raw_job_ids(self) -> list[str]:
        """The scheduler's internal ids of the job that ran it."""
        ids = (source.identity.raw_job_id for source in (self.started, self.record) if source)
        return [raw for raw in ids if raw]


@dataclass
class SweepFiles:
    """Everything that could be read in a sweep's folder.

    Attributes:
        sweep_id: Id from `sweep.json`, or the folder's name.
        folder: The folder.
        info: Content of `sweep.json`.
        planned: Points, in the plan's order.
        tasks: Submissions of each point, oldest first.
        lines: Lines of `jobs.jsonl`, by job id.
        attempts: Attempts of each point, oldest first.
        job_folders: Existing folders of jobs, by job id.
        shell_logs: Logs of the batch shells in `submissions/`, by job or task id. The job's
            folder holds a second link to each, unless it was never created or was lost.
        problems: Files that could not be used.
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
    problems: list[FileProblem] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, str]:
        """Names that its jobs may carry: the folder may have been renamed since."""
        return self.sweep_id, self.folder.name

    def add_problem(self, path: Path | str, what: str) -> None:
        """Note a file that cannot be used."""
        file = str(path.relative_to(self.folder)) if isinstance(path, Path) else path
        self.problems.append(FileProblem(file, what))

    def jobs_of(self, point_id: str) -> set[str]:
        """Return the jobs that ran a point, or will."""
        jobs = {task.job_id for task in self.tasks.get(point_id, [])}
        return jobs | {attempt.job_folder for attempt in self.attempts.get(point_id, [])}

    def interpreter(self, job_id: str) -> str | None:
        """Return the Python that a job's script calls on the node, if it is known."""
        line = self.lines.get(job_id)
        if line is None:
            return None
        folder = self.folder / "submissions" / str(line.submission)
        try:
            python = read_json(folder / SUBMISSION_JSON, inside=self.folder)["python"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return plain_text(python) if isinstance(python, str) else None
