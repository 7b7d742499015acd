"""A file of records, one a line, as a collection: what was kept of runs without their folders."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from jobs.collect.store import write_if_changed
from jobs.errors import RecordError
from jobs.files import MAX_TABLE_BYTES, read_bounded
from jobs.record import Record, to_json
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult
from jobs.sweeps.problem import Problem
from jobs.text import pluralize
from jobs.validation import first_problem

SUFFIX = ".jsonl"


def is_records_file(word: str) -> bool:
    """Whether a word of a command names a file of records."""
    path = Path(word).expanduser()
    return "/" in word and path.suffix == SUFFIX and not path.is_dir()


def load_records(path: Path) -> Collection:
    """Reads a file of records.

    Args:
        path: Like `docs/results/h200.jsonl`: on each line a record, or `{"name": ..., "record":
            ...}`. Of lines with one name the last counts.

    Returns:
        A collection without a folder; a line that holds no record is one of its problems.

    Raises:
        UsageError: The file cannot be read, or no line of it holds a record.
    """
    try:
        lines = read_bounded(path, MAX_TABLE_BYTES).splitlines()
    except OSError as error:
        raise RecordError(path, f"cannot be read: {error.strerror}") from error
    points: dict[str, PointResult] = {}
    problems = []
    for number, line in enumerate(lines, start=1):
        try:
            name, record = _entry(line)
        except (ValidationError, ValueError, RecursionError) as error:
            first = first_problem(error)
            problems.append(Problem(f"{path.name}:{number}", f"is no record: {first}"))
            continue
        points[name or f"line {number}"] = PointResult.of_record(record, path.stem)
    if not points:
        problem = f"holds no record, one a line, in {pluralize(len(lines), 'line')}"
        raise RecordError(path, problem)
    return Collection(path.stem, list(points.values()), problems=problems)


def gather_records(path: Path, results_dir: Path) -> Collection:
    """Copies a file of records into a collection's folder, a file a record.

    Args:
        path: As for `load_records`.
        results_dir: Where collections lie.

    Returns:
        The collection, with the folder it was written to.

    Raises:
        UsageError: As for `load_records`.
        OSError: The folder cannot be written.
    """
    loaded = load_records(path)
    folder = results_dir / re.sub(r"[^A-Za-z0-9_.+-]", "_", loaded.name)
    (folder / "records").mkdir(parents=True, exist_ok=True)
    points = list(_written(loaded, folder))
    return dataclasses.replace(loaded, points=points, folder=folder)


def _written(loaded: Collection, folder: Path) -> Iterator[PointResult]:
    for number, point in enumerate(loaded.points, start=1):
        assert point.record is not None
        words = re.sub(r"[^A-Za-z0-9]+", "-", point.point_id)[:60].strip("-")
        name = f"records/{number:03d}-{words}.json"
        write_if_changed(folder / name, to_json(point.record))
        yield dataclasses.replace(point, record_file=name)


def _entry(line: bytes) -> tuple[str, Record]:
    held = json.loads(line)
    if isinstance(held, dict) and "record" in held:
        return str(held.get("name") or ""), Record.model_validate(held["record"])
    return "", Record.model_validate(held)
