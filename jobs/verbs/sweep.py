"""What `run` and `sweep` do where the scheduler is SLURM."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from jobs.errors import UsageError
from jobs.schedulers.local import record_unsupported
from jobs.schedulers.lock import submitting
from jobs.schedulers.slurm.batches import Batch, Batches, cut, make_batches
from jobs.schedulers.slurm.dependency import dependency_ids, hopeless_dependency
from jobs.schedulers.slurm.dispatch import cut_short_told, show_submitted, submit_batches
from jobs.schedulers.slurm.limits import ClusterLimits, ask_limits
from jobs.schedulers.slurm.script import Submission, script_of
from jobs.schedulers.slurm.states import ask_states
from jobs.schedulers.slurm.submission import Submitted, forget, interpreter_of
from jobs.sweeps.ledger import Ledger
from jobs.sweeps.new_sweep import new_ledger, write_ledger
from jobs.sweeps.plan import Plan
from jobs.sweeps.selection import Selection
from jobs.sweeps.source import CHECKOUT
from jobs.terminal import screen
from jobs.terminal.interrupts import nothing_started_told
from jobs.verbs.command_line import Call
from jobs.verbs.follow import follow
from jobs.verbs.retry import retrying
from jobs.verbs.status import show_next


def submit_plan(made: Plan, call: Call) -> int:
    """Writes the ledger and submits every point that can run.

    Args:
        made: The plan.
        call: The command.

    Returns:
        0, or 1 if only a part was taken; with `wait`, or where no point can run, by the
        outcomes.

    Raises:
        UsageError: A request that the cluster would never run; nothing was written.
        SchedulerError: The cluster cannot be reached, or took nothing; nothing stays.
    """
    config = made.config
    with nothing_started_told():
        limits = ask_limits()
    ledger, done = submit(made, call, limits, waits=config.wait)
    if not config.wait and done:
        return 1 if any(one.job_id is None for one in done) else 0
    out = screen.console()
    ids = ledger.sweep_id + call.places
    retry = retrying(ledger, config.launch.retries, ids, out)
    seen = follow([Selection(ledger.root)], ids, out, retry)
    show_next(seen, ids, out)
    return seen.exit_code(allow_unsupported=config.allow_unsupported)


def submit(
    made: Plan, call: Call, limits: ClusterLimits, *, waits: bool
) -> tuple[Ledger, list[Submitted]]:
    """Does that without waiting; the sweep, and what became of each submission."""
    with nothing_started_told():
        batches = make_batches(made.runnable, limits)
        refuse_hopeless(batches)
        ledger = new_ledger(made.config)
        try:
            # A name that SLURM would change is told before the plan is written.
            scripts(cut(batches, ledger.root, limits, itertools.count().__next__))
            write_ledger(made, ledger, verb=call.verb, command=call.command)
        except BaseException:  # nothing was submitted: nothing stays
            forget(ledger)
            raise
    if made.note:
        screen.say(screen.console(), made.note)
    with submitting(ledger) as lock, cut_short_told(ledger, call.places, new=True):
        for point in made.unsupported:
            record_unsupported(point, ledger)
        done = submit_batches(ledger, batches, limits, lock, new=True)
    show_submitted(ledger, done, call.places, screen.console(), waits=waits or not done)
    return ledger, done


def scripts(submissions: Sequence[tuple[Submission, Batch]]) -> list[str]:
    """The scripts of submissions, exactly as they are sent."""
    found = []
    for submission, batch in submissions:
        container = batch.cluster.container
        inside = container.pythonpath if container.image is not None else None
        root = str(submission.sweep / "snapshot") if batch.launch.snapshot else inside
        python = interpreter_of(batch)
        found.append(script_of(submission, batch.cluster, python, root or str(CHECKOUT)))
    return found


def refuse_hopeless(batches: Batches) -> None:
    """Refuses dependencies that can never be met; UsageError names them."""
    dependencies = {batch.resources.dependency for batch in batches.batches} - {None}
    for dependency in dependencies:
        ids = dependency_ids(dependency)
        problems = hopeless_dependency(dependency, ask_states(ids).tasks) if ids else []
        if problems:
            raise UsageError("\n".join(problems))
