"""Collections of timed points without any folder, for what only reads records."""

from __future__ import annotations

from typing import Any

from jobs.record import Cause, Record, State
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult
from tests.builders.records import point_config, record


def run(
    name: str = "first",
    *,
    lengths: tuple[int, ...] = (2048, 4096),
    recipe: str = "mxfp8",
    gpu: str = "gb300",
    scale: float = 1.0,
    seed: int = 0,
    day: int = 1,
    **about: Any,  # noqa: ANN401 - fields of the environment
) -> Collection:
    """A collection of PASSED points; `about` changes their environment."""
    points = []
    for number, length in enumerate(lengths):
        config = point_config(recipe, gpu, shape__seq_len=length)
        left = record(f"p-{length}", config, scale=scale, seed=seed + number, **about)
        left = left.model_copy(update={"finished_at": f"2025-11-{day:02d}T08:00:00.000+00:00"})
        points.append(collected(left))
    return Collection(name, points)


def collected(left: Record, **changes: Any) -> PointResult:  # noqa: ANN401 - any field
    """A record's point; `changes` are fields of the point."""
    about: dict[str, Any] = {
        "point_id": left.identity.point_id,
        "sweep_id": "s-1",
        "config": left.config,
        "state": State(left.outcome),
        "cause": left.cause,
        "record": left,
    }
    return PointResult(**about | changes)


def with_state(collection: Collection, state: str, cause: str | None = None) -> Collection:
    """The collection whose first point came to another end and left no figures."""
    first, *rest = collection.points
    ended = PointResult(
        "p-0",
        "s-1",
        first.config,
        State(state),
        cause=Cause(cause) if cause else None,
        reason="it ended",
    )
    return Collection(collection.name, [ended, *rest])


def passed(config: dict[str, Any], point_id: str = "p-1") -> PointResult:
    """Return a PASSED point of a configuration."""
    return collected(record(point_id, config))
