"""The two sides of a comparison: how each is called, when it ran, and which of its GPUs count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jobs.compare.match import Unmatched, gpu_of
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")


@dataclass(frozen=True)
class Side:
    """One of the two collections of a comparison.

    Attributes:
        name: The collection's name.
        word: As which it was given, like `third`; columns and notes name it so.
        title: What to call it where nothing else stands beside it, like `baseline/gb300`.
        ran: When its first point began and its last one ended, ISO 8601; None: not known.
        folder: Where it was gathered; None: it was only read.
        not_compared: GPUs of a baseline that the other side did not run on.
    """

    name: str
    word: str
    title: str
    ran: tuple[str, str] | None = None
    folder: Path | None = None
    not_compared: tuple[str, ...] = ()


def side_of(collection: Collection, place: int) -> Side:
    """A collection as the side of a comparison.

    Args:
        collection: What was read.
        place: Which of the collections on the command line it was, from 0.

    Returns:
        The side.
    """
    word = _ORDINALS[place] if place < len(_ORDINALS) else f"number {place + 1}"
    title = f"baseline/{collection.name}" if collection.baseline else collection.name
    records = [point.record for point in collection.points if point.record]
    moments = [moment for one in records for moment in (one.started_at, one.finished_at) if moment]
    ran = (min(moments), max(moments)) if moments else None
    return Side(collection.name, word, title, ran, collection.folder)


def of_other_gpus(
    unmatched: Sequence[Unmatched], others: Sequence[PointResult]
) -> tuple[list[Unmatched], tuple[str, ...]]:
    """Split unmatched points of a baseline by whether the other side used their GPU.

    A baseline holds the good records of every GPU: those of a GPU that the other side was not
    asked to run on are not missing from it.

    Args:
        unmatched: The baseline's points unmatched.
        others: Every point of the other side.

    Returns:
        Those that are missing on the other side, and the GPUs of the rest.
    """
    ran = {gpu_of(point) for point in others} - {None}
    # Where a point has run is not known before it has: it counts as what was asked for.
    asked = {point.setting("gpu.name") for point in others if gpu_of(point) is None}
    if None in asked:
        return list(unmatched), ()

    def concerns(point: PointResult) -> bool:
        return gpu_of(point) in ran or point.setting("gpu.name") in asked

    rest = [one.point for one in unmatched if not concerns(one.point)]
    gpus = dict.fromkeys(gpu_of(point) or str(point.setting("gpu.name")) for point in rest)
    return [one for one in unmatched if concerns(one.point)], tuple(gpus)
