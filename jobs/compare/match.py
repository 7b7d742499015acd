"""Points of two collections matched by their settings, never by folder or node."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from conf.plain import from_plain, to_plain
from conf.schema import Point
from jobs.compare.repeats import repeats
from jobs.status.point_result import PointResult
from jobs.sweeps.labels import flatten, without

_SAME_INPUTS = ("name", "rope_kernel")  # how it is computed, not on what
_MOST_SEARCHED = 100_000  # pairs: a second or so
_MOST_DIFFERING = 6
_MOST_SHOWN = 3


@dataclass(frozen=True)
class Pair:
    """Two points that were asked for the same.

    Attributes:
        first: Point of the reference collection.
        second: Point that is compared with it.
        before: Earlier runs of the first that count with it.
        after: Earlier runs of the second that count with it.
    """

    first: PointResult
    second: PointResult
    before: tuple[PointResult, ...] = ()
    after: tuple[PointResult, ...] = ()


@dataclass(frozen=True)
class Unmatched:
    """A point unmatched, and why.

    Attributes:
        point: The point.
        why: In one line.
        keys: In what the nearest point of the other side was asked differently, if these are few.
    """

    point: PointResult
    why: str
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Matched:
    """Matched and unmatched points of two collections."""

    pairs: list[Pair]
    only_first: list[Unmatched]
    only_second: list[Unmatched]
    repeated: int


def match(
    first: Sequence[PointResult],
    second: Sequence[PointResult],
    ignore: Sequence[str] = (),
    *,
    across_gpus: bool = False,
) -> Matched:
    """Match the points of two collections.

    Args:
        first: Reference.
        second: Compared with the reference.
        ignore: Dotted keys, groups included, in which matched points may differ.
        across_gpus: True to match points of different GPUs.

    Returns:
        Pairs in the order of the second, and every other point with the reason.
    """
    if across_gpus:
        ignore = [*ignore, "gpu"]
    runs: dict[int, list[PointResult]] = {}
    mine, others = _newest(first, ignore, runs), _newest(second, ignore, runs)
    held = [point for found in mine.values() for point in found.values()]
    pairs: list[Pair] = []
    apart: dict[int, str] = {}
    for key, found in others.items():
        for gpu, point in found.items():
            same = mine.get(key, {})
            partner = _of_gpu(same, gpu) or _partner(point, held, ignore)
            if partner is None and across_gpus:
                partner = next(reversed(same.values()), None)
            rivals = list(same.values()) if partner is None else [partner]
            why = "" if across_gpus else _other_gpus(rivals, point)
            if why:
                apart |= {id(one): why for one in (point, *rivals)}
            elif partner is not None:
                sides = (tuple(runs[id(one)]) for one in (partner, point))
                pairs.append(Pair(partner, point, *sides))
    place = {id(point): number for number, point in enumerate(second)}
    pairs.sort(key=lambda pair: place[id(pair.second)])
    taken = {id(point) for pair in pairs for point in (pair.first, pair.second)}
    asked_again = [point for found in others.values() for point in found.values()]
    left = [point for point in held if id(point) not in taken]
    right = [point for point in asked_again if id(point) not in taken]
    return Matched(
        pairs,
        _unmatched(left, asked_again, apart, ignore),
        _unmatched(right, held, apart, ignore),
        len(first) + len(second) - sum(1 + len(runs[id(one)]) for one in (*held, *asked_again)),
    )


def gpu_of(point: PointResult) -> str | None:
    """The GPU that a point ran on, in the driver's words; None where it ran on none."""
    return point.record.environment.gpu_name if point.record else None


def asked_key(config: dict[str, Any], ignore: Sequence[str] = ()) -> str:
    """Return the settings as text that is equal for equal points.

    Keys that a later version added count as their defaults.

    Args:
        config: A point as `conf.plain` wrote it.
        ignore: Dotted keys, groups included, that do not count.

    Returns:
        JSON text.
    """
    leaves = dict(flatten(without(_complete(config), ignore)))
    return json.dumps(leaves, sort_keys=True, default=str)


def known_keys(config: dict[str, Any]) -> set[str]:
    """Every dotted key of what was asked, groups included."""
    keys = {key for key, _ in flatten(_complete(config))}
    return keys | {key.rpartition(".")[0] for key in keys if "." in key}


def other_inputs(first: PointResult, second: PointResult) -> str:
    """Return the settings that gave two points different inputs; empty if there are none."""
    before, after = _complete(first.config).get("shape"), _complete(second.config).get("shape")
    if not isinstance(before, dict) or not isinstance(after, dict):
        return ""
    return ", ".join(
        f"shape.{key} ({before.get(key)} vs {after.get(key)})"
        for key in before | after
        if key not in _SAME_INPUTS and before.get(key) != after.get(key)
    )


def _complete(config: dict[str, Any]) -> dict[str, Any]:
    try:
        plain: dict[str, Any] = to_plain(from_plain(Point, config))
    except (ValueError, TypeError, KeyError):
        return config  # of another version, or not ours: it stands for itself
    return plain


def _newest(
    points: Sequence[PointResult],
    ignore: Sequence[str],
    runs: dict[int, list[PointResult]],
) -> dict[str, dict[str | None, PointResult]]:
    """One point for each thing asked and each GPU that ran it: the newest with a record.

    `runs` is told which earlier ones count together with it, by the point's identity.
    """
    found: dict[str, dict[str | None, list[PointResult]]] = {}
    last: dict[str, str | None] = {}
    for point in sorted(points, key=_moment):
        # A point whose plan is lost was asked for something that nobody knows.
        key = asked_key(point.config, ignore) if point.config else point.point_id
        gpu, same = gpu_of(point), found.setdefault(key, {})
        if gpu is None and same:
            gpu = last[key]  # where it ran is not known: it stands for the one before it
        same.pop(None, None)
        same.setdefault(gpu, []).append(point)
        last[key] = gpu
    for same in found.values():
        for *older, newest in same.values():
            runs[id(newest)] = repeats(older, newest)
    return {key: {gpu: one[-1] for gpu, one in same.items()} for key, same in found.items()}


def _of_gpu(same: dict[str | None, PointResult], gpu: str | None) -> PointResult | None:
    """The point of the same GPU; any, where it is not known where one of the two ran."""
    if gpu is None or gpu in same:
        return same.get(gpu) or next(reversed(same.values()), None)
    return same.get(None)


def _other_gpus(points: Sequence[PointResult], point: PointResult) -> str:
    """Return why none of these may be compared with the point; empty if one may."""
    gpus = list(dict.fromkeys(gpu_of(one) for one in points))
    if not gpus or gpu_of(point) in (None, *gpus) or None in gpus:
        return ""
    names = ", ".join(str(gpu) for gpu in gpus)
    remedy = "to compare anyway: compare.across_gpus=true"
    return f"ran on different GPUs ({names} vs {gpu_of(point)}); {remedy}"


def _moment(point: PointResult) -> tuple[bool, str]:
    record = point.record
    return record is not None, (record.finished_at or "") if record else ""


def _partner(
    point: PointResult, others: Sequence[PointResult], ignore: Sequence[str]
) -> PointResult | None:
    """For figures that say only part of what was asked: a point that agrees in all they say."""
    agreeing = []
    for other in others:
        if point.partial is other.partial:
            continue
        part, whole = (point, other) if point.partial else (other, point)
        held = dict(flatten(whole.config))
        said = list(flatten(without(part.config, ignore)))
        if said and all(held.get(key) == value for key, value in said):
            agreeing.append(other)
    agreeing.sort(key=lambda other: gpu_of(other) != gpu_of(point))
    return next(iter(agreeing), None)


def _unmatched(
    points: Sequence[PointResult],
    others: Sequence[PointResult],
    apart: dict[int, str],
    ignore: Sequence[str],
) -> list[Unmatched]:
    """Each point of one side unmatched, with what the nearest of `others` differs in."""
    whole = [other for other in others if other.config and not other.partial]
    if len(points) * len(whole) > _MOST_SEARCHED:
        whole = []
    asked = [(other, _leaves(other, ignore)) for other in whole]
    found = []
    for point in points:
        why = apart.get(id(point), "")
        if not why and not point.config:
            why = "its settings are not known: the plan is damaged"
        known = (why, ()) if why else _differing(point, asked, ignore)
        found.append(Unmatched(point, *known))
    return found


def _differing(
    point: PointResult,
    asked: Sequence[tuple[PointResult, dict[str, str]]],
    ignore: Sequence[str],
) -> tuple[str, tuple[str, ...]]:
    """In what the nearest point of the other side was asked differently; keys only if few."""
    nowhere = "not in the other collection"
    if point.partial or not asked:
        return nowhere, ()
    mine = _leaves(point, ignore)
    words = mine.items()
    other, theirs = min(asked, key=lambda one: len(words ^ one[1].items()))
    keys = [key for key in mine | theirs if mine.get(key) != theirs.get(key)]
    if not keys:
        gpu = gpu_of(point)
        return f"{nowhere} on {gpu}" if gpu else nowhere, ()
    if len(keys) > _MOST_DIFFERING and not _is_akin(point, other):
        return nowhere, ()
    shown = ", ".join(
        f"{key} ({mine.get(key)} vs {theirs.get(key)})" for key in keys[:_MOST_SHOWN]
    )
    rest = len(keys) - _MOST_SHOWN
    more = f" and {rest} more" if rest > 0 else ""
    few = tuple(keys) if len(keys) <= _MOST_DIFFERING else ()
    return f"closest point of the other collection differs in {shown}{more}", few


def _leaves(point: PointResult, ignore: Sequence[str]) -> dict[str, str]:
    return {key: str(value) for key, value in flatten(without(_complete(point.config), ignore))}


def _is_akin(point: PointResult, other: PointResult) -> bool:
    """Return True if both have the same GPU or the same shape."""
    gpus = [gpu_of(one) or one.setting("gpu") for one in (point, other)]
    shapes = [_complete(one.config).get("shape") for one in (point, other)]
    return gpus[0] == gpus[1] or shapes[0] == shapes[1]
