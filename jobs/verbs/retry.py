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
from jobs.verbs.follow import Retry

_CAUSES = frozenset(cause.value for cause in INFRASTRUCTURE_CAUSES)


def retrying(ledger: Ledger, retries: int, ids: str, out: Console) -> Retry | None:
    """Return what `follow` calls when points have ended; None if nothing is ever retried.

    Args:
        ledger: The sweep.
        retries: How many times a point may be submitted again.
        ids: The sweep as `resume` takes it.
        out: Console for messages.
    """
    if retries < 1:
        return None
    given_up: set[str] = set()

    def retry(ended: Sequence[PointHistory]) -> bool:
        tries = Counter(
            point_id for job in ledger.jobs() for slot in job.tasks.values() for point_id in slot
        )
        points = [
            point
            for point in ended
            if point.cause in _CAUSES
            and tries[point.point_id] <= retries
            and point.point_id not in given_up
        ]
        if not points:
            return False
        try:
            _submit_again(ledger, points, out)
        except JobError as error:
            # The other points are still waited for; these keep their outcomes.
            given_up.update(point.point_id for point in points)
            out.print_line(f"Not submitted again: {pluralize(len(points), 'point')}: {error}")
            out.print_line(f"Next: python launch.py resume {ids}")
            return False
        return True

    return retry


def _submit_again(ledger: Ledger, points: Sequence[PointHistory], out: Console) -> None:
    """Submit points again, avoiding the nodes that failed them; their attempts are kept."""
    # As the scheduler names them: the host name of a node may differ.
    nodes = list(
        dict.fromkeys(
            point.task_state.node
            for point in points
            if point.task_state and point.task_state.node and point.cause != Cause.preempted.value
        )
    )
    request = scheduler_named(ledger.info().scheduler).prepare(
        [point.planned for point in points], nodes
    )
    without = f", without {', '.join(nodes)}" if nodes else ""
    out.print_line(f"Retrying {pluralize(len(points), 'point')} that the cluster ended{without}")
    with submitting(ledger) as lock:
        for text in (*request.notes, *request.warnings):
            out.print_line(f"Note: {text}")
        request.submit(ledger, lock, Progress())
