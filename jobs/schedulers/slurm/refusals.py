"""sbatch's refusals: its own message, and the keys that may have caused it."""

from __future__ import annotations

import re

from jobs.errors import SubmissionRefused
from jobs.schedulers.slurm.resources import Resources

# A phrase of sbatch, and the keys that may have caused it, the likeliest first.
_KEYS_OF: tuple[tuple[str, tuple[str, ...]], ...] = (
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
_LAUNCH_KEYS = {
    "time_min": "launch.time_min",
    "memory_mib": "launch.memory_gib",
    "cpus_per_task": "launch.cpus_per_task",
}
_ANY_OPTION = "*"
_OPTION = re.compile(
    r"(?:unrecognized|ambiguous|invalid) option '?--?([a-z-]+)|Invalid --([a-z-]+)"
)


def refusal_of(message: str, resources: Resources) -> SubmissionRefused:
    """Return sbatch's refusal of a request, with every key that may have caused it."""
    detail = " ".join(message.split()).removeprefix("sbatch: ").removeprefix("error: ")
    option = _OPTION.search(detail)
    names: tuple[str, ...] = (_ANY_OPTION,)
    default = ""
    if option:
        name = option[1] or option[2]
        key = name.replace("-", "_")
        names = (name,) if _settings(name, resources) else (key,)
        default = f"cluster.{key}"
    else:
        for phrase, keys in _KEYS_OF:
            if phrase in detail:
                names, default = keys, _LAUNCH_KEYS.get(keys[0], f"cluster.{keys[0]}")
                break
    settings = [setting for name in names for setting in _settings(name, resources)]
    return SubmissionRefused(detail, tuple(settings or filter(None, [default])))


def _settings(name: str, resources: Resources) -> list[str]:
    """Return a field of the request or a further option as "key=value", if it is set."""
    options = [f"cluster.sbatch.{option}={value}" for option, value in resources.options]
    if name == _ANY_OPTION:
        return options
    given = [setting for setting in options if setting.startswith(f"cluster.sbatch.{name}=")]
    value = getattr(resources, name, None)
    if value is not None and name == "memory_mib":
        given.append(f"launch.memory_gib={f'{value / 1024:.2f}'.rstrip('0').rstrip('.')}")
    elif value is not None:
        given.append(f"{_LAUNCH_KEYS.get(name, f'cluster.{name}')}={value}")
    return given
