"""A file of records, one a line, as a collection: results kept without their sweeps."""

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
from jobs.sweeps.file_problem import FileProblem
from jobs.text import pluralize
from jobs.validation import first_problem

_SUFFIX = ".jsonl"


def is_records_file(argument: str) -> bool:
    """Return True if an argument of a command is the path of a file of records."""
    path = Path(argument).expanduser()
    return "/" in argument and path.suffix == _SUFFIX and not path.is_dir()


def load_records(path: Path) -> Collection:
    """Read a file like `docs/results/h200.jsonl`, without giving the collection a folder.

    Each line holds a record, or `{"name": ..., "record": ...}`; of lines with one name the last
    one counts. Other lines become problems.

    Raises:
        RecordError: The file cannot be read, or holds no record.
    """
    try:
        lines = read_bounded(path, MAX_TABLE_BYTES).splitlines()
    except OSError as error:
        raise RecordError(path, f"cannot be read: {error.strerror}") from error
    points: dict[str, PointResult] = {}
    problems = []
    for number, line in enumerate(lines, start=1):
        try:
            name, record = _parse(line)
        except (ValidationError, ValueError, RecursionError) as error:
            what = f"is not a record: {first_problem(error)}"
            problems.append(FileProblem(f"{path.name}:{number}", what))
        else:
            points[name or f"line {number}"] = PointResult.of_record(record, path.stem)
    if not points:
        raise RecordError(path, f"holds no record in {pluralize(len(lines), 'line')}")
    return Collection(path.stem, list(points.values()), problems=problems)


def gather_records(path: Path, results_dir: Path) -> Collection:
    """Read a file of records and write each to a file of the collection's folder."""
    collection = load_records(path)
    folder = results_dir / re.sub(r"[^A-Za-z0-9_.+-]", "_", collection.name)
    (folder / "records").mkdir(parents=True, exist_ok=True)
    points = list(_written(collection, folder))
    return dataclasses.replace(collection, points=points, folder=folder)


def _written(collection: Collection, folder: Path) -> Iterator[PointResult]:
    for number, point in enumerate(collection.points, start=1):
        assert point.record is not None
        slug = re.sub(r"[^A-Za-z0-9]+", "-", point.point_id)[:60].strip("-")
        name = f"records/{number:03d}-{slug}.json"
        write_if_changed(folder / name, to_json(point.record))
        yield dataclasses.replace(point, record_file=name)


def _parse(line: bytes) -> tuple[str, Record]:
    content = json.loads(line)
    if isinstance(content, dict) and "record" in content:
        return str(content.get("name") or ""), Record.model_validate(content["record"])
    return "", Record.model_validate(content)
