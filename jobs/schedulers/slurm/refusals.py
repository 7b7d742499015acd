"""Why sbatch refused a submission: its own words, and the key that caused it."""

from __future__ import annotations

import re

from jobs.schedulers.slurm.resources import Resources

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
    ("number of nodes", ("nodelist",)),
    ("reservation", ("reservation",)),
    ("ependency", ("dependency",)),
    ("license", ("licenses",)),
    ("Temporary disk", ("tmp",)),
    ("--batch", ("batch",)),
    ("Priority", ("priority", "nice")),
    ("time-min", ("time-min",)),
    ("time limit", ("time_min",)),
    ("time and/or", ("time_min",)),
    ("Memory", ("memory_mib", "mem-per-cpu", "mem-per-gpu")),
    ("CPU count", ("cpus_per_task", "mincpus")),
    ("More processors", ("cpus_per_task",)),
    (
        "node configuration is not available",
        (
            *("gres", "gpus_per_node", "constraint", "nodelist", "exclude", "reservation"),
            *("partition", "cpus_per_task", "memory_mib", "*"),
        ),
    ),
    ("partition", ("partition",)),
)
_KEYS = {
    "time_min": "launch.time_min",
    "memory_mib": "launch.memory_gib",
    "cpus_per_task": "launch.cpus_per_task",
}
_ANY_OPTION = "*"
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
        key = name.replace("-", "_")
        culprit = ", ".join(_named(name, asked) or _named(key, asked)) or f"cluster.{key}"
        return f"{culprit} was refused: {words}"
    for sign, names in _REASONS:
        if sign in words:
            named = [word for name in names for word in _named(name, asked)]
            given = ", ".join(named) or _KEYS.get(names[0], f"cluster.{names[0]}")
            return f"{given} was refused: {words}"
    given = ", ".join(_named(_ANY_OPTION, asked)) or "the submission"
    return f"{given} was refused: {words}"


def _named(name: str, asked: Resources) -> list[str]:
    """A field of the request or a further option as its key and value; nothing if not given."""
    options = [f"cluster.sbatch.{option}={value}" for option, value in asked.options]
    if name == _ANY_OPTION:
        return options
    given = [word for word in options if word.startswith(f"cluster.sbatch.{name}=")]
    value = getattr(asked, name, None)
    if value is not None and name == "memory_mib":
        given.append(f"launch.memory_gib={f'{value / 1024:.2f}'.rstrip('0').rstrip('.')}")
    elif value is not None:
        given.append(f"{_KEYS.get(name, f'cluster.{name}')}={value}")
    return given
