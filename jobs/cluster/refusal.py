"""Why sbatch refused a submission: its own words, and the key that caused it."""

from __future__ import annotations

import re

from jobs.cluster.resources import Resources

# sbatch's words, then the keys that may have caused them, the likeliest first.
_REASONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Invalid partition", ("partition",)),
    ("account or account/partition", ("account", "partition")),
    ("Invalid account", ("account", "partition")),
    ("Invalid generic resource", ("gres", "gpus_per_node")),
    ("Invalid feature", ("constraint",)),
    ("Invalid qos", ("qos",)),
    ("Invalid wckey", ("wckey",)),
    ("Invalid node name", ("nodelist", "exclude")),
    ("reservation", ("reservation",)),
    ("ependency", ("dependency",)),
    ("time limit", ("time_min",)),
    ("time and/or", ("time_min",)),
    ("Memory", ("memory_mib",)),
    ("CPU count", ("cpus_per_task",)),
    ("More processors", ("cpus_per_task",)),
    (
        "node configuration is not available",
        ("gres", "gpus_per_node", "constraint", "nodelist", "cpus_per_task", "memory_mib"),
    ),
    ("partition", ("partition",)),
)
_KEYS = {
    "time_min": "launch.time_min",
    "memory_mib": "launch.memory_gib",
    "cpus_per_task": "launch.cpus_per_task",
}
_OPTION = re.compile(
    r"(?:unrecognized|ambiguous|invalid) option '?--?([a-z-]+)|Invalid --([a-z-]+)"
)


def explain(reason: str, asked: Resources) -> str:
    """Says in one line why sbatch refused, and what to change.

    Args:
        reason: sbatch's own words.
        asked: What was asked for.

    Returns:
        "cluster.partition=gpux was refused: ...", with every key that may be at fault.
    """
    words = " ".join(reason.split()).removeprefix("sbatch: ").removeprefix("error: ")
    option = _OPTION.search(words)
    if option:
        name = option[1] or option[2]
        key = f"cluster.{name.replace('-', '_')}"
        value = dict(asked.options).get(name)
        culprit = key if value is None else f"cluster.sbatch.{name}={value}"
        return f"{culprit} was refused: {words}"
    for sign, fields in _REASONS:
        if sign in words:
            named = [_named(field, asked) for field in fields]
            given = ", ".join(filter(None, named)) or _KEYS.get(fields[0], f"cluster.{fields[0]}")
            return f"{given} was refused: {words}"
    return f"the submission was refused: {words}"


def _named(field: str, asked: Resources) -> str | None:
    value = getattr(asked, field, None)
    if value is None:
        return None
    if field == "memory_mib":
        return f"launch.memory_gib={value / 1024:g}"
    return f"{_KEYS.get(field, f'cluster.{field}')}={value}"
