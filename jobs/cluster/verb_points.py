"""The verbs that make points: run, sweep and plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from conf.choices import Scheduler
from conf.verbs import Run
from jobs.cluster import screen
from jobs.cluster.added_axes import added_axes
from jobs.cluster.ask import Ask
from jobs.cluster.collect_points import outcome_code
from jobs.cluster.command_line import Call, pasted
from jobs.cluster.interrupts import nothing_started_told
from jobs.cluster.ledger import Ledger, PlannedPoint
from jobs.cluster.local import has_sbatch, run_plan
from jobs.cluster.lock import submitting
from jobs.cluster.narrow import show_table
from jobs.cluster.plan import Plan, make_plan, write_ledger
from jobs.cluster.running_line import running_line
from jobs.cluster.share import new_ledger
from jobs.record import Record
from jobs.text import counted

if TYPE_CHECKING:
    from rich.console import Console


def run(asks: Sequence[Ask], call: Call) -> int:
    """Runs one point and shows its record; several points of a `--multirun` are a sweep."""
    return start(_planned(asks, call), call)


def sweep(asks: Sequence[Ask], call: Call) -> int:
    """Runs every point, one after another here, or submits them."""
    return start(_planned(asks, call), call)


def _planned(asks: Sequence[Ask], call: Call) -> Plan:
    with nothing_started_told():
        return dataclasses.replace(make_plan(asks), note=added_axes(asks, call))


def plan(asks: Sequence[Ask], call: Call) -> int:
    """Shows what `sweep` would do, and does nothing."""
    made = _planned(asks, call)
    out = screen.console()
    requests = None
    if made.config.cluster.scheduler is Scheduler.slurm and made.runnable:
        from jobs.cluster.show_plan import make_requests, show_requests

        requests = make_requests(made)
    if made.note:
        screen.say(out, made.note)
    shown = screen.table("Plan", "point", "what", "runs?")
    for point in made.points:
        runs = "yes" if point.unsupported is None else f"UNSUPPORTED: {point.unsupported}"
        shown.add_row(point.point_id, screen.label(point), runs)
    show_table(out, shown)
    screen.say(out, screen.common(made.points))
    if requests is not None:
        show_requests(requests, out)
    out.print(
        f"{counted(len(made.points), 'point')}: {len(made.runnable)} to run, "
        f"{len(made.unsupported)} known to be unsupported; nothing was started."
    )
    for warning in requests.batches.warnings if requests is not None else ():
        screen.say(out, f"Warning: {warning}")
    if made.runnable:
        screen.say(out, "Next: " + call.command.replace(" plan", " sweep", 1))
    return 0


def start(made: Plan, call: Call) -> int:
    """Runs a plan here, or submits it; the exit code."""
    config = made.config
    if config.cluster.scheduler is Scheduler.slurm:
        from jobs.cluster.verb_submit import submit_plan

        return submit_plan(made, call)
    with nothing_started_told():
        ledger = new_ledger(config)
        write_ledger(made, ledger, verb=call.verb, command=call.command)
    return run_here(made, ledger, call)


def run_here(made: Plan, ledger: Ledger, call: Call) -> int:
    """Runs a plan whose ledger is written, one point after another; the exit code."""
    config: Run = made.config
    out = screen.console()
    if made.note:
        screen.say(out, made.note)
    single = len(made.points) == 1
    total, begun = len(made.points), 0

    def follow(point: PlannedPoint, record: Record | None) -> None:
        nonlocal begun
        if record is None:
            begun += 1
            screen.say(out, f"[{begun}/{total}] {screen.label(point)}")
            return
        if single:
            screen.show_record(record, out)
        else:
            screen.show_outcome(record, out)

    try:
        with submitting(ledger), running_line(out, ledger) as tick:
            ended = run_plan(made, ledger, follow, tick)
    except KeyboardInterrupt:
        screen.say(out, "Interrupted: the running point is recorded as cancelled.")
        _show_resume(total - begun, ledger, call, out)
        _show_next(ledger, call, out)
        raise
    if not single:
        screen.show_points(ended, out)
        screen.say(out, screen.common(made.points))
    _show_next(ledger, call, out)
    states = [record.outcome.value for _, record in ended]
    return outcome_code(states, allow_unsupported=config.allow_unsupported)


def _show_resume(left: int, ledger: Ledger, call: Call, out: Console) -> None:
    words = f"{counted(left, 'point was', 'points were')} not started; to go on" if left else ""
    resume = f"python launch.py resume {ledger.sweep_id}{call.places}"
    screen.say(out, f"{words or 'To run it again'}: {resume}")


def _show_next(ledger: Ledger, call: Call, out: Console) -> None:
    screen.say(out, f"Records: {pasted(ledger.root)}")
    screen.say(out, f"Next: python launch.py collect {ledger.sweep_id}{call.places}")
    named = any(word.startswith("cluster=") for word in call.overrides)
    if has_sbatch() and not named and call.verb in ("run", "sweep"):
        screen.say(out, f"On the cluster: {call.command} cluster=slurm")
