"""Runs points on this machine, one after another, each in a process of its own."""

from __future__ import annotations

import secrets
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from jobs.errors import LedgerError, RecordError
from jobs.process import current_process
from jobs.record import Cause, Identity, Outcome, Record, read_record
from jobs.runner.attempt import PointRunner, StopRequest
from jobs.schedulers.planner_records import record_unsupported
from jobs.schedulers.scheduler import Progress
from jobs.source import CHECKOUT
from jobs.sweeps.ledger import JobLine, Ledger, now
from jobs.sweeps.planned_point import PlannedPoint
from jobs.terminal.interrupts import interrupts_held

ID_PREFIX = "local-"


def run_points(
    points: Sequence[PlannedPoint], ledger: Ledger, progress: Progress
) -> list[tuple[PlannedPoint, Record]]:
    """Run every point that can run, record those that cannot, and return all with their records.

    A point whose files cannot be created, written or read has an ERROR for a record.

    Raises:
        LedgerError: The job cannot be written down; nothing was started.
        KeyboardInterrupt: The running point is recorded as cancelled; the rest has no record.
    """
    job_id = f"{ID_PREFIX}{secrets.token_hex(4)}"
    runnable = [point.point_id for point in points if point.unsupported is None]
    if runnable:
        line = JobLine(
            job_id=job_id,
            tasks={"0": runnable},
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
    records = []
    for point in points:
        progress.started(point)
        try:
            if point.unsupported is None:
                record = _run(point, ledger, job_id, progress)
            else:
                record = record_unsupported(point, ledger)
        except (OSError, LedgerError) as error:  # a full disk, a damaged plan: the rest still runs
            record = _lost(point, ledger, job_id, str(error))
        progress.ended(point, record)
        records.append((point, record))
    return records


def _run(point: PlannedPoint, ledger: Ledger, job_id: str, progress: Progress) -> Record:
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
    with interrupts_held() as signals:

        def stop() -> StopRequest | None:
            progress.tick()
            return _stop(signals)

        try:
            ended = runner.run(*files, stop)
        except StopRequest:
            raise KeyboardInterrupt from None
    try:
        return read_record(Path(ended["attempt"]) / "record.json")
    except RecordError as error:
        return _lost(point, ledger, job_id, str(error))


def _stop(signals: list[int]) -> StopRequest | None:
    """Return the stop that the received signals request; a second one does not wait."""
    if not signals:
        return None
    reason = f"terminated by {signal.Signals(signals[0]).name}"
    if signals[0] == signal.SIGINT:
        reason = "interrupted from the keyboard"
    return StopRequest("cancelled", reason, at_once=len(signals) > 1)


def _lost(point: PlannedPoint, ledger: Ledger, job_id: str, reason: str) -> Record:
    """Return a record in place of one that cannot be written or read; files are left alone."""
    return Record(
        identity=Identity(point_id=point.point_id, sweep_id=ledger.sweep_id, job_id=job_id),
        config=point.config,
        outcome=Outcome.ERROR,
        cause=Cause.lost,
        reason=reason,
    )
