"""`launch.retries`: submits points again that the cluster, not they themselves, has ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from jobs.errors import JobError
from jobs.record import INFRASTRUCTURE_CAUSES, Cause
from jobs.schedulers.lock import submitting
from jobs.schedulers.slurm.batches import Batch, make_batches
from jobs.schedulers.slurm.dispatch import submit_batches
from jobs.schedulers.slurm.limits import ask_limits
from jobs.status.point_history import PointHistory
from jobs.sweeps.ledger import Ledger
from jobs.terminal import screen
from jobs.text import pluralize
from jobs.verbs.follow import Retry

_CAUSES = frozenset(cause.value for cause in INFRASTRUCTURE_CAUSES)


def retrying(ledger: Ledger, retries: int, ids: str, out: Console) -> Retry | None:
    """What `follow` asks as points end; None where nothing is ever submitted again.

    Args:
        ledger: The sweep.
        retries: How often a point may be submitted again.
        ids: The sweep as `resume` takes it.
        out: Where it is told.
    """
    if retries < 1:
        return None
    given_up: set[str] = set()

    def retry(ended: Sequence[PointHistory]) -> bool:
        tries: dict[str, int] = {}
        for job in ledger.jobs():
            for point_id in (name for ids in job.tasks.values() for name in ids):
                tries[point_id] = tries.get(point_id, 0) + 1
        rows = [
            row
            for row in ended
            if row.cause in _CAUSES
            and tries.get(row.point_id, 0) <= retries
            and row.point_id not in given_up
        ]
        if not rows:
            return False
        try:
            _submit_again(ledger, rows, out)
        except JobError as error:
            # The others are waited for all the same; these keep the outcome that they have.
            given_up.update(row.point_id for row in rows)
            screen.say(out, f"Not submitted again: {pluralize(len(rows), 'point')}: {error}")
            screen.say(out, f"Next: python launch.py resume {ids}")
            return False
        return True

    return retry


def _submit_again(ledger: Ledger, rows: Sequence[PointHistory], out: Console) -> None:
    """Submits points anew, off the nodes that failed them; their attempts all stay."""
    # As SLURM names them: a node's own host name may be another, which --exclude does not know.
    failed = dict.fromkeys(
        row.task_state.node
        for row in rows
        if row.task_state and row.task_state.node and row.cause != Cause.preempted.value
    )
    limits = ask_limits()
    batches = make_batches([row.planned for row in rows], limits)
    avoiding = tuple(_avoiding(batch, failed) for batch in batches.batches)
    words = f", not on {', '.join(failed)}" if failed else ""
    screen.say(out, f"Again: {pluralize(len(rows), 'point')} that the cluster ended{words}")
    with submitting(ledger) as lock:
        submit_batches(ledger, replace(batches, batches=avoiding), limits, lock)


def _avoiding(batch: Batch, nodes: dict[str, None]) -> Batch:
    given = batch.resources.exclude.split(",") if batch.resources.exclude else []
    names = ",".join(dict.fromkeys([*given, *nodes]))
    return replace(batch, resources=replace(batch.resources, exclude=names or None))
