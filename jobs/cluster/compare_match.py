"""Matches the points of two collections by what was asked, never by folder or place."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from conf.plain import from_plain, to_plain
from conf.schema import Point
from jobs.cluster.collect_points import CollectedPoint
from jobs.cluster.names import flat

_MOST_SEARCHED = 60


@dataclass(frozen=True)
class Pair:
    """Two points that were asked for the same."""

    first: CollectedPoint
    second: CollectedPoint


@dataclass(frozen=True)
class Unmatched:
    """A point without a partner, and why."""

    point: CollectedPoint
    why: str


@dataclass(frozen=True)
class Matched:
    """What belongs together, and what does not."""

    pairs: list[Pair]
    only_first: list[Unmatched]
    only_second: list[Unmatched]
    repeated: int


def match(
    first: Sequence[CollectedPoint],
    second: Sequence[CollectedPoint],
    ignore: Sequence[str] = (),
    *,
    across_gpus: bool = False,
) -> Matched:
    """Matches two collections.

    Args:
        first: What is compared with.
        second: What is judged.
        ignore: Dotted keys, groups included, in which matched points may differ.
        across_gpus: Whether points of different GPUs may be matched; never silently.

    Returns:
        Pairs in the order of the second, and every other point with the reason.
    """
    if across_gpus:
        ignore = [*ignore, "gpu"]
    mine, repeated_first = _newest(first, ignore)
    others, repeated_second = _newest(second, ignore)
    pairs, apart = [], {}
    for key, point in others.items():
        partner = mine.get(key) or _partner(point, list(mine.values()), ignore)
        if partner is None:
            continue
        gpus = gpu_of(partner), gpu_of(point)
        if None not in gpus and gpus[0] != gpus[1] and not across_gpus:
            why = (
                f"ran on another GPU: {gpus[0]} and {gpus[1]}; compare.across_gpus=true allows it"
            )
            apart[id(point)] = apart[id(partner)] = why
        else:
            pairs.append(Pair(partner, point))
    taken = {id(point) for pair in pairs for point in (pair.first, pair.second)}
    left = [point for point in mine.values() if id(point) not in taken]
    right = [point for point in others.values() if id(point) not in taken]
    return Matched(
        pairs,
        [Unmatched(point, apart.get(id(point)) or _why(point, right)) for point in left],
        [Unmatched(point, apart.get(id(point)) or _why(point, left)) for point in right],
        repeated_first + repeated_second,
    )


def gpu_of(point: CollectedPoint) -> str | None:
    """The GPU that a point ran on, in the driver's words; None where it ran on none."""
    return point.record.environment.gpu_name if point.record else None


def asked_key(config: dict[str, Any], ignore: Sequence[str] = ()) -> str:
    """What was asked, as text that is equal for equal points.

    Keys that a later version added count as their defaults.

    Args:
        config: A point as `conf.plain` wrote it.
        ignore: Dotted keys, groups included, that do not count.

    Returns:
        JSON text.
    """
    leaves = {
        key: value
        for key, value in flat(_complete(config))
        if not any(key == name or key.startswith(f"{name}.") for name in ignore)
    }
    return json.dumps(leaves, sort_keys=True, default=str)


def _complete(config: dict[str, Any]) -> dict[str, Any]:
    try:
        plain: dict[str, Any] = to_plain(from_plain(Point, config))
    except (ValueError, TypeError, KeyError):
        return config  # of another version, or not ours: it stands for itself
    return plain


def _newest(
    points: Sequence[CollectedPoint], ignore: Sequence[str]
) -> tuple[dict[str, CollectedPoint], int]:
    """One point for each thing asked, the newest with a record; how many others there were."""
    found: dict[str, CollectedPoint] = {}
    repeated = 0
    for point in points:
        # A point whose plan is lost was asked for something that nobody knows.
        key = asked_key(point.config, ignore) if point.config else point.point_id
        key = f"{key} {gpu_of(point) or ''}" if point.partial else key
        known = found.get(key)
        repeated += known is not None
        if known is None or _moment(point) >= _moment(known):
            found[key] = point
    return found, repeated


def _moment(point: CollectedPoint) -> tuple[bool, str]:
    record = point.record
    return record is not None, (record.finished_at or "") if record else ""


def _partner(
    point: CollectedPoint, others: Sequence[CollectedPoint], ignore: Sequence[str]
) -> CollectedPoint | None:
    """For figures that say only part of what was asked: a point that agrees in all they say."""
    for other in others:
        if point.partial is other.partial:
            continue
        part, whole = (point, other) if point.partial else (other, point)
        held = dict(flat(whole.config))
        said = [
            (key, value)
            for key, value in flat(part.config)
            if not any(key == name or key.startswith(f"{name}.") for name in ignore)
        ]
        if said and all(held.get(key) == value for key, value in said):
            return other
    return None


def _why(point: CollectedPoint, others: Sequence[CollectedPoint]) -> str:
    """What the nearest point of the other side was asked differently."""
    if not point.config:
        return "what was asked is not known: its plan is damaged"
    if not others or len(others) > _MOST_SEARCHED or point.partial:
        return "was not asked on the other side"
    mine = dict(flat(_complete(point.config)))
    nearest: list[str] | None = None
    for other in others:
        theirs = dict(flat(_complete(other.config)))
        keys = [key for key in mine | theirs if mine.get(key) != theirs.get(key)]
        if nearest is None or len(keys) < len(nearest):
            nearest = keys
            values = {key: theirs.get(key) for key in keys}
    if not nearest or len(nearest) > 6:
        return "was not asked on the other side"
    shown = ", ".join(f"{key} {mine.get(key)} and {values[key]}" for key in nearest[:3])
    more = f" and {len(nearest) - 3} more" if len(nearest) > 3 else ""
    return f"the nearest on the other side differs in {shown}{more}"
