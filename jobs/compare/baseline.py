"""Baselines: named collections of good records to compare with, by GPU and by what was asked."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jobs.collect.points_table import asked_hash
from jobs.collect.store import load_collection, save_collection, write_if_changed
from jobs.compare.match import asked_key, gpu_of
from jobs.compare.repeats import repeats
from jobs.errors import BaselineConflict, InvalidValue, NoPassedPoint, RecordError, UnknownName
from jobs.files import private_files
from jobs.record import Record, to_json
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult

FOLDER = "baselines"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True)
class Saved:
    """Result of saving a baseline.

    Attributes:
        baseline: The whole baseline, as it is now.
        added: Points that it did not have.
        replaced: Points whose record is another now.
        kept: Points that it had with this very record.
        repeated: Points left out for a newer one of the same on the same GPU, with which they do
            not count: by other software, or without times.
        left_out: Points of the collection that did not pass, by state.
    """

    baseline: Collection
    added: int
    replaced: int
    kept: int
    repeated: int
    left_out: dict[str, int]


@private_files()
def save_baseline(
    collection: Collection, name: str, results_dir: Path, *, replace: bool = False
) -> Saved:
    """Store the points of a collection that PASSED under a name.

    A baseline holds the newest record for each GPU and each thing asked, and earlier runs that
    count with it; saving under the same name adds what it does not have yet.

    Args:
        collection: Where the points come from.
        name: What the baseline is called.
        results_dir: Where collections and baselines lie.
        replace: True to replace records that it already has.

    Returns:
        What was stored.

    Raises:
        UsageError: The name is none, no point PASSED, or a record would be replaced.
    """
    folder = baseline_folder(name, results_dir)
    good = [point for point in collection.points if _is_good(point)]
    if not good:
        raise NoPassedPoint(collection.name)
    held = load_baseline(name, results_dir).points if folder.is_dir() else []
    kept, news = _runs(held), _runs(good)
    changed = [
        key for key, runs in news.items() if key in kept and _records(kept[key]) != _records(runs)
    ]
    if changed and not replace:
        newest = [news[key][-1] for key in changed]
        raise BaselineConflict(
            name, [f"{point.label} on {gpu_of(point) or 'no GPU'}" for point in newest]
        )
    (folder / "records").mkdir(parents=True, exist_ok=True)
    points = [
        _stored(point, number, folder)
        for runs in (kept | news).values()
        for number, point in enumerate(runs)
    ]
    jobs = [point.job_id for point in points if point.job_id]
    baseline = Collection(name, points, folder, job_ids=list(dict.fromkeys(jobs)))
    save_collection(baseline)
    counts = Counter(
        "added" if key not in kept else "replaced" if key in changed else "kept"
        for key, runs in news.items()
        for _ in runs
    )
    return Saved(
        baseline,
        counts["added"],
        counts["replaced"],
        counts["kept"],
        len(good) - counts.total(),
        dict(Counter(_left_out(point) for point in collection.points if not _is_good(point))),
    )


def _runs(points: Sequence[PointResult]) -> dict[tuple[str, str], list[PointResult]]:
    """For each GPU and thing asked the newest point, and before it the runs that count with it."""
    found: dict[tuple[str, str], list[PointResult]] = {}
    for point in sorted(points, key=_moment):
        found.setdefault(_key(point), []).append(point)
    return {key: [*repeats(older, newest), newest] for key, (*older, newest) in found.items()}


def _records(points: Sequence[PointResult]) -> list[Record | None]:
    return [point.record for point in points]


def load_baseline(name: str, results_dir: Path) -> Collection:
    """Read a baseline.

    Args:
        name: What it was called.
        results_dir: Where baselines lie.

    Returns:
        Its points, each with its record.

    Raises:
        UsageError: There is none of that name; the message names those that there are.
    """
    folder = baseline_folder(name, results_dir)
    try:
        return dataclasses.replace(load_collection(folder), baseline=True)
    except RecordError as error:
        if folder.is_dir():
            raise
        raise UnknownName("baseline", name, choices=baseline_names(results_dir)) from error


def baseline_folder(name: str, results_dir: Path) -> Path:
    """Return the folder of a baseline, or raise InvalidValue for an impossible name."""
    if not _NAME.fullmatch(name):
        raise InvalidValue("name", "consist of letters, digits, '.', '_' and '-'", name)
    return results_dir / FOLDER / name


def baseline_names(results_dir: Path) -> list[str]:
    """The baselines that there are."""
    try:
        found = [path.name for path in (results_dir / FOLDER).iterdir() if path.is_dir()]
    except OSError:
        return []
    return sorted(name for name in found if _NAME.fullmatch(name))


def _is_good(point: PointResult) -> bool:
    return point.state == "PASSED" and point.record is not None and not point.partial


def _left_out(point: PointResult) -> str:
    if point.partial:
        return "published elsewhere"
    return point.state if point.state != "PASSED" else "without a record"


def _moment(point: PointResult) -> str:
    return (point.record.finished_at or "") if point.record else ""


def coverage(baseline: Collection) -> dict[tuple[str, str], int]:
    """Return the number of points for each GPU and shape."""
    keys = [(gpu_of(point) or "no GPU", _shape(point)) for point in baseline.points]
    return dict(sorted(Counter(keys).items()))


def _shape(point: PointResult) -> str:
    """Return the shape of a point; a probe has one that it does not run."""
    if point.setting("job") == "probe":
        return "probe"
    return str(point.setting("shape.name") or "unknown")


def _key(point: PointResult) -> tuple[str, str]:
    return gpu_of(point) or "", asked_key(point.config)


def _stored(point: PointResult, number: int, folder: Path) -> PointResult:
    """The point with its record beside the baseline; its logs stay where they are."""
    assert point.record is not None
    gpu = re.sub(r"[^A-Za-z0-9]+", "-", gpu_of(point) or "no-GPU").strip("-")
    run = f"-{number}" if number else ""
    name = f"records/{gpu}-{asked_hash(point.config) or point.point_id}{run}.json"
    write_if_changed(folder / name, to_json(point.record))
    return dataclasses.replace(point, record_file=name, logs=[], evidence=[])
