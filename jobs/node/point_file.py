"""The input of an attempt: the point file, and the attempt's identity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conf.plain import from_plain
from conf.schema import Point
from jobs.errors import FileError
from jobs.files import attempt_number, read_json
from jobs.record import Identity
from jobs.text import parse_int


@dataclass(frozen=True)
class PointFile:
    """One point as the ledger holds it.

    Attributes:
        point_id: The point's short hash.
        sweep_id: Its sweep; None for a point run by hand.
        point: The typed configuration.
        config: The same as plain data, for the record.
        submitted: The rest of the file: command, commit, dirty, dirty_hash, image ...
    """

    point_id: str
    sweep_id: str | None
    point: Point
    config: dict[str, Any]
    submitted: dict[str, Any]

    def text(self, key: str) -> str | None:
        """Return a value noted at submission, as text."""
        value = self.submitted.get(key)
        return None if value is None else str(value)


def read_point_file(path: Path) -> PointFile:
    """Read and check `POINT.json`.

    Raises:
        FileError: The file is missing, no JSON, or no point.
    """
    try:
        data = read_json(path)
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise FileError(path, f"is not JSON: {error}") from error
    if not isinstance(data, dict) or not isinstance(data.get("point"), dict):
        raise FileError(path, "is not an object with the key point")
    try:
        point = from_plain(Point, data["point"])
    except (ValueError, TypeError) as error:
        raise FileError(path, f"holds no valid point: {error}") from error
    return PointFile(
        point_id=str(data.pop("point_id", "p-unnamed")),
        sweep_id=data.pop("sweep_id", None),
        point=point,
        config=data.pop("point"),
        submitted=data,
    )


def attempt_identity(
    point_id: str, sweep_id: str | None, attempt_dir: Path, variables: Mapping[str, str]
) -> Identity:
    """Return the identity of an attempt, for `started.json` and `record.json`.

    Args:
        point_id: The point.
        sweep_id: Its sweep.
        attempt_dir: `attempt-<n>` gives the number, any other name 1.
        variables: Environment with SLURM's variables, or `MXFP8_JOB_ID` of a local job.
    """
    raw = variables.get("SLURM_JOB_ID")
    array, task = variables.get("SLURM_ARRAY_JOB_ID"), variables.get("SLURM_ARRAY_TASK_ID")
    slurm_id = f"{array}_{task}" if array and task else raw
    return Identity(
        point_id=point_id,
        sweep_id=sweep_id,
        job_id=variables.get("MXFP8_JOB_ID") or slurm_id,
        raw_job_id=raw,
        attempt=attempt_number(attempt_dir) or 1,
        restart_count=parse_int(variables.get("SLURM_RESTART_COUNT", "0")) or 0,
    )
