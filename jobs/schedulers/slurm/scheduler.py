"""SLURM, as the rest of the tool sees it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from jobs.errors import SchedulerUnavailable
from jobs.schedulers.scheduler import Preview, QueryResult, Scheduler
from jobs.schedulers.slurm.commands import Meaning, call
from jobs.schedulers.slurm.limits import ClusterLimits, query_limits
from jobs.schedulers.slurm.memory import LastSeen, infer_missing
from jobs.schedulers.slurm.query import JobStates, query_states
from jobs.sweeps.ledger import Ledger
from jobs.sweeps.planned_point import PlannedPoint
from jobs.sweeps.sweep_files import SweepFiles

if TYPE_CHECKING:  # what submits imports submitit, which status and collect do without
    from pathlib import Path

    from jobs.schedulers.slurm.request import SlurmRequest
    from jobs.schedulers.slurm.site import SlurmSite


class SlurmScheduler(Scheduler):
    """Points as tasks of SLURM job arrays."""

    name: ClassVar[str] = "slurm"
    detached: ClassVar[bool] = True

    def __init__(self, states: Callable[[list[str]], JobStates] | None = None) -> None:
        """`states` replaces the query of squeue and sacct, for tests."""
        self._states = states

    @property
    def installed(self) -> bool:
        """True if sbatch is on the PATH."""
        return self._states is not None or shutil.which("sbatch") is not None

    def presence(self) -> tuple[str, str]:
        """Return if sbatch is installed."""
        return "SLURM", f"sbatch is {'' if self.installed else 'not '}installed"

    def owns(self, job_id: str) -> bool:
        """True for "14" and "14_2"."""
        return job_id.partition("_")[0].isdecimal()

    def query(
        self, job_ids: Sequence[str], sweeps: Sequence[SweepFiles], moment: float
    ) -> QueryResult:
        """Query squeue and sacct; what they do not report is inferred or remembered."""
        states = (self._states or query_states)(list(job_ids))
        seen = LastSeen.read(sweeps, moment)
        notes = []
        if states.queue_error is None:
            started = {name for sweep in sweeps for name in _tasks_with_files(sweep)}
            tasks = dict(states.tasks)
            tasks |= infer_missing(set(job_ids) - tasks.keys(), states, seen, started)
            tasks = {name: seen.with_restarts(task) for name, task in tasks.items()}
            for sweep in sweeps:
                seen.keep(sweep.folder, tasks, moment)
        else:
            ended = {name: task for name, task in states.tasks.items() if task.final}
            tasks = {**seen.tasks, **ended}
            notes.append(f"squeue does not answer ({states.queue_error}): {seen.described()}")
        if states.accounting_error is not None:
            problem = f"sacct does not answer ({states.accounting_error})"
            if states.no_accounting:
                problem = "this cluster keeps no accounting"
            notes.append(f"{problem}: ended jobs are known only by their files")
        return QueryResult(tasks, states.queue_error, tuple(notes))

    @cached_property
    def _limits(self) -> ClusterLimits:
        return query_limits()

    def site(self) -> SlurmSite:
        """Query the cluster's limits."""
        from jobs.schedulers.slurm.site import SlurmSite

        return SlurmSite(self._limits)

    def prepare(self, points: Sequence[PlannedPoint], avoid: Sequence[str] = ()) -> SlurmRequest:
        """Group points into batches that the cluster's limits allow."""
        from jobs.schedulers.slurm.request import SlurmRequest

        return SlurmRequest(points, self._limits, avoid)

    def preview(self, points: Sequence[PlannedPoint], runs_dir: Path) -> Preview:
        """Return the batches with their scripts, without limits if the cluster is unreachable."""
        from jobs.schedulers.slurm.preview import SlurmPreview
        from jobs.schedulers.slurm.request import SlurmRequest

        if all(point.unsupported is not None for point in points):
            return Preview()
        limits, problem = None, None
        try:
            limits = self._limits
        except SchedulerUnavailable as error:
            problem = f"the limits are unknown: {error}"
        return SlurmPreview(SlurmRequest(points, limits), runs_dir, problem)

    def interruption_notice(
        self, ledger: Ledger, ids: str, *, new: bool
    ) -> AbstractContextManager[None]:
        """Report which jobs keep running, and how to submit the rest."""
        from jobs.schedulers.slurm.request import interruption_notice

        return interruption_notice(ledger, ids, new=new)

    def recover(self, ledger: Ledger) -> list[str]:
        """Find jobs by the names of their submissions."""
        from jobs.schedulers.slurm.recovery import recover

        return recover(ledger, self._limits.name)

    def unrecorded_jobs(self, ledgers: Sequence[Ledger]) -> list[str]:
        """Find jobs by the names of their submissions."""
        from jobs.schedulers.slurm.recovery import unrecorded_jobs

        return unrecorded_jobs(ledgers)

    def cancel(self, job_ids: Sequence[str]) -> None:
        """Call scancel once."""
        answer = call(["scancel", *job_ids])
        if answer.error is not None and not answer.means(Meaning.ALREADY_ENDED):
            raise SchedulerUnavailable("cancel the jobs", answer.error)


def _tasks_with_files(sweep: SweepFiles) -> set[str]:
    """Return the tasks that left a file of their own, whatever became of it."""
    names = set(sweep.shell_logs)
    for point_id, attempts in sweep.attempts.items():
        folders = {attempt.job_folder for attempt in attempts}
        names |= {str(task) for task in sweep.tasks.get(point_id, []) if task.job_id in folders}
    return names
