"""Runs a plan on this machine, one point after another, each in a process of its own."""

from __future__ import annotations

import os
import secrets
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from jobs.errors import LedgerError, RecordError
from jobs.files import new_attempt, write_atomic
from jobs.process import current_process
from jobs.record import Cause, Evidence, Identity, Outcome, Record, read_record, to_json
from jobs.runner.attempt import PointRunner, StopRequest
from jobs.sweeps.ledger import PLANNED_JOB, JobLine, Ledger, now
from jobs.sweeps.plan import Plan
from jobs.sweeps.planned_point import PlannedPoint
from jobs.sweeps.source import CHECKOUT
from jobs.terminal.interrupts import interrupts_held

Follow = Callable[[PlannedPoint, Record | None], None]
Tick = Callable[[], None]


def run_plan(
    plan: Plan, ledger: Ledger, follow: Follow, tick: Tick = lambda: None
) -> list[tuple[PlannedPoint, Record]]:
    """Runs every point that can run, and records those that cannot.

    Args:
        plan: The plan, already written to the ledger.
        ledger: The sweep's folder.
        follow: Called with a point and None as it starts, and with its record as it ends.
        tick: Called a few times a second while a point runs.

    Returns:
        Every point with its record, in the plan's order; an ERROR for one whose files could not
        be made, written or read.

    Raises:
        LedgerError: The job cannot be noted; nothing was started.
        KeyboardInterrupt: The running point is recorded as cancelled; the rest has no record.
    """
    job_id = f"local-{secrets.token_hex(4)}"
    tasks = {"0": [point.point_id for point in plan.runnable]}
    if plan.runnable:
        line = JobLine(
            job_id=job_id,
            tasks=tasks,
            scheduler="local",
            submitted_at=now(),
            runner=current_process(),
        )
        try:
            ledger.add_job(line)
        except OSError as error:
            raise LedgerError(
                ledger.jobs_jsonl, f"cannot be written: {error.strerror}", "nothing was started"
            ) from error
    ended = []
    for point in plan.points:
        follow(point, None)
        try:
            if point.unsupported is None:
                record = _run(point, ledger, job_id, tick)
            else:
                record = record_unsupported(point, ledger)
        except (OSError, LedgerError) as error:  # a full disk, a damaged plan: the rest still runs
            record = _lost(point, ledger, job_id, str(error))
        follow(point, record)
        ended.append((point, record))
    return ended


def record_unsupported(point: PlannedPoint, ledger: Ledger) -> Record:
    """Writes the record of a point that no node will ever take.

    Args:
        point: A planned point whose `unsupported` says why.
        ledger: The sweep's folder.

    Returns:
        The record, UNSUPPORTED, under the job `planned`.
    """
    attempt = new_attempt(ledger.point_folder(PLANNED_JOB, point.point_id))
    moment = now()
    info = ledger.info()
    record = Record(
        identity=Identity(point_id=point.point_id, sweep_id=ledger.sweep_id, job_id=PLANNED_JOB),
        config=point.config,
        outcome=Outcome.UNSUPPORTED,
        reason=point.unsupported or "",
        evidence=[Evidence(lines=[point.unsupported or ""], file="plan.jsonl")],
        started_at=moment,
        finished_at=moment,
        duration_s=0.0,
        command=info.command,
    )
    write_atomic(attempt / "record.json", to_json(record))
    return record


def _run(point: PlannedPoint, ledger: Ledger, job_id: str, tick: Tick) -> Record:
    cluster, launch = point.typed_site()
    runner = PointRunner(
        python=cluster.python or sys.executable,
        root=str(CHECKOUT),
        job_id=job_id,
        time_limit_s=launch.point_time_limit_s,
        env=cluster.env,
        max_log_mib=launch.max_log_mib,
    )
    files = ledger.point_file(point.point_id), ledger.point_folder(job_id, point.point_id)
    with interrupts_held() as held:

        def poll_stop() -> StopRequest | None:
            tick()
            return _stop(held)

        try:
            ended = runner.run(*files, poll_stop)
        except StopRequest:
            raise KeyboardInterrupt from None
    path = Path(ended["attempt"]) / "record.json"
    try:
        return read_record(path)
    except RecordError as error:
        return _lost(point, ledger, job_id, str(error))


def _stop(signals: list[int]) -> StopRequest | None:
    """What the signals that have come ask for; who asks twice does not want to wait."""
    if not signals:
        return None
    told = f"told to end ({signal.Signals(signals[0]).name})"
    if signals[0] == signal.SIGINT:
        told = "interrupted from the keyboard"
    return StopRequest("cancelled", told, at_once=len(signals) > 1)


def _lost(point: PlannedPoint, ledger: Ledger, job_id: str, reason: str) -> Record:
    """What stands for a record that cannot be written or read; files are left as they are."""
    return Record(
        identity=Identity(point_id=point.point_id, sweep_id=ledger.sweep_id, job_id=job_id),
        config=point.config,
        outcome=Outcome.ERROR,
        cause=Cause.lost,
        reason=reason,
    )


def has_sbatch() -> bool:
    """Whether this machine can submit to SLURM."""
    from shutil import which

    return which("sbatch", path=os.environ.get("PATH")) is not None
