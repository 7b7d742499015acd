"""State of every selected point: files joined with one query of the scheduler."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jobs.record import State
from jobs.schedulers.lock import is_submitting
from jobs.schedulers.registry import query_jobs
from jobs.schedulers.scheduler import QueryResult, Scheduler
from jobs.status.exit_code import exit_code
from jobs.status.job_logs import JobLogs
from jobs.status.point_history import PointHistory
from jobs.sweeps.file_problem import FileProblem
from jobs.sweeps.reading import read_sweep
from jobs.sweeps.selection import Selection
from jobs.sweeps.sweep_files import SweepFiles


@dataclass(frozen=True)
class Survey:
    """Every selected point.

    Attributes:
        points: Points, sweep by sweep in the plan's order.
        sweeps: Files of the sweeps.
        submitting: Ids of sweeps whose planned points a process is about to submit or run.
        answer: Answer of the schedulers.
    """

    points: tuple[PointHistory, ...]
    sweeps: tuple[SweepFiles, ...]
    submitting: tuple[str, ...] = ()
    answer: QueryResult = field(default_factory=QueryResult)

    @property
    def totals(self) -> dict[State, int]:
        """Number of points in each state that occurs."""
        return dict(Counter(point.state for point in self.points))

    @property
    def damage(self) -> list[FileProblem]:
        """Problems that may hide points."""
        return [one for sweep in self.sweeps for one in sweep.problems if one.of_plan]

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on what the points' states do not show."""
        remark = "a process is still submitting or running points"
        return (*self.answer.notes, *(f"{name}: {remark}" for name in self.submitting))

    @property
    def under_way(self) -> bool:
        """True if a point may still change without its user."""
        return any(point.under_way for point in self.points) or bool(self.submitting)

    def exit_code(self, *, allow_unsupported: bool) -> int:
        """Return the exit code of a verb that ends with these points."""
        damaged = bool(self.damage)
        return exit_code(self.totals, allow_unsupported=allow_unsupported, damaged=damaged)


def survey(
    selections: Sequence[Selection],
    schedulers: Sequence[Scheduler],
    clock: Callable[[], float] = time.time,
) -> Survey:
    """Read the sweeps, query each scheduler once, and join both."""
    sweeps: dict[Path, SweepFiles] = {}
    chosen: dict[Path, dict[str, None]] = {}
    for selection in selections:
        root = selection.folder.resolve()
        sweep = sweeps.setdefault(root, read_sweep(root))
        chosen.setdefault(root, {}).update(dict.fromkeys(selection.points_of(sweep)))
    points = {root: _histories(sweep, chosen[root]) for root, sweep in sweeps.items()}
    ids = dict.fromkeys(point.query_id for some in points.values() for point in some)
    answer = query_jobs(list(filter(None, ids)), list(sweeps.values()), schedulers, clock())
    for root, histories in points.items():
        if any(point.may_have_ended(answer) for point in histories):
            # A job writes its records before it ends, so they are there by now.
            sweep = read_sweep(root)
            if sweep.planned.keys() >= sweeps[root].planned.keys():
                sweeps[root], points[root] = sweep, _histories(sweep, chosen[root])
    every = [one.with_answer(answer, clock()) for some in points.values() for one in some]
    planned = {one.sweep.sweep_id for one in every if one.state is State.PLANNED}
    submitting = tuple(
        sweep.sweep_id
        for root, sweep in sweeps.items()
        if sweep.sweep_id in planned and is_submitting(root)
    )
    return Survey(tuple(every), tuple(sweeps.values()), submitting, answer)


def _histories(sweep: SweepFiles, point_ids: dict[str, None]) -> list[PointHistory]:
    logs = JobLogs.of_sweep(sweep)
    return [PointHistory(sweep, point_id, logs) for point_id in point_ids]
