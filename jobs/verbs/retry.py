"""`launch.retries`: submits points again that the cluster, not they themselves, has ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from jobs.errors import JobError
from jobs.record import INFRASTRUCTURE_CAUSES, Cause
from jobs.schedulers.lock import submitting
from jobs.schedulers.registry import scheduler_named
from jobs.schedulers.scheduler import Progress
from jobs.status.point_history import PointHistory
from jobs.sweeps.ledger import Ledger
from jobs.terminal.console import Console
from jobs.text import pluralize

_CAUSES = frozenset(cause.value for cause in INFRASTRUCTURE_CAUSES)


class Retries:
    """Retries of a sweep's points: what `follow` calls when points have ended."""

    def __init__(self, ledger: Ledger, most: int, ids: str, out: Console) -> None:
        """`most` is the number of retries of each point, `ids` the sweep as `resume` takes it."""
        self._ledger, self._most, self._ids, self._out = ledger, most, ids, out
        self._refused: set[str] = set()

    def __call__(self, ended: Sequence[PointHistory]) -> bool:
        """Submit the ended points again that should be retried; True if there were any."""
        candidates = [
            point
            for point in ended
            if self._most and point.cause in _CAUSES and point.point_id not in self._refused
        ]
        submissions = self._submissions() if candidates else {}
        points = [point for point in candidates if submissions[point.point_id] <= self._most]
        if not points:
            return False
        try:
            self._submit(points)
        except JobError as error:
            # The other points are still waited for; these keep their outcomes.
            self._refused.update(point.point_id for point in points)
            count = pluralize(len(points), "point")
            self._out.print_line(f"Not submitted again: {count}: {error}")
            self._out.print_line(f"Next: python launch.py resume {self._ids}")
            return False
        return True

    def _submissions(self) -> Counter[str]:
        """Return how often each point was submitted."""
        jobs = self._ledger.jobs()
        return Counter(name for job in jobs for slot in job.tasks.values() for name in slot)

    def _submit(self, points: Sequence[PointHistory]) -> None:
        """Submit points again, avoiding the nodes that failed them; their attempts are kept."""
        # As the scheduler names them: the host name of a node may differ.
        tasks = [point.task_state for point in points if point.cause != Cause.preempted.value]
        nodes = list(dict.fromkeys(task.node for task in tasks if task and task.node))
        scheduler = scheduler_named(self._ledger.info().scheduler)
        request = scheduler.prepare([point.planned for point in points], nodes)
        without = f", without {', '.join(nodes)}" if nodes else ""
        count = pluralize(len(points), "point")
        self._out.print_line(f"Retrying {count} that the cluster ended{without}")
        with submitting(self._ledger) as lock:
            for text in (*request.notes, *request.warnings):
                self._out.print_line(f"Note: {text}")
            request.submit(self._ledger, lock, Progress())
