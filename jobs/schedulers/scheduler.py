"""The interface of a scheduler, and the plain types that it takes and returns.

A scheduler is one folder beside this file with a subclass of `Scheduler`, and one line in
`registry.py`. Nothing outside the folder knows the scheduler's commands, states or messages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from jobs.errors import SubmissionRefused, UsageError
from jobs.record import Cause, Record
from jobs.sweeps.ledger import Ledger
from jobs.sweeps.planned_point import PlannedPoint
from jobs.sweeps.sweep_files import SweepFiles

if TYPE_CHECKING:
    from pathlib import Path

    from conf.schema import Gpu
    from jobs.terminal.console import Console


class Phase(StrEnum):
    """Where a job stands, whichever scheduler has it."""

    PENDING = "PENDING"  # waits for its first start
    REQUEUED = "REQUEUED"  # ran before, waits to run again
    RUNNING = "RUNNING"
    ENDING = "ENDING"  # its processes are being stopped
    ENDED = "ENDED"
    LOST = "LOST"  # the scheduler answered, and does not list the job


@dataclass(frozen=True)
class TaskState(ABC):
    """State of one job, or of one task of an array.

    Attributes:
        job_id: Id as users type it: "14", or "14_2" for a task.
        raw_job_id: The scheduler's internal id, unique for each task.
        state: The scheduler's own name of the state, for display.
        reason: Why the job is pending, or how it ended.
        node: Node that runs or ran it.
        elapsed_s: Run time so far, in seconds.
        restarts: Number of requeues; None if unknown.
        evidence: Output of the scheduler's commands that shows the state.
        names: Names of the job, the sweep's id before the last dot; empty if unknown.
    """

    job_id: str
    raw_job_id: str
    state: str
    reason: str = ""
    node: str = ""
    elapsed_s: int | None = None
    restarts: int | None = None
    evidence: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @property
    @abstractmethod
    def phase(self) -> Phase:
        """Where the job stands."""

    @property
    @abstractmethod
    def cause(self) -> Cause | None:
        """Cause of the end as far as the scheduler knows it; the job's files may know more."""

    @abstractmethod
    def advice(self, python: str | None = None) -> str:
        """Return what the user can do about a job that does not run, or an empty string.

        `python` is the interpreter that the job's script calls, if known.
        """

    @abstractmethod
    def lost(self, reason: str) -> TaskState:
        """Return the same task as one that the scheduler does not list."""

    @property
    def pending(self) -> bool:
        """True if the job waits to start, for the first time or again."""
        return self.phase in (Phase.PENDING, Phase.REQUEUED)

    @property
    def running(self) -> bool:
        """True if the job runs, or is being stopped."""
        return self.phase in (Phase.RUNNING, Phase.ENDING)

    @property
    def final(self) -> bool:
        """True if the state can no longer change."""
        return not (self.pending or self.running)

    def explained(self, python: str | None = None) -> str:
        """Return the reason and the advice in one line."""
        advice = self.advice(python)
        return f"{self.reason or self.state}: {advice}" if advice else self.reason

    def of_sweep(self, sweep_names: Iterable[str]) -> TaskState:
        """Return this state, or a lost one if the id belongs to a job of something else by now.

        A controller that was killed may forget the jobs of its last seconds and assign their
        numbers again.
        """
        prefixes = {name.rpartition(".")[0] for name in self.names}
        if not self.names or not prefixes.isdisjoint(sweep_names):
            return self
        return self.lost(f"job id {self.job_id} now belongs to another job, {self.names[0]!r}")


@dataclass(frozen=True)
class QueryResult:
    """Answer to a query for many tasks.

    Attributes:
        tasks: State of each task that is known, by job id as users type it.
        unreachable: Error message, if the scheduler could not list its pending and running jobs;
            `tasks` is then what it answered before, and nothing may be submitted.
        notes: Sentences about incomplete or old answers, for display.
    """

    tasks: Mapping[str, TaskState] = field(default_factory=dict)
    unreachable: str | None = None
    notes: tuple[str, ...] = ()

    def task(self, job_id: str, sweep_names: Iterable[str]) -> TaskState | None:
        """Return the state of a sweep's job, None if nothing is known of it."""
        state = self.tasks.get(job_id)
        return None if state is None else state.of_sweep(sweep_names)

    def __or__(self, other: QueryResult) -> QueryResult:
        """Return both answers in one."""
        return QueryResult(
            {**self.tasks, **other.tasks},
            self.unreachable or other.unreachable,
            (*self.notes, *other.notes),
        )


@dataclass(frozen=True)
class Accepted:
    """A submission that the scheduler accepted; `shown` is its id with all of its tasks."""

    tasks: int
    job_id: str
    shown: str


@dataclass(frozen=True)
class Refused:
    """A submission that the scheduler refused."""

    tasks: int
    error: SubmissionRefused


@dataclass(frozen=True)
class Unknown:
    """A submission that may have been accepted; `resume` finds out."""

    tasks: int
    detail: str


Reply = Accepted | Refused | Unknown
"""What became of one submission."""


@dataclass(frozen=True)
class SubmissionResult:
    """What became of a request.

    Attributes:
        replies: Of each submission, in order; the rest was not sent after one that failed.
        records: Points with their records, if the points ran within `submit`.
    """

    replies: tuple[Reply, ...] = ()
    records: tuple[tuple[PlannedPoint, Record], ...] = ()

    @property
    def complete(self) -> bool:
        """True if everything was accepted."""
        return all(isinstance(reply, Accepted) for reply in self.replies)


class Progress:
    """Callbacks of a scheduler that runs points within `submit`; this one shows nothing."""

    def started(self, point: PlannedPoint) -> None:
        """A point starts."""

    def ended(self, point: PlannedPoint, record: Record) -> None:
        """A point has ended."""

    def tick(self) -> None:
        """A point is running; called a few times a second."""


class Request(ABC):
    """Points that the scheduler would accept, as far as that can be known.

    Attributes:
        points: Every point, those known to be unsupported too.
        notes: Choices made for the user, a sentence each.
        warnings: Estimates far above the limits, a sentence each.
    """

    points: Sequence[PlannedPoint]
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()

    @abstractmethod
    def check_folder(self, root: Path) -> None:
        """Raise InvalidValue if the scheduler could not use the sweep's folder."""

    @abstractmethod
    def submit(self, ledger: Ledger, lock: int, progress: Progress) -> SubmissionResult:
        """Submit or run the points, and record those that are unsupported.

        Args:
            ledger: The sweep, whose plan is written.
            lock: Descriptor of the lock that `submitting` holds.
            progress: Callbacks for points that run here.

        Raises:
            SubmissionRefused: Nothing was accepted.
            LedgerError: The ledger cannot be written; nothing was started.
        """


class Preview:
    """What `plan` shows of a request; this one has nothing to show."""

    warnings: Sequence[str] = ()

    def show(self, out: Console) -> None:
        """Show scripts, arrays and hours."""


class Site(ABC):
    """What a scheduler reports about itself, for `doctor`."""

    @abstractmethod
    def show(self, out: Console) -> None:
        """Show limits and hardware, if the scheduler has any to report."""

    @abstractmethod
    def first_gpu(self) -> Gpu | None:
        """Return a GPU to probe, if there is one."""


class Scheduler(ABC):
    """Where points run.

    Attributes:
        name: Name in `cluster.scheduler` and `sweep.json`.
        detached: True if jobs keep running after the command that submitted them.
    """

    name: ClassVar[str]
    detached: ClassVar[bool]

    @property
    @abstractmethod
    def installed(self) -> bool:
        """True if this machine can submit to the scheduler."""

    def presence(self) -> tuple[str, str] | None:
        """Return the scheduler's row of `doctor`'s table, None if there is nothing to report."""
        return None

    @abstractmethod
    def owns(self, job_id: str) -> bool:
        """True if this is the form of the scheduler's job ids."""

    @abstractmethod
    def query(
        self, job_ids: Sequence[str], sweeps: Sequence[SweepFiles], moment: float
    ) -> QueryResult:
        """Return the state of many tasks, with a constant number of commands.

        Args:
            job_ids: Tasks as users type them.
            sweeps: Their sweeps; what the scheduler answers is kept in their folders.
            moment: The current time in seconds since the epoch.
        """

    @abstractmethod
    def site(self) -> Site:
        """Return what the scheduler reports about itself; SchedulerUnavailable otherwise."""

    @abstractmethod
    def prepare(self, points: Sequence[PlannedPoint], avoid: Sequence[str] = ()) -> Request:
        """Return a request for points, to run on other nodes than those to avoid.

        Raises:
            UsageError: A request that could never run; nothing was written.
            SchedulerUnavailable: The scheduler does not answer.
        """

    def preview(self, points: Sequence[PlannedPoint], runs_dir: Path) -> Preview:
        """Return what `prepare` would request, also if the scheduler does not answer.

        Raises:
            UsageError: A request that could never run.
        """
        return Preview()

    @abstractmethod
    def interruption_notice(
        self, ledger: Ledger, ids: str, *, new: bool
    ) -> AbstractContextManager[None]:
        """Report what Ctrl-C or an error left of a submission.

        Args:
            ledger: The sweep; removed if it is new and nothing of it was started.
            ids: The sweep, as the next command takes it.
            new: True if nothing of the sweep was submitted before.
        """

    def recover(self, ledger: Ledger) -> list[str]:
        """Record submissions whose job id was never written down, and return their job ids.

        The caller holds the sweep's lock.

        Raises:
            WrongCluster: The sweep was submitted to another cluster.
            SchedulerUnavailable: The scheduler does not answer; nothing may be submitted.
        """
        return []

    def unrecorded_jobs(self, ledgers: Sequence[Ledger]) -> list[str]:
        """Return jobs of sweeps that have not ended and whose ids were never written down."""
        return []

    @abstractmethod
    def cancel(self, job_ids: Sequence[str]) -> None:
        """Cancel jobs; those that have ended are ignored.

        Raises:
            SchedulerUnavailable: The scheduler refused or does not answer.
        """

    def cancel_problem(self, job_ids: Sequence[str]) -> UsageError | None:
        """Return why `cancel` cannot end these jobs, None if it can."""
        return None
