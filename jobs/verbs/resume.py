"""The verb `resume`: submits or runs what has no good record yet."""

from __future__ import annotations

from collections.abc import Sequence

from conf.verbs import Resume, Run
from jobs.errors import SchedulerUnavailable, WrongIds
from jobs.files import remove_partial_files
from jobs.schedulers.lock import submitting
from jobs.schedulers.registry import scheduler_named
from jobs.schedulers.scheduler import Phase, Scheduler, SubmissionResult
from jobs.status.point_history import PointHistory
from jobs.status.survey import Survey
from jobs.sweeps.ledger import SNAPSHOT, Ledger
from jobs.sweeps.plan import Plan
from jobs.sweeps.planned_point import PlannedPoint
from jobs.sweeps.source import source_of
from jobs.terminal.console import Console
from jobs.text import pluralize
from jobs.verbs.command_line import Call
from jobs.verbs.follow import follow
from jobs.verbs.scope import Scope
from jobs.verbs.submit import show_results, show_submission, shown_progress, submit_request

_MAX_NAMED = 10
_UNFINISHED = 3


def resume(config: Resume, call: Call) -> int:
    """Submit every point of a sweep that has no final good record and no job under way.

    Returns 0 if all were submitted or none was left, 1 if a part was refused, 3 if some jobs are
    still ending, whose points may have to be submitted later. With `wait`, and for points that
    run within this command, the exit code follows from the outcomes.
    """
    scope = Scope.of_call(config, call)
    folders = {part.folder.resolve() for part in scope.selections}
    if len(folders) > 1:
        raise WrongIds("resume", "one sweep", [folder.name for folder in folders])
    ledger = Ledger(folders.pop())
    out = Console()
    _show_changed_code(ledger, out)
    scheduler = scheduler_named(ledger.info().scheduler)
    survey, points, result = _submit_rest(scheduler, ledger, scope, call)
    damaged = _UNFINISHED if survey.damage and not scheduler.detached else 0
    if result is None:
        out.print_line(f"Nothing to submit of {ledger.sweep_id}: {_summary(survey.points)}.")
    elif result.records:
        plan = Plan(points, Run(allow_unsupported=config.allow_unsupported), source_of())
        return show_results(result, ledger, plan, call) or damaged
    else:
        show_submission(ledger, result, call, waits=config.wait)
    if scheduler.detached and not config.wait:
        ending = _UNFINISHED if _ending_jobs(survey) else 0
        return ending if result is None or result.complete else 1
    if scheduler.detached:
        survey = follow(scope, out)
        scope.show_next(survey, out)
    return survey.exit_code(allow_unsupported=config.allow_unsupported)


def _submit_rest(
    scheduler: Scheduler, ledger: Ledger, scope: Scope, call: Call
) -> tuple[Survey, tuple[PlannedPoint, ...], SubmissionResult | None]:
    """Return the state before, the points to run, and what became of them (None: there are none).

    Raises:
        SchedulerUnavailable: The scheduler does not list its jobs; nothing was submitted, because
            points could be submitted twice.
    """
    out = Console()
    ids = ledger.sweep_id + call.places
    with (
        submitting(ledger) as lock,
        scheduler.interruption_notice(ledger, ids, new=False),
    ):
        remove_partial_files(ledger.root)
        for job_id in scheduler.recover(ledger):
            out.print_line(f"Recovered: job {job_id} had been submitted")
        survey = scope.survey()
        if survey.answer.unreachable is not None:
            raise SchedulerUnavailable(
                "find out which points have a job", survey.answer.unreachable
            )
        _show_damage(survey, out)
        _show_ending(survey, out)
        points = tuple(point.planned for point in survey.points if _needs_run(point, scheduler))
        if not points:
            return survey, points, None
        request = scheduler.prepare(points)
        with shown_progress(ledger, points) as progress:
            result = submit_request(request, ledger, lock, progress)
        return survey, points, result if result.replies or result.records else None


def _needs_run(point: PointHistory, scheduler: Scheduler) -> bool:
    """True if a point has neither a good record nor a job under way.

    Jobs that end with their command cannot be under way: this process holds the lock.
    """
    if point.planned.unsupported is not None or not scheduler.detached:
        return not point.finished or point.needs_run
    return point.needs_run


def _ending_jobs(survey: Survey) -> list[str]:
    """Return the jobs that are being stopped and may leave points to submit."""
    tasks = [
        point.task_state
        for point in survey.points
        if point.under_way and point.task_state is not None
    ]
    return list(dict.fromkeys(task.job_id for task in tasks if task.phase is Phase.ENDING))


def _show_ending(survey: Survey, out: Console) -> None:
    jobs = _ending_jobs(survey)
    if jobs:
        more = f" and {len(jobs) - _MAX_NAMED} more" if len(jobs) > _MAX_NAMED else ""
        out.print_line(
            f"Still ending: {pluralize(len(jobs), 'job')}, {', '.join(jobs[:_MAX_NAMED])}{more}; "
            "resume again when they have ended",
            style="yellow",
        )


def _summary(points: Sequence[PointHistory]) -> str:
    good = sum(point.finished for point in points)
    counts = (
        (good, f"{pluralize(good, 'point has', 'points have')} a good record"),
        (
            len(points) - good,
            f"{pluralize(len(points) - good, 'point has', 'points have')} a job under way",
        ),
    )
    return ", ".join(text for count, text in counts if count)


def _show_damage(survey: Survey, out: Console) -> None:
    """Show that points are missing from a damaged plan: they are not run again."""
    for problem in survey.damage:
        out.print_line(f"damaged: {problem.file}: {problem.what}", style="yellow")


def _show_changed_code(ledger: Ledger, out: Console) -> None:
    then, now = ledger.info().source, source_of()
    if then != now and not (ledger.root / SNAPSHOT).is_dir():
        out.print_line(
            f"Note: the code has changed since the sweep was planned ({then}); its "
            f"points run from the present code ({now}). "
            "launch.snapshot=true keeps the code",
        )
