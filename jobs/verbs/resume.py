"""The verbs `resume` and `repro`: submits what has no good record yet, or one point anew."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from conf.choices import Scheduler
from conf.verbs import Repro, Resume, Run
from jobs.errors import SchedulerError, UsageError
from jobs.files import remove_partial_files
from jobs.schedulers.local import record_unsupported
from jobs.schedulers.lock import submitting
from jobs.schedulers.slurm.batches import make_batches
from jobs.schedulers.slurm.dispatch import cut_short_told, show_submitted, submit_batches
from jobs.schedulers.slurm.limits import ask_limits
from jobs.schedulers.slurm.recover import recover
from jobs.status.point_history import PointHistory
from jobs.status.survey import Survey
from jobs.sweeps.ledger import Ledger
from jobs.sweeps.plan import Plan
from jobs.sweeps.planned_point import PlannedPoint, point_id
from jobs.sweeps.reading import read_sweep
from jobs.sweeps.selection import Selection
from jobs.sweeps.source import Source, source_of
from jobs.terminal import screen
from jobs.text import pluralize
from jobs.verbs.command_line import Call
from jobs.verbs.follow import follow
from jobs.verbs.run import run_here, start
from jobs.verbs.status import look, named, selected, show_next

_NAMED = 10


def resume(config: Resume, call: Call) -> int:
    """Submits every point of a sweep that has no final good record and no job on its way.

    Args:
        config: Whether to wait.
        call: One sweep, or jobs or points of one; none: the newest sweep.

    Returns:
        0 when all was submitted or nothing was left, 1 if a part was refused, 3 if jobs still end
        whose points may then have to be submitted; with `wait`, by the outcomes.
    """
    selections = selected(config, call)
    folders = {one.folder.resolve() for one in selections}
    if len(folders) > 1:
        raise UsageError(f"resume must be given one sweep, got {len(folders)}; resume each")
    ledger = Ledger(folders.pop())
    out = screen.console()
    _show_changed_code(ledger, out)
    if ledger.info().scheduler == Scheduler.local.name:
        return _resume_here(ledger, selections, config, call)
    code = _submit_rest(ledger, selections, call, out, waits=config.wait)
    if not config.wait:
        return code
    ids = named(selections, call)
    seen = follow(selections, ids, out)
    show_next(seen, ids, out)
    return seen.exit_code(allow_unsupported=config.allow_unsupported)


def _submit_rest(
    ledger: Ledger, selections: Sequence[Selection], call: Call, out: Console, *, waits: bool
) -> int:
    limits = ask_limits()
    with submitting(ledger) as lock, cut_short_told(ledger, call.places, new=False):
        remove_partial_files(ledger.root)
        for line in recover(ledger, limits.name):
            screen.say(out, f"Found: {line}")
        seen = look(selections)
        for row in seen.points:
            if row.planned.unsupported is not None and not row.finished:
                record_unsupported(row.planned, ledger)  # whoever planned it died before
        if any("squeue does not answer" in note for note in seen.notes):
            raise SchedulerError(f"nothing is submitted while that is so: {seen.notes[0]}")
        rest = [row.planned for row in seen.points if row.needs_run]
        ending = _show_ending(seen.points, out)
        if not rest:
            screen.say(out, f"Nothing to submit of {ledger.sweep_id}: {_standing(seen.points)}.")
            return ending
        done = submit_batches(ledger, make_batches(rest, limits), limits, lock)
    show_submitted(ledger, done, call.places, out, waits=waits)
    return 1 if any(one.job_id is None for one in done) else ending


def _show_ending(rows: Sequence[PointHistory], out: Console) -> int:
    """Names the jobs that are ending and may leave points to submit; 3 if there are any."""
    states = [row.task_state for row in rows if row.under_way and row.task_state is not None]
    jobs = list(dict.fromkeys(one.job_id for one in states if one.state == "COMPLETING"))
    if not jobs:
        return 0
    more = f" and {len(jobs) - _NAMED} more" if len(jobs) > _NAMED else ""
    screen.say(
        out,
        f"Still ending (COMPLETING): {pluralize(len(jobs), 'job')}, "
        f"{', '.join(jobs[:_NAMED])}{more}; resume again once they have ended",
        style="yellow",
    )
    return 3


def _standing(rows: Sequence[PointHistory]) -> str:
    good = sum(row.finished for row in rows)
    waiting = len(rows) - good
    words = (
        f"{pluralize(good, 'point has', 'points have')} a good record" if good else "",
        f"{pluralize(waiting, 'point has', 'points have')} a job on its way" if waiting else "",
    )
    return ", ".join(filter(None, words))


def _resume_here(
    ledger: Ledger, selections: Sequence[Selection], config: Resume, call: Call
) -> int:
    with submitting(ledger):  # nobody else runs it: what has not ended never will
        remove_partial_files(ledger.root)
        seen = look(selections)
    _show_damage(seen, screen.console())
    rest = tuple(row.planned for row in seen.points if row.needs_run or not row.finished)
    if not rest:
        screen.console().print("Nothing to run: every point has a good record.")
        return seen.exit_code(allow_unsupported=config.allow_unsupported)
    made = Plan(rest, Run(allow_unsupported=config.allow_unsupported), source_of())
    return run_here(made, ledger, call) or (3 if seen.damage else 0)


def _show_damage(seen: Survey, out: Console) -> None:
    """Names a plan that has lost points: they are run no more."""
    for problem in seen.damage:
        screen.say(out, f"damaged: {problem.file}: {problem.what}", style="yellow")


def _show_changed_code(ledger: Ledger, out: Console) -> None:
    then, now = ledger.info().source, source_of()
    if then != now and not (ledger.root / "snapshot").is_dir():
        screen.say(
            out,
            f"Note: the code has changed since the sweep was planned: {_words(then)}, now "
            f"{_words(now)}; its points run from the code of now (launch.snapshot=true keeps it)",
        )


def _words(source: Source) -> str:
    commit = (source.commit or "no commit")[:12]
    return f"{commit} with changes {source.dirty_hash}" if source.dirty else commit


def repro(config: Repro, call: Call) -> int:
    """Runs one point again exactly as the ledger has it, as a sweep of its own.

    Args:
        config: Whether to wait.
        call: One point, or a job that has one.

    Returns:
        As `run`.
    """
    if len(call.ids) != 1:
        raise UsageError(f"repro must be given one point (p-...), got {len(call.ids)} ids")
    point = _only_point(selected(config, call))
    cluster, launch = point.typed_site()
    source = source_of()
    name = point_id(point.config, cluster, source)
    again = point.model_copy(update={"point_id": name, "index": 0})
    out = screen.console()
    if again.point_id != point.point_id:
        screen.say(
            out,
            f"Note: {point.point_id} ran from other code; this is {again.point_id}: "
            f"{_words(source)}. For the same: check out its commit.",
        )
    run = Run(
        cluster=cluster,
        launch=launch,
        runs_dir=config.runs_dir,
        wait=config.wait,
        allow_unsupported=config.allow_unsupported,
    )
    return start(Plan((again,), run, source), call)


def _only_point(selections: Sequence[Selection]) -> PlannedPoint:
    found = {
        name: sweep.planned[name]
        for one in selections
        for sweep in [read_sweep(one.folder)]
        for name in one.points_of(sweep)
    }
    if len(found) != 1:
        raise UsageError(
            f"repro must be given one point, got {len(found)}: {', '.join(list(found)[:5])}"
        )
    return next(iter(found.values()))
