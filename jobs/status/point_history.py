"""Everything known of one point, and the only place that decides its state.

A record decides if there is one, then the scheduler, then the files that the point's job left.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from jobs.process import is_running
from jobs.record import INFRASTRUCTURE_CAUSES, Cause, Process, Record, State
from jobs.schedulers.scheduler import Phase, QueryResult, TaskState
from jobs.status.job_logs import JobLogs
from jobs.status.log_search import LogSign, find_sign
from jobs.status.point_result import PointResult, Quote
from jobs.sweeps.ledger import PLANNED_JOB, JobLine
from jobs.sweeps.planned_point import PlannedPoint
from jobs.sweeps.sweep_files import Attempt, SweepFiles, Task
from jobs.text import join_sentences

_LONGEST_REASON = 300  # characters of a log's line
_NO_RECORD = "no record was written"


@dataclass(frozen=True)
class Conclusion:
    """State of a point with its explanation."""

    state: State
    reason: str = ""
    cause: Cause | None = None
    evidence: list[Quote] = field(default_factory=list)


@dataclass(frozen=True)
class PointHistory:
    """One planned point with its submissions, attempts, records, logs and scheduler state.

    Attributes:
        sweep: Files of its sweep.
        point_id: The point.
        job_logs: Logs of the sweep's jobs.
        task_state: State of its job; None if no scheduler answered for it.
        moment: Time of the query, in seconds since the epoch.
    """

    sweep: SweepFiles
    point_id: str
    job_logs: JobLogs
    task_state: TaskState | None = None
    moment: float = 0.0

    # What the files say.

    @property
    def planned(self) -> PlannedPoint:
        """Line of the plan."""
        return self.sweep.planned[self.point_id]

    @property
    def task(self) -> Task | None:
        """Last submission."""
        return next(reversed(self.sweep.tasks.get(self.point_id, [])), None)

    @property
    def attempts(self) -> list[Attempt]:
        """Attempts, oldest first."""
        return self.sweep.attempts.get(self.point_id, [])

    @property
    def latest(self) -> Attempt | None:
        """Last attempt; None if the point was submitted again since."""
        attempt = next(reversed(self.attempts), None)
        stale = attempt and self.task and self.task.job_id != attempt.job_folder
        return None if stale else attempt

    @property
    def record(self) -> Record | None:
        """Record of the last attempt."""
        return self.latest.record if self.latest else None

    @property
    def job_id(self) -> str | None:
        """Job that ran it last, or will."""
        if self.latest is not None and self.latest.job_id:
            return self.latest.job_id
        if self.task is not None:
            return str(self.task)
        folder = self.latest.job_folder if self.latest else PLANNED_JOB
        return None if folder == PLANNED_JOB else folder

    @property
    def job_folder(self) -> str:
        """Name of the folder of that job; empty if there is none."""
        if self.task is not None:
            return self.task.job_id
        return self.attempts[-1].job_folder if self.attempts else ""

    @property
    def logs(self) -> list[Path]:
        """Logs that may explain the state, most relevant first."""
        return self.job_logs.of_point(self.point_id, self.job_folder, self.task)

    @property
    def query_id(self) -> str | None:
        """Job whose state is needed from the scheduler; None if the record is final.

        If the submission was never written down, it is the job that started the point.
        """
        if not self._may_change:
            return None
        if self.task is not None:
            return str(self.task)
        latest = self.latest
        if latest is None or latest.record is not None or latest.started is None:
            return None
        return latest.started.identity.job_id

    @property
    def _may_change(self) -> bool:
        """True if the scheduler or a log may still add to what the last record says."""
        record = self.record
        if self.task is None or record is None:
            return True
        return record.cause in INFRASTRUCTURE_CAUSES

    def may_have_ended(self, answer: QueryResult) -> bool:
        """True if its job ended after its files were read, which may lack the record then."""
        state = answer.tasks.get(self.query_id or "")
        return self.record is None and state is not None and state.final

    def with_answer(self, answer: QueryResult, moment: float) -> PointHistory:
        """Return the history with the scheduler's answer."""
        state = answer.task(self.job_id, self.sweep.names) if self.job_id else None
        return replace(self, task_state=state, moment=moment)

    # What follows from them.

    @property
    def state(self) -> State:
        """State of the point."""
        return self._conclusion.state

    @property
    def cause(self) -> Cause | None:
        """Cause of an ERROR."""
        return self._conclusion.cause

    @property
    def reason(self) -> str:
        """One line that explains the state."""
        return self._conclusion.reason

    @property
    def evidence(self) -> list[Quote]:
        """Lines that show the state."""
        return self._conclusion.evidence

    @property
    def finished(self) -> bool:
        """True if the point has an outcome."""
        return self.state.finished

    @property
    def under_way(self) -> bool:
        """True if a job runs the point, or will."""
        return self.state.under_way

    @property
    def needs_run(self) -> bool:
        """True if the point has neither a good record nor a job that is under way."""
        runnable = self.planned.unsupported is None
        return runnable and self.state in (State.PLANNED, State.ERROR)

    @property
    def label(self) -> str:
        """Values of the sweep's axes, or the main settings if there are none."""
        choices = self.planned.choices
        return " ".join(f"{key}={choices[key]}" for key in choices) or self.result().label

    @property
    def node(self) -> str:
        """Node that runs or ran it."""
        if self.task_state is not None and self.task_state.node:
            return self.task_state.node
        started = self._started
        host = started.started.host if started and started.started else ""
        if self.record is None:
            return host
        environment = self.record.environment
        has_scheduler = self.task is not None and self._runner is None
        return (environment.node_name if has_scheduler else "") or environment.host or host

    @property
    def elapsed_s(self) -> float | None:
        """Run time, in seconds."""
        if self.record is not None:
            return self.record.duration_s
        if self.state is State.RUNNING and self._started is not None:
            with contextlib.suppress(OSError):  # the node's own clock may be wrong
                started = (self._started.folder / "started.json").stat().st_mtime
                return max(0.0, self.moment - started)
        if self.task_state is not None and self.task_state.final:
            return self.task_state.elapsed_s
        return None

    def result(self) -> PointResult:
        """Return the plain result, for tables, reports and comparisons."""
        info, record = self.sweep.info, self.record
        command = record.command if record else None
        return PointResult(
            point_id=self.point_id,
            sweep_id=self.sweep.sweep_id,
            config=self.planned.config,
            state=self.state,
            cause=self.cause,
            reason=self.reason,
            evidence=self.evidence,
            job_id=self.job_id,
            attempt=self.latest.number if self.latest else None,
            attempts=len(self.attempts),
            record=record,
            command=command or (info.command if info else None),
        )

    @property
    def _started(self) -> Attempt | None:
        """Last attempt of the current job that wrote `started.json`."""
        for attempt in reversed(self.attempts):
            if attempt.started and (self.task is None or attempt.job_folder == self.task.job_id):
                return attempt
        return None

    @property
    def _line(self) -> JobLine | None:
        return self.sweep.lines.get(self.task.job_id) if self.task else None

    @property
    def _runner(self) -> Process | None:
        """Process that runs the job, if no scheduler does."""
        return self._line.runner if self._line else None

    @cached_property
    def _conclusion(self) -> Conclusion:
        return self._from_record() or self._from_scheduler() or self._from_files()

    def _from_record(self) -> Conclusion | None:
        latest, state = self.latest, self.task_state
        if latest is None:
            return None
        if latest.damage is not None:
            return Conclusion(State.ERROR, f"record.json {latest.damage}", Cause.lost)
        record = latest.record
        if record is None:
            return None
        if record.cause in INFRASTRUCTURE_CAUSES and state is not None:
            restarted = (state.restarts or 0) > record.identity.restart_count
            if state.pending or (restarted and state.running):
                return Conclusion(State.REQUEUED, f"after {record.cause}")
            if restarted and state.cause is Cause.cancelled:
                return self._without_record(state, "requeued, and ended before this point's turn")
        quotes = [Quote(piece.lines, piece.file) for piece in record.evidence]
        return Conclusion(State(record.outcome), record.reason, record.cause, quotes)

    def _from_scheduler(self) -> Conclusion | None:
        state = self.task_state
        if state is None:
            return None
        if state.pending:
            requeued = state.phase is Phase.REQUEUED
            return Conclusion(State.REQUEUED if requeued else State.PENDING, state.explained())
        if state.running:
            if self.latest is None:
                return Conclusion(State.PENDING, "queued inside a running job")
            return Conclusion(State.RUNNING, state.explained())
        task = self.task
        missing = task is not None and not (self.sweep.folder / task.job_id).is_dir()
        return self._without_record(
            state, "the job's folder is missing" if missing else _NO_RECORD
        )

    def _without_record(self, state: TaskState, consequence: str) -> Conclusion:
        """Return the conclusion of a job that ended and left no record of the point."""
        python = self.sweep.interpreter(self.task.job_id) if self.task else None
        end = state.explained(python) or f"job ended with state {state.state}"
        sign = find_sign(self.logs, self.point_id)
        evidence = _quotes(sign)
        evidence += [Quote(list(state.evidence))] if state.evidence else []
        cause = state.cause
        if cause in (None, Cause.lost):
            cause = sign.cause if sign else None
        if sign is not None and cause is not None and state.cause is None:
            end = f"{sign.line[:_LONGEST_REASON]} ({end})"
        reason = join_sentences(end, consequence)
        return Conclusion(State.ERROR, reason, cause or Cause.lost, evidence)

    def _from_files(self) -> Conclusion:
        """Return the conclusion if no scheduler answered."""
        if self.latest is not None:
            return self._of_started(self.latest)
        if self.job_id is None:
            return Conclusion(State.PLANNED, "not submitted")
        since = f"submitted {self._line.submitted_at}" if self._line else "submitted"
        if self._runner is not None:
            running = is_running(self._runner)
            if running is False:
                resume = f"python launch.py resume {self.sweep.sweep_id}"
                reason = f"the run ended before this point's turn; to run it: {resume}"
                return Conclusion(State.PLANNED, reason)
            return Conclusion(State.PENDING, "" if running else _only_on(self._runner, since))
        sign = find_sign(self.logs, self.point_id)
        if sign is not None and sign.cause is not None:
            return _from_sign(sign, "the job ended before this point's turn")
        return Conclusion(State.PENDING, f"{since}; no scheduler here to query")

    def _of_started(self, attempt: Attempt) -> Conclusion:
        """Return the conclusion of an attempt without a record and without a scheduler."""
        sign = find_sign(self.logs, self.point_id)
        if sign is not None and sign.cause not in (None, Cause.exception):
            return _from_sign(sign, "its log shows how it ended")
        runner = self._runner
        processes = [process for process in (attempt.started, runner) if process is not None]
        answers = [is_running(process) for process in processes]
        if True in answers:
            return Conclusion(State.RUNNING)
        if runner is not None and None not in answers:
            return _from_sign(sign, "its process has ended")
        since = "started"
        if attempt.started is not None:
            since = f"started {attempt.started.started_at}"
        elif self._line is not None:
            since = f"started after {self._line.submitted_at}"
        if runner is None:
            # The point's process may have ended: the runner then writes the record, and only the
            # scheduler knows if there still is a runner.
            return Conclusion(State.RUNNING, f"{since}; no scheduler here to query")
        return Conclusion(State.RUNNING, _only_on(processes[0], since))


def _only_on(process: Process, since: str) -> str:
    return f"{since}; process {process.pid} can be checked only on {process.host}"


def _from_sign(sign: LogSign | None, reason: str) -> Conclusion:
    cause = sign.cause if sign else None
    reason = join_sentences(reason, _NO_RECORD)
    return Conclusion(State.ERROR, reason, cause or Cause.lost, _quotes(sign))


def _quotes(sign: LogSign | None) -> list[Quote]:
    return [Quote([*sign.before, sign.line], str(sign.file))] if sign else []
