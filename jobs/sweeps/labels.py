"""Labels that tell the points of one collection apart."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jobs.record import config_value
from jobs.sweeps.planned_point import PlannedPoint

NAMED = ("gpu.name", "shape.name", "recipe.name", "shape.batch", "shape.seq_len")
"""Keys that the label of every point shows."""

QUIET = frozenset(
    f"benchmark.{name}"
    for name in (
        "warmup_min_iterations",
        "warmup_max_iterations",
        "blocks",
        "iterations_per_block",
        "settle_iterations",
        "budget_s",
        "stages",
        "confidence",
        "bootstrap_resamples",
        "min_fprop_speedup",
        "min_bprop_speedup",
        "profile",
    )
)
"""Keys that say how long and how finely is measured, not what."""

Settings = dict[str, Any]
"""Values by dotted key."""


def distinguish(configs: Sequence[dict[str, Any]]) -> list[str]:
    """Return the settings that set each configuration apart, like "projection=fused seed=7".

    The value that most points have is not shown. A key of a group counts only among points that
    chose the same member of the group. `QUIET` keys are shown only if nothing else differs. Two
    points with different configurations never share both their `NAMED` keys and this text. A
    probe, which runs neither shape nor recipe, gets no text.
    """
    points = {
        place: dict(flatten(config))
        for place, config in enumerate(configs)
        if config and config.get("job") != "probe"
    }
    shown = _unusual(points, lambda key: key not in QUIET)
    groups: dict[str, dict[int, Settings]] = defaultdict(dict)
    for place, settings in points.items():
        label = [[settings.get(key) for key in NAMED], shown[place]]
        groups[json.dumps(label, default=str)][place] = settings
    for group in groups.values():
        for place, settings in _unusual(group, QUIET.__contains__).items():
            shown[place] |= settings
    names = _short_names({key for settings in shown.values() for key in settings})
    return [
        " ".join(f"{names[key]}={_text(value)}" for key, value in shown.get(place, {}).items())
        for place in range(len(configs))
    ]


def flatten(config: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Return every value of a configuration with its dotted key."""
    for name, value in config.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def without(config: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Return a configuration without these dotted keys, groups included."""
    rest = {}
    for name, value in config.items():
        if name in keys:
            continue
        inner = [key.removeprefix(f"{name}.") for key in keys if key.startswith(f"{name}.")]
        rest[name] = without(value, inner) if inner and isinstance(value, dict) else value
    return rest


def common_settings(points: Sequence[PlannedPoint]) -> str:
    """Return the main settings that all points share."""
    keys = {
        "gpu": "gpu.name",
        "shape": "shape.name",
        "s": "shape.seq_len",
        "b": "shape.batch",
        "recipe": "recipe.name",
        "backend": "backend",
        "tolerance": "tolerance.name",
        "benchmark": "benchmark.name",
    }
    shown = []
    for name, key in keys.items():
        values = {str(config_value(point.config, key)) for point in points}
        if len(values) == 1:
            shown.append(f"{name}={values.pop()}")
    return f"All points: {' '.join(shown)}"


def _unusual(points: dict[int, Settings], counts: Callable[[str], bool]) -> dict[int, Settings]:
    """Return for each point the keys that count and have another value than most points."""
    values: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for settings in points.values():
        for key, value in settings.items():
            values[key, _choice(key, settings)][_canonical(value)] += 1
    usual = {
        place: value
        for place, counter in values.items()
        for value, count in counter.items()
        if 2 * count > counter.total()
    }
    return {
        place: {
            key: value
            for key, value in settings.items()
            if key not in (*NAMED, "job")
            and counts(key)
            and usual.get((key, _choice(key, settings))) != _canonical(value)
        }
        for place, settings in points.items()
    }


def _choice(key: str, settings: Settings) -> str:
    """Return the member chosen for the key's group; the GPU if the key names a choice itself."""
    group, _, last = key.rpartition(".")
    return str(settings.get(f"{group}.name" if group and last != "name" else "gpu.name"))


def _short_names(keys: set[str]) -> dict[str, str]:
    """Return `projection` for `shape.projection`, or the whole key if two end alike."""
    short = {key: key.removesuffix(".name").rpartition(".")[2] for key in keys}
    counts = Counter(short.values())
    return {key: name if counts[name] == 1 else key for key, name in short.items()}


def _canonical(value: object) -> str:
    """Return equal text for equal values: JSON may hold 60 or 60.0."""
    if isinstance(value, float) and value.is_integer():
        return repr(int(value))
    return repr(value) if not isinstance(value, list) else json.dumps(value, default=str)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
