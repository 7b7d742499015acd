"""This machine as a scheduler: points run within the command that submits them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from jobs.errors import NotCancellable
from jobs.schedulers.local.execution import ID_PREFIX, run_points
from jobs.schedulers.scheduler import (
    Progress,
    QueryResult,
    Request,
    Scheduler,
    Site,
    SubmissionResult,
)
from jobs.sweeps.ledger import PLANNED_JOB, Ledger
from jobs.sweeps.planned_point import PlannedPoint
from jobs.sweeps.sweep_files import SweepFiles
from jobs.terminal.console import Console

if TYPE_CHECKING:
    from conf.schema import Gpu


class LocalRequest(Request):
    """Points to run here."""

    def __init__(self, points: Sequence[PlannedPoint]) -> None:
        """Keep the points."""
        self.points = points

    def check_folder(self, root: Path) -> None:
        """Accept every folder."""

    def submit(self, ledger: Ledger, lock: int, progress: Progress) -> SubmissionResult:
        """Run the points."""
        return SubmissionResult(records=tuple(run_points(self.points, ledger, progress)))


class LocalSite(Site):
    """This machine."""

    def show(self, out: Console) -> None:
        """Show nothing: the probe reports the hardware."""

    def first_gpu(self) -> Gpu | None:
        """Return whatever GPU is here, if there is a GPU driver."""
        from conf.schema import Gpu

        return Gpu(name="any", any=True) if Path("/dev/nvidiactl").exists() else None


class LocalScheduler(Scheduler):
    """Points as processes of this machine, one after another."""

    name: ClassVar[str] = "local"
    detached: ClassVar[bool] = False

    @property
    def installed(self) -> bool:
        """Always true."""
        return True

    def owns(self, job_id: str) -> bool:
        """True for "local-12ab34cd"."""
        return job_id.startswith(ID_PREFIX)

    def query(
        self, job_ids: Sequence[str], sweeps: Sequence[SweepFiles], moment: float
    ) -> QueryResult:
        """Return nothing: the sweep's own files name the processes that run its points."""
        return QueryResult()

    def site(self) -> LocalSite:
        """Return this machine."""
        return LocalSite()

    def prepare(self, points: Sequence[PlannedPoint], avoid: Sequence[str] = ()) -> LocalRequest:
        """Accept all points."""
        return LocalRequest(points)

    @contextlib.contextmanager
    def interruption_notice(self, ledger: Ledger, ids: str, *, new: bool) -> Iterator[None]:
        """Report how many points were not started, and the next commands."""
        from jobs.text import pluralize, shell_quote

        try:
            yield
        except KeyboardInterrupt:
            out = Console()
            left = _not_started(ledger)
            rest = f"{pluralize(left, 'point was', 'points were')} not started; to continue"
            out.print_line("Interrupted: the running point is recorded as cancelled.")
            out.print_line(f"{rest if left else 'To run it again'}: python launch.py resume {ids}")
            out.print_line(f"Records: {shell_quote(ledger.root)}")
            out.print_line(f"Next: python launch.py collect {ids}")
            raise

    def cancel_problem(self, job_ids: Sequence[str]) -> NotCancellable | None:
        """Refuse every job: only its own terminal can end it."""
        return NotCancellable(job_ids[0]) if job_ids else None

    def cancel(self, job_ids: Sequence[str]) -> None:
        """Refuse every job."""
        raise NotCancellable(job_ids[0])


def _not_started(ledger: Ledger) -> int:
    """Return the number of planned points without any attempt."""
    jobs = [line.job_id for line in ledger.jobs()] + [PLANNED_JOB]
    points = (point.point_id for point in ledger.plan())
    return sum(not any(ledger.attempts(job, point) for job in jobs) for point in points)
