"""The verbs that make points: run, sweep and plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from conf.choices import Scheduler
from conf.verbs import Run
from jobs.record import Record, State
from jobs.schedulers.local import has_sbatch, run_plan
from jobs.schedulers.lock import submitting
from jobs.status.exit_code import exit_code
from jobs.sweeps.labels import common_settings
from jobs.sweeps.ledger import Ledger
from jobs.sweeps.new_sweep import new_ledger, write_ledger
from jobs.sweeps.plan import Plan, make_plan
from jobs.sweeps.planned_point import PlannedPoint
from jobs.sweeps.request import PointRequest
from jobs.terminal import screen
from jobs.terminal.interrupts import nothing_started_told
from jobs.terminal.running_line import running_line
from jobs.terminal.tables import show_table
from jobs.text import pluralize, shell_quote
from jobs.verbs.added_axes import added_axes
from jobs.verbs.command_line import Call

if TYPE_CHECKING:
    from rich.console import Console


def run(asks: Sequence[PointRequest], call: Call) -> int:
    """Runs one point and shows its record; several points of a `--multirun` are a sweep."""
    return start(_planned(asks, call), call)


def sweep(asks: Sequence[PointRequest], call: Call) -> int:
    """Runs every point, one after another here, or submits them."""
    return start(_planned(asks, call), call)


def _planned(asks: Sequence[PointRequest], call: Call) -> Plan:
    with nothing_started_told():
        return dataclasses.replace(make_plan(asks), note=added_axes(asks, call))


def plan(asks: Sequence[PointRequest], call: Call) -> int:
    """Shows what `sweep` would do, and does nothing."""
    made = _planned(asks, call)
    out = screen.console()
    requests = None
    if made.config.cluster.scheduler is Scheduler.slurm and made.runnable:
        from jobs.verbs.plan_preview import make_requests, show_requests

        requests = make_requests(made)
    if made.note:
        screen.say(out, made.note)
    shown = screen.table("Plan", "point", "what", "runs?")
    for point in made.points:
        runs = "yes" if point.unsupported is None else f"UNSUPPORTED: {point.unsupported}"
        shown.add_row(point.point_id, point.label, runs)
    show_table(out, shown)
    screen.say(out, common_settings(made.points))
    if requests is not None:
        show_requests(requests, out)
    out.print(
        f"{pluralize(len(made.points), 'point')}: {len(made.runnable)} to run, "
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
        from jobs.verbs.sweep import submit_plan

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
            screen.say(out, f"[{begun}/{total}] {point.label}")
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
        show_points(ended, out)
        screen.say(out, common_settings(made.points))
    _show_next(ledger, call, out)
    states = [State(record.outcome) for _, record in ended]
    return exit_code(states, allow_unsupported=config.allow_unsupported)


def _show_resume(left: int, ledger: Ledger, call: Call, out: Console) -> None:
    words = f"{pluralize(left, 'point was', 'points were')} not started; to go on" if left else ""
    resume = f"python launch.py resume {ledger.sweep_id}{call.places}"
    screen.say(out, f"{words or 'To run it again'}: {resume}")


def _show_next(ledger: Ledger, call: Call, out: Console) -> None:
    screen.say(out, f"Records: {shell_quote(ledger.root)}")
    screen.say(out, f"Next: python launch.py collect {ledger.sweep_id}{call.places}")
    named = any(word.startswith("cluster=") for word in call.overrides)
    if has_sbatch() and not named and call.verb in ("run", "sweep"):
        screen.say(out, f"On the cluster: {call.command} cluster=slurm")


def show_points(rows: Sequence[tuple[PlannedPoint, Record | None]], out: Console) -> None:
    """One table of every point, with its outcome and figures.

    Args:
        rows: The plan's points, each with its record where it has one.
        out: Where it is shown.
    """
    made = screen.table(
        "Points", "point", "what", "outcome", "fprop", "bprop", "reason", right=("fprop", "bprop")
    )
    for point, record in rows:
        outcome = record.outcome.value if record else "PLANNED"
        fprop, bprop = screen.ratios(record) if record else ("", "")
        reason = screen.short(screen.harmless(record.reason if record else ""))
        made.add_row(point.point_id, point.label, screen.styled(outcome), fprop, bprop, reason)
    show_table(out, made)
