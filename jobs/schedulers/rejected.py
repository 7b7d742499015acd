"""The record of a point that the scheduler would not take, while it took others of its sweep."""

from __future__ import annotations

from jobs.files import new_attempt, write_atomic
from jobs.record import Cause, Evidence, Identity, Outcome, Record, to_json
from jobs.sweeps.ledger import PLANNED_JOB, Ledger, now


def record_rejected(ledger: Ledger, point_id: str, refusal: str) -> None:
    """Writes the record of a rejected point.

    Args:
        ledger: The sweep.
        point_id: The point.
        refusal: What the scheduler said, with the key that caused it.
    """
    attempt = new_attempt(ledger.point_folder(PLANNED_JOB, point_id))
    config = next((one.config for one in ledger.plan() if one.point_id == point_id), {})
    record = Record(
        identity=Identity(point_id=point_id, sweep_id=ledger.sweep_id, job_id=None),
        config=config,
        outcome=Outcome.ERROR,
        cause=Cause.submit_rejected,
        reason=refusal,
        evidence=[Evidence(lines=[refusal])],
        finished_at=now(),
        command=ledger.info().command,
    )
    write_atomic(attempt / "record.json", to_json(record))
