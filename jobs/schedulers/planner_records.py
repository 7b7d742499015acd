"""Records that the planner writes itself, of points that never become a job."""

from __future__ import annotations

from jobs.files import new_attempt, write_atomic
from jobs.record import Cause, Evidence, Identity, Outcome, Record, to_json
from jobs.sweeps.ledger import PLANNED_JOB, Ledger, now
from jobs.sweeps.planned_point import PlannedPoint


def record_unsupported(point: PlannedPoint, ledger: Ledger) -> Record:
    """Write the UNSUPPORTED record of a planned point."""
    moment = now()
    record = Record(
        identity=Identity(point_id=point.point_id, sweep_id=ledger.sweep_id, job_id=PLANNED_JOB),
        config=point.config,
        outcome=Outcome.UNSUPPORTED,
        reason=point.unsupported or "",
        evidence=[Evidence(lines=[point.unsupported or ""], file="plan.jsonl")],
        started_at=moment,
        finished_at=moment,
        duration_s=0.0,
        command=ledger.info().command,
    )
    _write(record, ledger)
    return record


def record_rejected(point: PlannedPoint, ledger: Ledger, reason: str) -> None:
    """Write the ERROR record of a point that the scheduler refused while it accepted others."""
    record = Record(
        identity=Identity(point_id=point.point_id, sweep_id=ledger.sweep_id, job_id=None),
        config=point.config,
        outcome=Outcome.ERROR,
        cause=Cause.submit_rejected,
        reason=reason,
        evidence=[Evidence(lines=[reason])],
        finished_at=now(),
        command=ledger.info().command,
    )
    _write(record, ledger)


def _write(record: Record, ledger: Ledger) -> None:
    attempt = new_attempt(ledger.point_folder(PLANNED_JOB, record.identity.point_id))
    write_atomic(attempt / "record.json", to_json(record))
