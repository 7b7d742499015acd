"""Decides what became of a point: its own record first, then the scheduler, then the logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from jobs.files import read_json
from jobs.process import is_running
from jobs.record import INFRASTRUCTURE_CAUSES, Cause, Process, Record, State
from jobs.schedulers.slurm.reasons import explained
from jobs.schedulers.slurm.states import RUNNING, WAITING, TaskState, state_of
from jobs.status.log_search import LogSign, find_sign
from jobs.status.point_result import PointResult, Quote
from jobs.sweeps.ledger import PLANNED_JOB, SUBMISSION_JSON, JobLine
from jobs.sweeps.reading import Attempt, SweepFiles, Task
from jobs.text import join_sentences, plain_text

_LONGEST = 300  # characters of a log's line that are a reason


def judge(
    sweep: SweepFiles, point_id: str, states: Mapping[str, TaskState], logs: list[Path]
) -> PointResult:
    """Decides the state of one point.

    Args:
        sweep: The sweep that planned it.
        point_id: The point.
        states: What the scheduler said of the sweep's jobs; empty where there is none to ask.
        logs: Logs of the job that ran it last, the most telling first.

    Returns:
        The point; without a record never as done.
    """
    planned = sweep.planned[point_id]
    attempts = sweep.attempts.get(point_id, [])
    tasks = sweep.tasks.get(point_id, [])
    latest = attempts[-1] if attempts else None
    if latest is not None and tasks and tasks[-1].job_id != latest.job_folder:
        latest = None  # submitted anew: what the older job left no longer counts
    job_id = _job_of(latest, tasks)

    find = partial(find_sign, logs, point_id)

    def point(
        state: State, reason: str, cause: Cause | None, evidence: list[Quote]
    ) -> PointResult:
        return PointResult(
            point_id=point_id,
            sweep_id=sweep.sweep_id,
            config=planned.config,
            state=state,
            cause=cause,
            reason=reason,
            evidence=evidence,
            job_id=job_id,
            attempt=latest.number if latest else None,
            attempts=len(attempts),
            record=latest.record if latest else None,
            command=_command(sweep, latest),
        )

    state = state_of(job_id, sweep.names, states) if job_id else None
    waits = state is not None and state.state in WAITING
    if latest is not None and latest.record is not None:
        record = latest.record
        again = record.cause in INFRASTRUCTURE_CAUSES and _began_again(state, record)
        if record.cause in INFRASTRUCTURE_CAUSES and (waits or (again and _runs(state))):
            return point(State.REQUEUED, f"after {record.cause.value}", None, [])
        if again and state is not None and state.cause is Cause.cancelled:
            left = "after it was requeued, before it came to this point again"
            return _ended_without_record(point, find, state, _how(state), left)
        quotes = [Quote(piece.lines, piece.file) for piece in record.evidence]
        return point(State(record.outcome), record.reason, record.cause, quotes)
    if latest is not None and latest.damage is not None:
        return point(State.ERROR, f"record.json {latest.damage}", Cause.lost, [])
    if state is not None and waits:
        again = state.state.startswith("REQUEUE")
        return point(State.REQUEUED if again else State.PENDING, explained(state), None, [])
    if state is not None and state.state in RUNNING:
        if latest is None:
            return point(State.PENDING, "its job runs and has not come to it yet", None, [])
        return point(State.RUNNING, explained(state), None, [])
    if state is not None:
        gone = bool(tasks) and not (sweep.folder / tasks[-1].job_id).is_dir()
        left = "the job's folder is gone" if gone else "no record was left"
        line = sweep.lines.get(tasks[-1].job_id) if tasks else None
        how = _how(state, _interpreter(sweep, line))
        return _ended_without_record(point, find, state, how, left)
    line = sweep.lines.get(tasks[-1].job_id) if tasks else None
    if latest is not None:
        return _started_without_scheduler(point, latest, line, find)
    if job_id is None:
        return point(State.PLANNED, "not submitted", None, [])
    return _submitted_without_scheduler(point, line, sweep.sweep_id, find)


def _began_again(state: TaskState | None, record: Record) -> bool:
    """Whether the job was requeued after it left a record."""
    return state is not None and (state.restarts or 0) > record.identity.restart_count


def _runs(state: TaskState | None) -> bool:
    return state is not None and state.state in RUNNING


def _how(state: TaskState, python: str | None = None) -> str:
    return explained(state, python) or f"its job ended as {state.state}"


_Point = Callable[[State, str, Cause | None, list[Quote]], PointResult]
_Find = Callable[[], LogSign | None]


def _ended_without_record(
    point: _Point, find: _Find, state: TaskState, how: str, left: str
) -> PointResult:
    sign = find()
    quotes = _quoted(sign)
    quotes += [Quote(list(state.evidence))] if state.evidence else []
    told = sign.cause if sign else None
    cause = state.cause if state.cause not in (None, Cause.lost) else told
    if sign is not None and cause is not None and state.cause is None:
        how = f"{sign.line[:_LONGEST]} ({how})"
    return point(State.ERROR, join_sentences(how, left), cause or Cause.lost, quotes)


def _interpreter(sweep: SweepFiles, line: JobLine | None) -> str | None:
    """What a job's script calls on the node, as it was submitted."""
    if line is None or line.submission is None:
        return None
    folder = sweep.folder / "submissions" / str(line.submission)
    try:
        asked = read_json(folder / SUBMISSION_JSON, inside=sweep.folder)
    except (OSError, ValueError):
        return None
    python = asked.get("python") if isinstance(asked, dict) else None
    return plain_text(python) if isinstance(python, str) else None


def _quoted(sign: LogSign | None) -> list[Quote]:
    return [Quote([*sign.before, sign.line], str(sign.file))] if sign else []


def _told_by_log(point: _Point, find: _Find, reason: str) -> PointResult:
    sign = find()
    quotes = _quoted(sign)
    cause = (sign.cause if sign else None) or Cause.lost
    return point(State.ERROR, join_sentences(reason, "no record was left"), cause, quotes)


def _started_without_scheduler(
    point: _Point, attempt: Attempt, line: JobLine | None, find: _Find
) -> PointResult:
    sign = find()
    if sign is not None and sign.cause not in (None, Cause.exception):
        return _told_by_log(point, find, "its log tells how it ended")
    runner = line.runner if line else None
    known = [process for process in (attempt.started, runner) if process is not None]
    answers = [is_running(process) for process in known]
    if True in answers:
        return point(State.RUNNING, "", None, [])
    if runner is not None and None not in answers:
        return _told_by_log(point, find, "its process is gone")
    since = "begun"
    if attempt.started is not None:
        since = f"started {attempt.started.started_at}"
    elif line is not None:
        since = f"begun after {line.submitted_at}"
    if runner is None:
        # Its process may be gone: who watches it writes the record afterwards, and of a
        # scheduler's job nobody but the scheduler knows whether anybody does.
        return point(
            State.RUNNING, f"{since}; no scheduler to ask whether it still runs", None, []
        )
    return point(State.RUNNING, f"{since}; {_only_there(known[0])}", None, [])


def _submitted_without_scheduler(
    point: _Point, line: JobLine | None, sweep_id: str, find: _Find
) -> PointResult:
    since = f"submitted {line.submitted_at}" if line else "submitted"
    if line is not None and line.runner is not None:
        runs = is_running(line.runner)
        if runs is False:
            remedy = f"python launch.py resume {sweep_id} runs it"
            return point(State.PLANNED, f"its run ended before its turn; {remedy}", None, [])
        return point(
            State.PENDING, "" if runs else f"{since}; {_only_there(line.runner)}", None, []
        )
    sign = find()
    if sign is not None and sign.cause is not None:
        return _told_by_log(point, find, "its job ended before it started")
    return point(State.PENDING, f"{since}; no scheduler to ask", None, [])


def _only_there(process: Process) -> str:
    return f"only {process.host} can tell whether process {process.pid} still runs"


def _job_of(latest: Attempt | None, tasks: list[Task]) -> str | None:
    sources = (latest.record, latest.started) if latest else ()
    for source in sources:
        if source is not None and source.identity.job_id:
            return source.identity.job_id
    if tasks:
        return str(tasks[-1])
    return latest.job_folder if latest and latest.job_folder != PLANNED_JOB else None


def _command(sweep: SweepFiles, latest: Attempt | None) -> str | None:
    if latest is not None and latest.record is not None and latest.record.command:
        return latest.record.command
    return sweep.info.command if sweep.info else None
