"""What sets points of one collection apart, beside the GPU, shape, recipe and length they name."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

NAMED = ("gpu.name", "shape.name", "recipe.name", "shape.batch", "shape.seq_len")
"""What every name of a point says."""


def varying_keys(configs: Sequence[dict[str, Any]]) -> list[str]:
    """The dotted keys in which points differ and of which their names say nothing.

    What follows from a choice is not told: a key of a group counts only where it differs between
    two points that chose the same member of that group.

    Args:
        configs: What points were asked, as `conf.plain` writes it; a part of it is enough.

    Returns:
        Keys in the configuration's order.
    """
    seen: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for leaves in (dict(flat(config)) for config in configs):
        for key, value in leaves.items():
            group, _, last = key.rpartition(".")
            choice = f"{group}.name" if group and last != "name" else "gpu.name"
            seen[key][str(leaves.get(choice))].add(json.dumps(value, default=str))
    return [
        key
        for key, values in seen.items()
        if key not in NAMED and any(len(among) > 1 for among in values.values())
    ]


def words_apart(configs: Sequence[dict[str, Any]]) -> list[str]:
    """Short words for each point that set it apart from the others.

    Args:
        configs: What points were asked; a probe, which runs neither shape nor recipe, gets none.

    Returns:
        A text a point like `projection=fused seed=7`; empty where nothing else varies.
    """
    runs = [config for config in configs if config.get("job") != "probe"]
    keys = [key for key in varying_keys(runs) if key != "job"]
    short = {key: _last(key) for key in keys}
    often = Counter(short.values())
    titles = {key: name if often[name] == 1 else key for key, name in short.items()}
    texts = []
    for config in configs:
        leaves = {} if config.get("job") == "probe" or not keys else dict(flat(config))
        words = (f"{titles[key]}={_word(leaves[key])}" for key in keys if key in leaves)
        texts.append(" ".join(words))
    return texts


def flat(config: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf of a configuration with its dotted key."""
    for name, value in config.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _last(key: str) -> str:
    """`projection` of `shape.projection`, `tolerance` of `tolerance.name`."""
    return key.removesuffix(".name").rpartition(".")[2]


def _word(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
