"""What a group of points asks a scheduler for, from the cluster's and the launch configuration."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

from conf.schema import Gpu
from conf.site import SCHEDULER_KEYS, Cluster, Launch, Request
from jobs.text import parse_int

# Options that have a key of their own, and those that this tool decides itself.
_OWN_OPTIONS: dict[str, str | None] = {
    **dict.fromkeys(("array", "output", "error", "open-mode", "parsable", "test-only"), None),
    **dict.fromkeys(("wrap", "wait", "job-name", "signal", "chdir", "input", "uid", "gid"), None),
    **dict.fromkeys(("nodes", "ntasks", "ntasks-per-node"), None),  # a point is one process
    **dict.fromkeys(("clusters", "cluster"), None),  # only the cluster that is asked has the job
    **{name.replace("_", "-"): f"cluster.{name}" for name in SCHEDULER_KEYS},
    "time": "launch.time_min",
    "mem": "launch.memory_gib",
    "cpus-per-task": "launch.cpus_per_task",
}
BY_CPU_OR_GPU = frozenset({"mem-per-cpu", "mem-per-gpu"})
"""Options that ask for memory in place of `launch.memory_gib`."""
_OPTION = re.compile(r"[a-z][a-z0-9-]*")
# What an option's own reader would take apart, or cut: such values cannot arrive unchanged.
_LISTS = ("partition", "account", "qos", "gres", "gpus_per_node", "nodelist", "exclude")
_LIST_VALUE = re.compile(r"[^\s'\"\\`$;&|<>#=*?]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True)
class Resources:
    """What one submission asks for; None is left to the cluster's own default.

    Attributes:
        partition: One or several, by commas.
        account: Whom it is charged to.
        qos: Quality of service.
        constraint: An expression of node features.
        gres: As `--gres` takes it.
        gpus_per_node: As `--gpus-per-node` takes it.
        nodelist: Nodes that must be among those given.
        exclude: Nodes that must not.
        reservation: A reservation's name.
        dependency: As `--dependency` takes it.
        nice: Adjustment of the priority.
        comment: The user's words in the job's comment.
        wckey: Workload characterization key.
        memory_mib: Host memory.
        cpus_per_task: CPUs, also given to srun.
        options: Further sbatch options, by name; an empty value is a flag.
        srun: Further srun arguments.
    """

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    gres: str | None = None
    gpus_per_node: str | None = None
    nodelist: str | None = None
    exclude: str | None = None
    reservation: str | None = None
    dependency: str | None = None
    nice: int | None = None
    comment: str | None = None
    wckey: str | None = None
    memory_mib: int | None = None
    cpus_per_task: int | None = None
    options: tuple[tuple[str, str], ...] = ()
    srun: tuple[str, ...] = ()

    @property
    def gpus(self) -> int:
        """GPUs of one job, as far as the request says."""
        return sum(
            count
            for wanted in self.of_a_node.values()
            for name, count in wanted.items()
            if name.split(":")[0] == "gpu"
        )

    @property
    def of_a_node(self) -> dict[str, dict[str, int]]:
        """What a node must have, as `parse_gres` reads it, by the key that asks for it."""
        gpus = [f"gpu:{part}" for part in (self.gpus_per_node or "").split(",") if part]
        return {"gres": parse_gres(self.gres or ""), "gpus_per_node": parse_gres(",".join(gpus))}


def resources_of(gpu: Gpu, cluster: Cluster, launch: Launch) -> Resources:
    """What points of one GPU model ask for under one site.

    Args:
        gpu: The GPU that the points name.
        cluster: The site's keys; one given there wins over what `requests` says of the GPU.
        launch: Memory, CPUs.

    Returns:
        The request, without what only the cluster can tell.
    """
    mapped = cluster.requests.get(gpu.name, Request())
    chosen = {
        field.name: getattr(cluster, field.name)
        if getattr(cluster, field.name) is not None
        else getattr(mapped, field.name)
        for field in fields(Request)
    }
    # One way of asking for GPUs replaces the other, the one that stands nearer to the user wins.
    if cluster.gpus_per_node is not None and cluster.gres is None:
        chosen["gres"] = None
    elif cluster.gres is not None and cluster.gpus_per_node is None:
        chosen["gpus_per_node"] = None
    memory_mib = None if launch.memory_gib is None else max(1, round(launch.memory_gib * 1024))
    return Resources(
        **{name: getattr(cluster, name) for name in SCHEDULER_KEYS} | chosen,
        memory_mib=memory_mib,
        cpus_per_task=launch.cpus_per_task,
        options=tuple(sorted(cluster.sbatch.items())),
        srun=tuple(cluster.srun),
    )


def resource_problems(cluster: Cluster, launch: Launch) -> list[str]:
    """What could not reach SLURM unchanged, one sentence each.

    Args:
        cluster: The site's keys.
        launch: Memory, which may be asked for in one way only.

    Returns:
        "`key` must rule, got value; remedy" for each; none where all is well.
    """
    found = []
    requests = {"cluster": cluster} | {
        f"cluster.requests.{name}": request for name, request in cluster.requests.items()
    }
    for where, holder in requests.items():
        for name in _LISTS:
            value = getattr(holder, name, None)
            if value is not None and not _LIST_VALUE.fullmatch(value):
                found.append(
                    f"{where}.{name} must be words without spaces, quotes and shell marks, "
                    f"got {value!r}"
                )
    texts: dict[str, str | None] = {
        **{
            f"cluster.{name}": getattr(cluster, name)
            for name in SCHEDULER_KEYS
            if name not in (*_LISTS, "nice")
        },
        **{f"cluster.sbatch.{name}": value for name, value in cluster.sbatch.items()},
        **{f"cluster.srun[{i}]": word for i, word in enumerate(cluster.srun)},
    }
    for key, text in texts.items():
        if text is not None and _CONTROL.search(text):
            found.append(f"{key} must be one line without control characters, got {text!r}")
    if {",", "?"} <= set(cluster.dependency or ""):
        found.append(
            "cluster.dependency must join with , (all) or with ? (any), not with both, "
            f"got {cluster.dependency!r}"
        )
    for mount in cluster.container.mounts:
        if "," in mount or _CONTROL.search(mount):
            found.append(f"cluster.container.mounts must hold no comma in a path, got {mount!r}")
    for name in BY_CPU_OR_GPU & set(cluster.sbatch):
        if launch.memory_gib is not None:
            found.append(
                f"launch.memory_gib must be null with cluster.sbatch.{name}, "
                f"got {launch.memory_gib:g}; give one of both"
            )
    return found + _option_problems(cluster)


def _option_problems(cluster: Cluster) -> list[str]:
    found = []
    for name in cluster.sbatch:
        if not _OPTION.fullmatch(name):
            found.append(
                f"cluster.sbatch must name options by their long names without --, got {name!r}"
            )
        elif name in _OWN_OPTIONS:
            key = _OWN_OPTIONS[name]
            remedy = f"use {key}" if key else "this tool decides it"
            found.append(f"cluster.sbatch must not name {name}, got it; {remedy}")
    return found


def parse_gres(text: str) -> dict[str, int]:
    """Reads a gres list: what is asked for, or what a node has.

    Args:
        text: `gpu:gb300:4(S:0-1),gpu:2,nic:1` or `(null)`.

    Returns:
        How many of each: `{"gpu:gb300": 4, "gpu": 2, "nic": 1}`.
    """
    found: dict[str, int] = {}
    for part in re.sub(r"\([^)]*\)", "", text).split(","):
        bare = part.strip().removeprefix("gres:").removeprefix("gres/")
        words = [word for word in bare.split(":") if word]
        if not words:
            continue
        count = parse_int(words[-1])
        if count is not None:
            words.pop()
        name = ":".join(words)
        if name:
            found[name] = found.get(name, 0) + (1 if count is None else count)
    return found
