"""What sets points of one collection apart, beside the GPU, shape, recipe and length they name."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jobs.record import config_value
from jobs.sweeps.ledger import PlannedPoint

NAMED = ("gpu.name", "shape.name", "recipe.name", "shape.batch", "shape.seq_len")
"""What every name of a point says."""

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
"""How long and how finely is measured, and what is asked of it: not what is measured."""

Leaves = dict[str, Any]


def words_apart(configs: Sequence[dict[str, Any]]) -> list[str]:
    """Short words for each point that set it apart from the others.

    What most points have is not said: a point_label tells where a point is unlike the rest. What
    from a choice is not told either: a key of a group counts only among points that chose the same
    member of that group. How long was measured is told only where nothing else tells two apart.

    Args:
        configs: What points were asked, as `conf.plain` writes it; a part of it is enough.
            A probe, which runs neither shape nor recipe, gets no words.

    Returns:
        A text a point like `projection=fused seed=7`; empty where nothing else varies. Two points
        that were asked differently never share name and words.
    """
    runs = {
        place: dict(flat(config))
        for place, config in enumerate(configs)
        if config and config.get("job") != "probe"
    }
    told = _unusual(runs, lambda key: key not in QUIET)
    alike: dict[str, dict[int, Leaves]] = defaultdict(dict)
    for place, leaves in runs.items():
        point_label = [[leaves.get(key) for key in NAMED], told[place]]
        alike[json.dumps(point_label, default=str)][place] = leaves
    for same in alike.values():
        for place, words in _unusual(same, QUIET.__contains__).items():
            told[place] |= words
    titles = _titles({key for words in told.values() for key in words})
    return [
        " ".join(f"{titles[key]}={_word(value)}" for key, value in told.get(place, {}).items())
        for place in range(len(configs))
    ]


def flat(config: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf of a configuration with its dotted key."""
    for name, value in config.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def without(config: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """A configuration without these dotted keys, groups included."""
    left = {}
    for name, value in config.items():
        if name in keys:
            continue
        inner = [key.removeprefix(f"{name}.") for key in keys if key.startswith(f"{name}.")]
        left[name] = without(value, inner) if inner and isinstance(value, dict) else value
    return left


def _unusual(runs: dict[int, Leaves], counts: Callable[[str], bool]) -> dict[int, Leaves]:
    """Of each point the keys that count and whose value is not the one that most points have."""
    seen: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for leaves in runs.values():
        for key, value in leaves.items():
            seen[key, _choice(key, leaves)][_same(value)] += 1
    usual = {
        place: value
        for place, values in seen.items()
        for value, count in values.items()
        if 2 * count > values.total()
    }
    return {
        place: {
            key: value
            for key, value in leaves.items()
            if key not in NAMED
            and key != "job"
            and counts(key)
            and usual.get((key, _choice(key, leaves))) != _same(value)
        }
        for place, leaves in runs.items()
    }


def _choice(key: str, leaves: Leaves) -> str:
    """What was chosen for the key's group; the GPU where the key names a choice itself."""
    group, _, last = key.rpartition(".")
    return str(leaves.get(f"{group}.name" if group and last != "name" else "gpu.name"))


def _titles(keys: set[str]) -> dict[str, str]:
    """The last word of each key; the whole key where two end alike."""
    short = {key: _last(key) for key in keys}
    often = Counter(short.values())
    return {key: name if often[name] == 1 else key for key, name in short.items()}


def _last(key: str) -> str:
    """`projection` of `shape.projection`, `tolerance` of `tolerance.name`."""
    return key.removesuffix(".name").rpartition(".")[2]


def _same(value: object) -> str:
    """Text that is equal for equal values: JSON may hold 60 or 60.0."""
    if isinstance(value, float) and value.is_integer():
        return repr(int(value))
    return repr(value) if not isinstance(value, list) else json.dumps(value, default=str)


def _word(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def point_label(point: PlannedPoint) -> str:
    """What distinguishes a point: the sweep's own axes, else its main choices."""
    if point.choices:
        return " ".join(f"{key}={value}" for key, value in point.choices.items())
    config = point.config
    words = (
        f"{group}={config_value(config, f'{group}.name')}" for group in ("gpu", "shape", "recipe")
    )
    return " ".join(words)


def common_settings(points: Sequence[PlannedPoint]) -> str:
    """What holds for every point, so that nobody takes a small shape for a large one."""
    shown = (
        ("gpu", "gpu", "name"),
        ("shape", "shape", "name"),
        ("s", "shape", "seq_len"),
        ("b", "shape", "batch"),
        ("recipe", "recipe", "name"),
        ("backend", "backend", None),
        ("tolerance", "tolerance", "name"),
        ("benchmark", "benchmark", "name"),
    )
    words = []
    for word, group, key in shown:
        values = {str(config_value(p.config, f"{group}.{key}" if key else group)) for p in points}
        if len(values) == 1:
            words.append(f"{word}={values.pop()}")
    return f"All points: {' '.join(words)}"
