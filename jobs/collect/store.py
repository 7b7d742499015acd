"""`collection.json`: the index of a collection's folder."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from jobs.errors import RecordError
from jobs.files import MAX_TABLE_BYTES, is_outside, read_bounded, read_json, write_atomic
from jobs.record import Record, read_record
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult
from jobs.sweeps.file_problem import FileProblem
from jobs.sweeps.ledger import SweepInfo
from jobs.sweeps.reading import check_owner
from jobs.validation import first_problem

STORE_NAME = "collection.json"
SCHEMA_VERSION = 1

_POINTS = TypeAdapter(list[PointResult])
_PROBLEMS = TypeAdapter(list[FileProblem])
_NAMES = TypeAdapter(list[str])
_SWEEPS = TypeAdapter(dict[str, dict[str, Any]])
_NOT_STORED = ("record", "differences")


def save_collection(collection: Collection) -> None:
    """Write `collection.json`, which refers to records by their paths."""
    assert collection.folder is not None
    head = json.dumps(
        {
            "schema_version": SCHEMA_VERSION,
            "name": collection.name,
            "totals": collection.totals,
            "job_ids": collection.job_ids,
            "sweeps": collection.sweeps,
            "problems": [vars(problem) for problem in collection.problems],
        },
        indent=1,
    )
    points = ",\n".join(json.dumps(_stored(point)) for point in collection.points)
    text = f'{head[:-2]},\n "points": [\n{points}\n]}}\n'
    write_if_changed(collection.folder / STORE_NAME, text)


def _stored(point: PointResult) -> dict[str, Any]:
    # Not by `asdict`, which copies the whole configuration.
    fields = {key: value for key, value in vars(point).items() if key not in _NOT_STORED}
    return fields | {"evidence": [vars(quote) for quote in point.evidence]}


def load_collection(folder: Path) -> Collection:
    """Read a collection's folder, or a copy of one; unreadable records become problems.

    Raises:
        RecordError: `collection.json` is missing or damaged.
    """
    path = folder / STORE_NAME
    try:
        content: dict[str, Any] = read_json(path, MAX_TABLE_BYTES)
        collection = Collection(
            name=str(content["name"]),
            points=_POINTS.validate_python(content["points"]),
            folder=folder,
            sweeps={
                key: SweepInfo.model_validate(info).model_dump(mode="json") if info else {}
                for key, info in _SWEEPS.validate_python(content["sweeps"]).items()
            },
            problems=_PROBLEMS.validate_python(content["problems"]),
            job_ids=_NAMES.validate_python(content["job_ids"]),
        )
    except OSError as error:
        raise RecordError(path, f"cannot be read: {error.strerror}") from error
    except KeyError as error:
        raise RecordError(path, f"is not a collection: {error} is missing") from error
    except (ValueError, TypeError, AssertionError) as error:
        raise RecordError(path, f"is not a collection: {first_problem(error)}") from error
    points = [_with_record(point, folder, collection.problems) for point in collection.points]
    return dataclasses.replace(collection, points=points)


def _with_record(point: PointResult, folder: Path, problems: list[FileProblem]) -> PointResult:
    if point.record_file is None:
        return dataclasses.replace(point, record=None)
    try:
        record: Record | None = _read(folder, point.record_file, point.point_id)
    except RecordError as error:
        problems.append(FileProblem(point.record_file, error.problem))
        record = None
    return dataclasses.replace(point, record=record)


def _read(folder: Path, name: str, point_id: str) -> Record:
    path = folder / name
    if is_outside(path, folder):
        raise RecordError(path, "is outside the collection's folder")
    record = read_record(path)
    check_owner(record, point_id, path)
    return record


def write_if_changed(path: Path, text: str) -> None:
    """Write a file unless it has this content already."""
    if not holds(path, text):
        write_atomic(path, text)


def holds(path: Path, text: str) -> bool:
    """Return True if the file exists with this content."""
    try:
        return read_bounded(path, MAX_TABLE_BYTES) == text.encode()
    except OSError:
        return False
