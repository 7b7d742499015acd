"""`collection.json`: what a collection's folder says of itself, and how it is read back."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from jobs.errors import RecordError
from jobs.files import MAX_TABLE_BYTES, is_outside, read_bounded, read_json, write_atomic
from jobs.record import read_record
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult
from jobs.sweeps.ledger import SweepInfo
from jobs.sweeps.problem import Problem
from jobs.sweeps.reading import check_owner
from jobs.validation import first_problem

STORE_NAME = "collection.json"
SCHEMA_VERSION = 1

_POINTS = TypeAdapter(list[PointResult])
_PROBLEMS = TypeAdapter(list[Problem])
_NAMES = TypeAdapter(list[str])
_SWEEPS = TypeAdapter(dict[str, dict[str, Any]])


def save_collection(collection: Collection) -> None:
    """Writes `collection.json`; records are referred to, not repeated.

    Args:
        collection: A collection that has a folder.
    """
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
    points = ",\n".join(json.dumps(_bare(point)) for point in collection.points)
    text = f'{head[:-2]},\n "points": [\n{points}\n]}}\n'
    write_if_changed(collection.folder / STORE_NAME, text)


def _bare(point: PointResult) -> dict[str, Any]:
    """The point without its record; by hand, for `asdict` copies the whole configuration."""
    bare = {key: value for key, value in vars(point).items() if key not in ("record", "apart")}
    return bare | {"evidence": [vars(quote) for quote in point.evidence]}


def load_collection(folder: Path) -> Collection:
    """Reads a collection's folder back, also one that was copied from elsewhere.

    Args:
        folder: A folder that holds `collection.json`.

    Returns:
        The collection; a record that cannot be read any more becomes a problem.

    Raises:
        RecordError: `collection.json` is missing or damaged.
    """
    path = folder / STORE_NAME
    try:
        held: dict[str, Any] = read_json(path, MAX_TABLE_BYTES)
        points = _POINTS.validate_python(held["points"])
        problems = _PROBLEMS.validate_python(held["problems"])
        sweeps = {
            key: SweepInfo.model_validate(info).model_dump(mode="json") if info else {}
            for key, info in _SWEEPS.validate_python(held["sweeps"]).items()
        }
        name, job_ids = str(held["name"]), _NAMES.validate_python(held["job_ids"])
    except OSError as error:
        raise RecordError(path, f"cannot be read: {error.strerror}") from error
    except KeyError as error:
        raise RecordError(path, f"is not a collection: {error} is missing") from error
    except (ValueError, TypeError, AssertionError) as error:
        raise RecordError(path, f"is not a collection: {first_problem(error)}") from error
    loaded = []
    for point in points:
        record = None
        if point.record_file is not None:
            try:
                path = _inside(folder, point.record_file)
                held_record = read_record(path)
                check_owner(held_record, point.point_id, path)
                record = held_record
            except RecordError as error:
                problems.append(Problem(point.record_file, error.problem))
        loaded.append(dataclasses.replace(point, record=record))
    return Collection(name, loaded, folder, sweeps, problems, job_ids)


def write_if_changed(path: Path, text: str) -> bool:
    """Writes a file whole unless it holds this text already; tells whether it wrote."""
    if holds(path, text):
        return False
    write_atomic(path, text)
    return True


def holds(path: Path, text: str) -> bool:
    """Whether a file is there and holds this text."""
    try:
        return read_bounded(path, MAX_TABLE_BYTES) == text.encode()
    except OSError:
        return False


def _inside(folder: Path, name: str) -> Path:
    path = folder / name
    if is_outside(path, folder):
        raise RecordError(path, "lies outside the folder of the collection")
    return path
