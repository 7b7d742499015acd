"""Limits, partitions, nodes and GPUs of a cluster, and what its user may request."""

from __future__ import annotations

import getpass
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from jobs.errors import SchedulerUnavailable
from jobs.schedulers.slurm.commands import Answer, call
from jobs.schedulers.slurm.query import seconds
from jobs.schedulers.slurm.resources import parse_gres
from jobs.text import parse_int

_PAIR = re.compile(r"(\w+)=(\S*)")
_SINFO = ("Partition", "Available", "Nodes", "CPUs", "Memory", "Gres", "Features", "StateCompact")
_ASSOC = (
    *("Cluster", "DefaultAccount", "Account", "Partition", "QOS", "DefaultQOS"),
    *("MaxJobs", "MaxSubmitJobs", "GrpSubmitJobs", "MaxWall"),
)
_QOS = ("Name", "MaxJobsPU", "MaxSubmitJobsPU", "GrpSubmitJobs", "MaxWall")


@dataclass(frozen=True)
class NodeKind:
    """Nodes of one partition that are alike."""

    nodes: int
    cpus: int
    memory_mib: int
    gres: Mapping[str, int]
    features: tuple[str, ...]
    state: str


@dataclass(frozen=True)
class Partition:
    """One partition; None is no limit."""

    name: str
    default: bool
    up: bool
    max_time_min: int | None = None
    max_nodes: int | None = None
    min_nodes: int = 0
    max_cpus_per_node: int | None = None
    max_memory_mib: int | None = None
    accounts: frozenset[str] | None = None
    denied_accounts: frozenset[str] = frozenset()
    qos: frozenset[str] | None = None
    denied_qos: frozenset[str] = frozenset()
    kinds: tuple[NodeKind, ...] = ()

    def has(self, gres: str) -> bool:
        """True if some node has the resource; one without a type matches any type."""
        return any(gres in (one, one.split(":")[0]) for kind in self.kinds for one in kind.gres)


@dataclass(frozen=True)
class Association:
    """What accounting allows a user under one account; None is no limit."""

    account: str
    default: bool = False
    partition: str = ""
    qos: frozenset[str] = frozenset()
    default_qos: str | None = None
    max_jobs: int | None = None
    max_submit_jobs: int | None = None
    max_time_min: int | None = None


@dataclass(frozen=True)
class Qos:
    """One quality of service; None is no limit."""

    name: str
    max_jobs: int | None = None
    max_submit_jobs: int | None = None
    max_time_min: int | None = None


@dataclass(frozen=True)
class ClusterLimits:
    """Everything that a cluster reports about itself.

    Attributes:
        max_array_size: One more than the highest array index.
        max_job_count: Jobs that the controller keeps at once.
        associations: The user's, one for each account; empty without accounting.
        qos: By name; empty without accounting.
        accounting_error: Why accounting could not be queried.
    """

    name: str
    version: str
    max_array_size: int
    max_job_count: int
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    associations: tuple[Association, ...] = ()
    qos: Mapping[str, Qos] = field(default_factory=dict)
    accounting_error: str | None = None

    @property
    def accounts_nest(self) -> bool:
        """True if an account in a partition's lists also covers the accounts below it."""
        numbers = [int(part) for part in self.version.split(".")[:2] if part.isdecimal()]
        return numbers >= [23, 11]

    @property
    def default_partition(self) -> Partition | None:
        """Partition of a job that names none."""
        return next((part for part in self.partitions.values() if part.default), None)


_REMEDY = "run this on a login node of the cluster, where sinfo works"


def query_limits() -> ClusterLimits:
    """Query the cluster's limits and the user's own, all commands at the same time.

    If accounting is missing or down, its limits are left out and the reason is kept.

    Raises:
        SchedulerUnavailable: There is no SLURM here, or its controller does not answer.
    """
    fields = ",".join(f"{name}:|" for name in _SINFO)
    select = [f"name={getpass.getuser()}", "withassoc", f"format={','.join(_ASSOC)}"]
    commands = (
        ["scontrol", "show", "config"],
        ["scontrol", "--oneliner", "show", "partition"],
        ["sinfo", "--noheader", "--exact", "--all", f"--Format={fields}"],
        ["sacctmgr", "--noheader", "--parsable2", "show", "user", *select],
        ["sacctmgr", "--noheader", "--parsable2", "show", "qos", f"format={','.join(_QOS)}"],
    )
    with ThreadPoolExecutor(len(commands)) as pool:
        config, partitions, nodes, assoc, qos = pool.map(call, commands)
    for answer in (config, partitions, nodes):
        if answer.error:
            raise SchedulerUnavailable("query the cluster's limits", answer.error, _REMEDY)
    return parse_limits(config.out, partitions.out, nodes.out, assoc, qos)


def parse_limits(
    config: str, partitions: str, nodes: str, assoc: Answer, qos: Answer
) -> ClusterLimits:
    """Parse the output of the five commands of `query_limits`."""
    values = {
        key.strip(): value.strip()
        for key, found, value in (line.partition("=") for line in config.splitlines())
        if found
    }
    kinds = _node_kinds(nodes)
    known = {
        part.name: part
        for part in (_partition(line, kinds) for line in partitions.splitlines())
        if part is not None
    }
    name = values.get("ClusterName", "?")
    return ClusterLimits(
        name=name,
        version=values.get("SLURM_VERSION", "?"),
        max_array_size=parse_int(values.get("MaxArraySize", "")) or 1,
        max_job_count=parse_int(values.get("MaxJobCount", "")) or 10_000,
        partitions=known,
        associations=() if assoc.error else tuple(_associations(assoc.out, name)),
        qos={} if qos.error else {one.name: one for one in _qualities(qos.out)},
        accounting_error=assoc.error or qos.error,
    )


def _partition(line: str, kinds: Mapping[str, list[NodeKind]]) -> Partition | None:
    values = dict(_PAIR.findall(line))
    if "PartitionName" not in values:
        return None
    name = values["PartitionName"]
    return Partition(
        name=name,
        default=values.get("Default") == "YES",
        up=values.get("State", "UP") == "UP",
        max_time_min=_minutes(values.get("MaxTime", "")),
        max_nodes=parse_int(values.get("MaxNodes", "")),
        min_nodes=parse_int(values.get("MinNodes", "")) or 0,
        max_cpus_per_node=parse_int(values.get("MaxCPUsPerNode", "")),
        max_memory_mib=parse_int(values.get("MaxMemPerNode", "")) or None,
        accounts=_names(values.get("AllowAccounts", "ALL")),
        denied_accounts=_names(values.get("DenyAccounts", "")) or frozenset(),
        qos=_names(values.get("AllowQos", "ALL")),
        denied_qos=_names(values.get("DenyQos", "")) or frozenset(),
        kinds=tuple(kinds.get(name, ())),
    )


def _node_kinds(text: str) -> dict[str, list[NodeKind]]:
    kinds: dict[str, list[NodeKind]] = {}
    for line in text.splitlines():
        parts = [part.strip() for part in line.split("|")]
        if len(parts) < len(_SINFO):
            continue
        name, _, nodes, cpus, memory, gres, features, state = parts[: len(_SINFO)]
        kind = NodeKind(
            nodes=parse_int(nodes) or 0,
            cpus=parse_int(cpus.rstrip("+")) or 0,
            memory_mib=parse_int(memory.rstrip("+")) or 0,
            gres=parse_gres("" if gres == "(null)" else gres),
            features=tuple(part for part in features.split(",") if part != "(null)"),
            state=state,
        )
        kinds.setdefault(name.rstrip("*"), []).append(kind)
    return kinds


def _associations(text: str, cluster: str) -> list[Association]:
    """Parse the user's associations on this cluster; accounting may list other clusters too."""
    associations = []
    for line in text.splitlines():
        parts = line.split("|")
        if len(parts) < len(_ASSOC):
            continue
        where, default, account, partition, qos, default_qos = parts[:6]
        jobs, submit, group_submit, wall = parts[6 : len(_ASSOC)]
        if where.casefold() != cluster.casefold():
            continue
        associations.append(
            Association(
                account=account,
                default=account == default,
                partition=partition,
                qos=frozenset(filter(None, qos.split(","))),
                default_qos=default_qos or None,
                max_jobs=parse_int(jobs),
                max_submit_jobs=_least(parse_int(submit), parse_int(group_submit)),
                max_time_min=_minutes(wall),
            )
        )
    return associations


def _qualities(text: str) -> list[Qos]:
    qualities = []
    for line in text.splitlines():
        parts = line.split("|")
        if len(parts) < len(_QOS):
            continue
        name, jobs, submit, group_submit, wall = parts[: len(_QOS)]
        submits = _least(parse_int(submit), parse_int(group_submit))
        qualities.append(Qos(name, parse_int(jobs), submits, _minutes(wall)))
    return qualities


def _least(one: int | None, other: int | None) -> int | None:
    given = [number for number in (one, other) if number is not None]
    return min(given, default=None)


def _minutes(text: str) -> int | None:
    """Parse SLURM's duration as minutes; None for UNLIMITED and the like."""
    total_s = seconds(text)
    return None if total_s is None else total_s // 60


def _names(text: str) -> frozenset[str] | None:
    return None if text == "ALL" else frozenset(filter(None, text.split(",")))
