"""What the submitter handed to this attempt: the point file, and the attempt's identity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conf.plain import from_plain
from conf.schema import Point
from jobs.errors import UsageError
from jobs.files import attempt_number, read_json
from jobs.record import Identity
from jobs.text import parse_int


@dataclass(frozen=True)
class PointFile:
    """One point as the ledger holds it.

    Attributes:
        point_id: The point's short hash.
        sweep_id: The sweep it was planned in, None for a point run by hand.
        point: The typed configuration.
        config: The same as plain data, as the record will carry it.
        submitted: Everything else of the file: command, commit, dirty, dirty_hash, image ...
    """

    point_id: str
    sweep_id: str | None
    point: Point
    config: dict[str, Any]
    submitted: dict[str, Any]

    def text(self, key: str) -> str | None:
        """A text that the submitter noted, None where it noted none."""
        value = self.submitted.get(key)
        return None if value is None else str(value)


def read_point_file(path: Path) -> PointFile:
    """Reads and checks `POINT.json`.

    Args:
        path: The file.

    Returns:
        The point with what came along with it.

    Raises:
        UsageError: The file is missing, no JSON, or no point; says which and where.
    """
    try:
        data = read_json(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path} must be JSON, got {error}") from error
    if not isinstance(data, dict) or not isinstance(data.get("point"), dict):
        raise UsageError(
            f"{path} must hold an object with the key point, got {type(data).__name__}"
        )
    try:
        point = from_plain(Point, data["point"])
    except (ValueError, TypeError) as error:
        raise UsageError(f"{path}: {error}") from error
    known = {"point_id", "sweep_id", "point"}
    return PointFile(
        point_id=str(data.get("point_id", "p-unnamed")),
        sweep_id=data.get("sweep_id"),
        point=point,
        config=data["point"],
        submitted={key: value for key, value in data.items() if key not in known},
    )


def attempt_identity(
    point_id: str, sweep_id: str | None, attempt_dir: Path, variables: Mapping[str, str]
) -> Identity:
    """Says which execution of which point this is.

    Args:
        point_id: The point.
        sweep_id: Its sweep.
        attempt_dir: The attempt's folder; `attempt-<n>` gives the number, anything else 1.
        variables: The environment: SLURM's own variables, or `MXFP8_JOB_ID` of a local job.

    Returns:
        The identity that `started.json` and `record.json` carry.
    """
    raw = variables.get("SLURM_JOB_ID")
    array, task = variables.get("SLURM_ARRAY_JOB_ID"), variables.get("SLURM_ARRAY_TASK_ID")
    named = variables.get("MXFP8_JOB_ID")
    slurm = f"{array}_{task}" if array and task else raw
    restarts = variables.get("SLURM_RESTART_COUNT", "0")
    return Identity(
        point_id=point_id,
        sweep_id=sweep_id,
        job_id=named or slurm,
        raw_job_id=raw,
        attempt=attempt_number(attempt_dir) or 1,
        restart_count=parse_int(restarts) or 0,
    )
