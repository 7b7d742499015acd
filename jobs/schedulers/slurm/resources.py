"""What a group of points requests from SLURM, by the cluster and launch configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields

from conf.schema import Gpu
from conf.site import SCHEDULER_KEYS, Cluster, Launch, Request
from jobs.errors import InvalidValue, NotSettable, UsageError
from jobs.text import parse_int

# Options that have a key of their own, and those that this tool sets itself.
_OWN_OPTIONS: dict[str, str | None] = {
    **dict.fromkeys(("array", "output", "error", "open-mode", "parsable", "test-only"), None),
    **dict.fromkeys(("wrap", "wait", "job-name", "signal", "chdir", "input", "uid", "gid"), None),
    **dict.fromkeys(("nodes", "ntasks", "ntasks-per-node"), None),  # a point is one process
    **dict.fromkeys(("clusters", "cluster"), None),  # jobs are queried on one cluster only
    **{name.replace("_", "-"): f"cluster.{name}" for name in SCHEDULER_KEYS},
    "time": "launch.time_min",
    "mem": "launch.memory_gib",
    "cpus-per-task": "launch.cpus_per_task",
}
BY_CPU_OR_GPU = frozenset({"mem-per-cpu", "mem-per-gpu"})
"""Options that request memory in place of `launch.memory_gib`."""
_OPTION = re.compile(r"[a-z][a-z0-9-]*")
# Values that sbatch splits or cuts: these cannot arrive unchanged otherwise.
_LISTS = ("partition", "account", "qos", "gres", "gpus_per_node", "nodelist", "exclude")
_LIST_VALUE = re.compile(r"[^\s'\"\\`$;&|<>#=*?]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True)
class Resources:
    """Request of one submission, by the names of sbatch's options; None: the cluster's default.

    Attributes:
        memory_mib: Host memory.
        cpus_per_task: CPUs, also passed to srun.
        options: Further sbatch options by name; an empty value is a flag.
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
        """Number of GPUs of one job, as far as the request says."""
        return sum(
            count
            for counts in self.of_a_node.values()
            for name, count in counts.items()
            if name.split(":")[0] == "gpu"
        )

    @property
    def of_a_node(self) -> dict[str, dict[str, int]]:
        """What a node must have, as `parse_gres` returns it, by the key that requests it."""
        gpus = [f"gpu:{part}" for part in (self.gpus_per_node or "").split(",") if part]
        return {"gres": parse_gres(self.gres or ""), "gpus_per_node": parse_gres(",".join(gpus))}


def resources_of(gpu: Gpu, cluster: Cluster, launch: Launch) -> Resources:
    """Return the request for points on one GPU model, without what only the cluster can add.

    A key of `cluster` takes precedence over `cluster.requests`.
    """
    mapped = cluster.requests.get(gpu.name, Request())
    chosen = {
        field.name: getattr(cluster, field.name)
        if getattr(cluster, field.name) is not None
        else getattr(mapped, field.name)
        for field in fields(Request)
    }
    # One way of requesting GPUs replaces the other; the cluster's own key has precedence.
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


def resource_problems(cluster: Cluster, launch: Launch) -> Iterator[UsageError]:
    """Yield what could not reach SLURM unchanged."""
    holders = {"cluster": cluster} | {
        f"cluster.requests.{name}": request for name, request in cluster.requests.items()
    }
    for holder_key, holder in holders.items():
        for name in _LISTS:
            value = getattr(holder, name, None)
            if value is not None and not _LIST_VALUE.fullmatch(value):
                constraint = "contain no spaces, quotes or other special characters of a shell"
                yield InvalidValue(f"{holder_key}.{name}", constraint, value)
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
            yield InvalidValue(key, "be one line without control characters", text)
    if {",", "?"} <= set(cluster.dependency or ""):
        yield InvalidValue(
            "cluster.dependency",
            "join conditions by , (all) or by ? (any), not by both",
            cluster.dependency,
        )
    for mount in cluster.container.mounts:
        if "," in mount or _CONTROL.search(mount):
            yield InvalidValue("cluster.container.mounts", "contain no comma", mount)
    for name in cluster.sbatch:
        if name in BY_CPU_OR_GPU and launch.memory_gib is not None:
            yield InvalidValue(
                "launch.memory_gib",
                f"be null if cluster.sbatch.{name} is set",
                launch.memory_gib,
            )
        if not _OPTION.fullmatch(name):
            constraint = "name options by their long names without --"
            yield InvalidValue("cluster.sbatch", constraint, name)
        elif name in _OWN_OPTIONS:
            own = _OWN_OPTIONS[name]
            remedy = f"use {own}" if own else "the tool sets it itself"
            yield NotSettable(f"cluster.sbatch.{name}", remedy)


def parse_gres(text: str) -> dict[str, int]:
    """Parse what a request or a node lists as `gpu:gb300:4(S:0-1),gpu:2,nic:1` or `(null)`.

    Returns for example `{"gpu:gb300": 4, "gpu": 2, "nic": 1}`.
    """
    counts: dict[str, int] = {}
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
            counts[name] = counts.get(name, 0) + (1 if count is None else count)
    return counts
