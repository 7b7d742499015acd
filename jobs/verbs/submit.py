"""What the verbs that start points share: the plan, its submission, and what they show of it."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from jobs.record import Record, State
from jobs.schedulers.lock import submitting
from jobs.schedulers.registry import installed_schedulers, scheduler_named
from jobs.schedulers.scheduler import (
    Accepted,
    Progress,
    Refused,
    Request,
    Scheduler,
    SubmissionResult,
)
from jobs.status.exit_code import exit_code
from jobs.sweeps.labels import common_settings
from jobs.sweeps.ledger import Ledger
from jobs.sweeps.new_sweep import new_ledger, write_ledger
from jobs.sweeps.plan import Plan, make_plan
from jobs.sweeps.planned_point import PlannedPoint
from jobs.sweeps.request import PointRequest
from jobs.terminal.console import Console
from jobs.terminal.interrupts import nothing_started_notice
from jobs.terminal.records import print_outcome, print_record, speedup_cells
from jobs.terminal.running_line import running_line
from jobs.terminal.table import Cell, Column, Table
from jobs.text import first_line, pluralize, shell_quote
from jobs.verbs.added_axes import added_axes
from jobs.verbs.command_line import Call
from jobs.verbs.follow import follow
from jobs.verbs.retry import Retries
from jobs.verbs.scope import Scope

Watch = Callable[[Ledger, Sequence[PlannedPoint]], AbstractContextManager[Progress]]
"""Returns the callbacks for points that run within this command."""


def plan_points(requests: Sequence[PointRequest], call: Call) -> Plan:
    """Return the plan of a command."""
    with nothing_started_notice():
        return dataclasses.replace(make_plan(requests), note=added_axes(requests, call))


def scheduler_of(plan: Plan) -> Scheduler:
    """Return the scheduler that the plan's cluster names."""
    return scheduler_named(plan.config.cluster.scheduler.name)


def start(plan: Plan, call: Call) -> int:
    """Submit or run a plan as a new sweep, and return the exit code.

    Without waiting it is 0, or 1 if a part was refused. With `wait`, or if no point can run, it
    follows from the outcomes.
    """
    config = plan.config
    out = Console()
    ledger, result = submit_new(plan, scheduler_of(plan), call)
    if result.records:
        return show_results(result, ledger, plan, call)
    show_submission(ledger, result, call, waits=config.wait or not result.replies)
    if not config.wait and result.replies:
        return 0 if result.complete else 1
    scope = Scope.of_sweep(ledger, call)
    retry = Retries(ledger, config.launch.retries, scope.ids, out)
    survey = follow(scope, out, retry)
    scope.show_next(survey, out)
    return survey.exit_code(allow_unsupported=config.allow_unsupported)


@contextlib.contextmanager
def shown_progress(ledger: Ledger, points: Sequence[PlannedPoint]) -> Iterator[Progress]:
    """Show each point as it starts and ends, and a line while it runs."""
    out = Console()
    with running_line(out, ledger.root) as tick:
        yield _ShownProgress(out, len(points), tick)


@contextlib.contextmanager
def hidden_progress(ledger: Ledger, points: Sequence[PlannedPoint]) -> Iterator[Progress]:
    """Show nothing."""
    yield Progress()


class _ShownProgress(Progress):
    def __init__(self, out: Console, total: int, tick: Callable[[], None]) -> None:
        self._out, self._total, self._tick = out, total, tick
        self._started = 0

    def started(self, point: PlannedPoint) -> None:
        self._started += 1
        self._out.print_line(f"[{self._started}/{self._total}] {point.label}")

    def ended(self, point: PlannedPoint, record: Record) -> None:
        show = print_record if self._total == 1 else print_outcome
        show(record, self._out)

    def tick(self) -> None:
        self._tick()


def submit_new(
    plan: Plan, scheduler: Scheduler, call: Call, watch: Watch = shown_progress
) -> tuple[Ledger, SubmissionResult]:
    """Write a new sweep and submit it.

    Raises:
        UsageError: A request that could never run; nothing was written.
        SchedulerError: The scheduler does not answer, or accepted nothing; no files remain.
    """
    with nothing_started_notice():
        request = scheduler.prepare(plan.points)
        ledger = new_ledger(plan.config)
        try:
            request.check_folder(ledger.root)
            write_ledger(plan, ledger, verb=call.verb, command=call.command)
        except BaseException:
            shutil.rmtree(ledger.root, ignore_errors=True)
            raise
    if plan.note:
        Console().print_line(plan.note)
    ids = ledger.sweep_id + call.places
    with (
        submitting(ledger) as lock,
        scheduler.interruption_notice(ledger, ids, new=True),
        watch(ledger, plan.points) as progress,
    ):
        return ledger, submit_request(request, ledger, lock, progress)


def submit_request(
    request: Request, ledger: Ledger, lock: int, progress: Progress
) -> SubmissionResult:
    """Show the notes and warnings of a request, and submit it."""
    out = Console()
    for note in request.notes:
        out.print_line(f"Note: {note}")
    for warning in request.warnings:
        out.print_line(f"Warning: {warning}")
    return request.submit(ledger, lock, progress)


def show_submission(ledger: Ledger, result: SubmissionResult, call: Call, *, waits: bool) -> None:
    """Show job ids and the next command, which is not needed if this one waits."""
    out = Console()
    for reply in result.replies:
        jobs = pluralize(reply.tasks, "job")
        if isinstance(reply, Accepted):
            out.print_line(f"Submitted {reply.shown}")
        elif isinstance(reply, Refused):
            out.print_line(f"Not submitted: {jobs}: {reply.error}")
        else:
            out.print_line(f"Possibly submitted: {jobs}: {reply.detail}")
    out.print_line(f"Sweep {ledger.sweep_id}: {shell_quote(ledger.root)}")
    if not result.complete or not waits:
        verb = "status" if result.complete else "resume"
        out.print_line(f"Next: python launch.py {verb} {ledger.sweep_id}{call.places}")


def show_results(result: SubmissionResult, ledger: Ledger, plan: Plan, call: Call) -> int:
    """Show the points that ran within this command, and return the exit code."""
    out = Console()
    if len(plan.points) > 1:
        show_points(result.records, out)
        out.print_line(common_settings(plan.points))
    out.print_line(f"Records: {shell_quote(ledger.root)}")
    out.print_line(f"Next: python launch.py collect {ledger.sweep_id}{call.places}")
    cluster_named = any(word.startswith("cluster=") for word in call.overrides)
    clusters = [backend.name for backend in installed_schedulers() if backend.detached]
    if clusters and not cluster_named and call.verb in ("run", "sweep"):
        out.print_line(f"On the cluster: {call.command} cluster={clusters[0]}")
    states = [State(record.outcome) for _, record in result.records]
    return exit_code(states, allow_unsupported=plan.config.allow_unsupported)


def show_points(records: Sequence[tuple[PlannedPoint, Record]], out: Console) -> None:
    """Show a table of points with their outcomes and ratios."""
    table = Table(
        *(Column("point", whole=True), "what", "outcome"),
        *(Column("fprop", number=True), Column("bprop", number=True), "reason"),
        title="Points",
    )
    for point, record in records:
        table.add_row(
            point.point_id,
            point.label,
            Cell.of_state(record.outcome.value),
            *speedup_cells(record),
            first_line(record.reason),
        )
    out.print_table(table)
