"""Fits a request to a cluster: completes it, and reports what could never run.

SLURM accepts a job that requests more than a partition's limit, and leaves it pending forever;
such a request is refused here, with the key to change, before anything is submitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from conf.schema import Gpu
from jobs.errors import InvalidValue
from jobs.schedulers.slurm.limits import Association, ClusterLimits, Partition
from jobs.schedulers.slurm.resources import Resources, parse_gres
from jobs.text import pluralize


@dataclass(frozen=True)
class Need:
    """Minutes of each job, and the number of jobs of the whole command."""

    time_min: int
    tasks: int


def complete(
    resources: Resources, gpu: Gpu, memory_mib: int, limits: ClusterLimits | None
) -> tuple[Resources, list[str]]:
    """Return the request with what the cluster can add, and notes on what was chosen.

    Args:
        resources: The request as configured.
        gpu: The GPU that its points name.
        memory_mib: Estimated host memory, used if none was given.
        limits: The cluster; None if it does not answer.
    """
    notes: list[str] = []
    if gpu.device == "cuda" and not resources.gres and not resources.gpus_per_node:
        resources = replace(resources, gres=_gres_for(gpu, limits))
    if limits is not None and resources.partition is None:
        wanted = [name for counts in resources.of_a_node.values() for name in counts]
        partition = _partition_for(wanted, limits)
        if partition is not None:
            resources = replace(resources, partition=partition)
            gpus = resources.gres or f"gpus_per_node={resources.gpus_per_node}"
            notes.append(f"cluster.partition={partition}: the default partition has no {gpus}")
    if resources.memory_mib is None:
        resources = replace(resources, memory_mib=_affordable(memory_mib, resources, limits))
    if limits is not None and limits.accounts_nest:
        notes += _account_doubts(resources, limits)
    return resources, notes


def _gres_for(gpu: Gpu, limits: ClusterLimits | None) -> str:
    """Return the GPU's own type if the cluster has it, one without a type if it names none."""
    wanted = gpu.request or f"gpu:{gpu.name}:1"
    if limits is None:
        return wanted
    kinds = [kind for part in limits.partitions.values() for kind in part.kinds]
    names = {name for kind in kinds for name in kind.gres if name.split(":")[0] == "gpu"}
    typed = next(iter(parse_gres(wanted)), "gpu")
    return "gpu:1" if typed not in names and names == {"gpu"} else wanted


def _partition_for(wanted: Sequence[str], limits: ClusterLimits) -> str | None:
    """Return another partition if the default one does not have what is requested."""
    default = limits.default_partition
    if not wanted or (default is not None and all(default.has(name) for name in wanted)):
        return None
    fitting = (
        part.name
        for part in limits.partitions.values()
        if part.up and all(part.has(name) for name in wanted)
    )
    return next(fitting, None)


def _affordable(memory_mib: int, resources: Resources, limits: ClusterLimits | None) -> int:
    """Return the estimate, or all of the largest node: an estimate alone refuses nothing."""
    parts = _partitions(resources, limits) if limits is not None else []
    largest = max((_largest_memory(part) for part in parts), default=0)
    return min(memory_mib, largest) if largest > 0 else memory_mib


def _largest_memory(part: Partition) -> int:
    """Return the MiB that a job may have on one node of a partition; 0 if unknown."""
    largest = max((kind.memory_mib for kind in part.kinds), default=0)
    return largest if part.max_memory_mib is None else min(largest, part.max_memory_mib)


def over_limits(resources: Resources, need: Need, limits: ClusterLimits) -> list[InvalidValue]:
    """Return what the cluster would refuse or leave pending forever."""
    parts = _partitions(resources, limits)
    problems = list(_unknown(resources, limits))
    if parts:
        mine = _association(resources, limits)
        of_parts = [list(_against_partition(resources, need, part, mine)) for part in parts]
        if not limits.accounts_nest:
            for of_part, part in zip(of_parts, parts, strict=True):
                of_part += _against_accounts(resources, part, mine)
        # Of several partitions, one that takes the job is enough.
        if all(of_parts):
            problems += of_parts[0]
    problems += _against_accounting(resources, need, limits)
    if need.tasks > limits.max_job_count:
        problems.append(_too_many(need.tasks, limits.max_job_count, "MaxJobCount"))
    return problems


def _too_many(tasks: int, most: int, limit: str) -> InvalidValue:
    constraint = f"be so large that there are at most {pluralize(most, 'job')} ({limit})"
    return InvalidValue("launch.points_per_job", constraint, tasks)


def _partitions(resources: Resources, limits: ClusterLimits) -> list[Partition]:
    if resources.partition is None:
        return [limits.default_partition] if limits.default_partition else []
    names = resources.partition.split(",")
    return [limits.partitions[name] for name in names if name in limits.partitions]


def _unknown(resources: Resources, limits: ClusterLimits) -> Iterator[InvalidValue]:
    partitions = f"be one of {', '.join(limits.partitions)}"
    for name in (resources.partition or "").split(","):
        if name and name not in limits.partitions:
            yield InvalidValue("cluster.partition", partitions, name)
    if resources.partition is None and limits.default_partition is None and limits.partitions:
        yield InvalidValue("cluster.partition", partitions, None, "there is no default")
    if resources.qos and limits.qos and resources.qos not in limits.qos:
        yield InvalidValue("cluster.qos", f"be one of {_list(limits.qos)}", resources.qos)
    accounts = {one.account for one in limits.associations}
    if resources.account and accounts and resources.account not in accounts:
        constraint = f"be one of {_list(accounts)}"
        yield InvalidValue("cluster.account", constraint, resources.account)


def _against_partition(
    resources: Resources, need: Need, part: Partition, mine: Association | None
) -> Iterator[InvalidValue]:
    if not part.up:
        yield InvalidValue("cluster.partition", "be up", part.name)
    if part.max_time_min is not None and need.time_min > part.max_time_min:
        yield InvalidValue(
            "launch.time_min",
            f"be at most {part.max_time_min} in partition {part.name}",
            need.time_min,
            "use another cluster.partition or fewer launch.points_per_job",
        )
    if part.min_nodes > 1 or part.max_nodes == 0:
        limit = f"at least {part.min_nodes}" if part.min_nodes > 1 else "no"
        remedy = f"this one requires {limit} nodes"
        yield InvalidValue("cluster.partition", "accept jobs of one node", part.name, remedy)
    qos = resources.qos or (_default_qos(mine) if mine else None)
    yield from _against_list(part, "qos", resources.qos, qos, part.qos, part.denied_qos)
    if part.kinds:
        yield from _against_nodes(resources, part)


def _against_accounts(
    resources: Resources, part: Partition, mine: Association | None
) -> list[InvalidValue]:
    used = resources.account or (mine.account if mine else None)
    lists = part.accounts, part.denied_accounts
    return list(_against_list(part, "account", resources.account, used, *lists))


def _account_doubts(resources: Resources, limits: ClusterLimits) -> list[str]:
    """Return the same as notes: a listed account may cover the user's own, which is below it."""
    mine = _association(resources, limits)
    problems = [
        _against_accounts(resources, part, mine) for part in _partitions(resources, limits)
    ]
    doubts = problems[0] if problems and all(problems) else []
    return [f"{one}; the job stays pending unless a listed one is its parent" for one in doubts]


def _against_list(
    part: Partition,
    key: str,
    given: str | None,
    used: str | None,
    allowed: frozenset[str] | None,
    denied: frozenset[str],
) -> Iterator[InvalidValue]:
    """Check an account or QOS, given or the default one, against a partition's lists."""
    where = f"in partition {part.name}"
    remedy = "" if given else f"the default is {used}"
    if used and allowed is not None and used not in allowed:
        yield InvalidValue(f"cluster.{key}", f"be one of {_list(allowed)} {where}", given, remedy)
    elif used and used in denied:
        yield InvalidValue(f"cluster.{key}", f"be none of {_list(denied)} {where}", given, remedy)


def _default_qos(mine: Association) -> str | None:
    if mine.default_qos is not None:
        return mine.default_qos
    return next(iter(mine.qos)) if len(mine.qos) == 1 else None


def _against_nodes(resources: Resources, part: Partition) -> Iterator[InvalidValue]:
    where = f"in partition {part.name}"
    cpus = max(kind.cpus for kind in part.kinds)
    if part.max_cpus_per_node is not None:
        cpus = min(cpus, part.max_cpus_per_node)
    if (resources.cpus_per_task or 1) > cpus:
        constraint = f"be at most {cpus} {where}"
        yield InvalidValue("launch.cpus_per_task", constraint, resources.cpus_per_task)
    memory = _largest_memory(part)
    if memory > 1 and (resources.memory_mib or 0) > memory:
        constraint = f"be at most {memory / 1024:.2f} {where}"
        value = round((resources.memory_mib or 0) / 1024, 2)
        yield InvalidValue("launch.memory_gib", constraint, value)
    for key, counts in resources.of_a_node.items():
        for name, count in counts.items():
            most = max(kind.gres.get(name, 0) or _of_type(name, kind.gres) for kind in part.kinds)
            if count > most:
                has = {f"{one}:{n}" for kind in part.kinds for one, n in kind.gres.items()}
                constraint = f"be at most what a node has {where} ({_list(has) or 'no gres'})"
                yield InvalidValue(f"cluster.{key}", constraint, getattr(resources, key))


def _of_type(name: str, gres: Mapping[str, int]) -> int:
    """Return the count of any type, for a request without one."""
    return sum(count for one, count in gres.items() if one.split(":")[0] == name)


def _against_accounting(
    resources: Resources, need: Need, limits: ClusterLimits
) -> Iterator[InvalidValue]:
    mine = _association(resources, limits)
    if mine is not None:
        if resources.qos in limits.qos and mine.qos and resources.qos not in mine.qos:
            constraint = f"be one of {_list(mine.qos)} for account {mine.account}"
            yield InvalidValue("cluster.qos", constraint, resources.qos)
        if mine.max_time_min is not None and need.time_min > mine.max_time_min:
            constraint = f"be at most {mine.max_time_min} for account {mine.account}"
            yield InvalidValue("launch.time_min", constraint, need.time_min)
    qos = limits.qos.get(resources.qos or "")
    if qos and qos.max_time_min is not None and need.time_min > qos.max_time_min:
        constraint = f"be at most {qos.max_time_min} with cluster.qos={qos.name}"
        yield InvalidValue("launch.time_min", constraint, need.time_min)
    most = max_submit(resources, limits)
    if most is not None and need.tasks > most:
        yield _too_many(need.tasks, most, "MaxSubmitJobs")


def max_submit(resources: Resources, limits: ClusterLimits) -> int | None:
    """Return how many jobs the user may submit at once under this request; None: no limit."""
    mine = _association(resources, limits)
    qos = limits.qos.get(resources.qos or "")
    given = [
        one.max_submit_jobs
        for one in (mine, qos)
        if one is not None and one.max_submit_jobs is not None
    ]
    return min(given, default=None)


def _association(resources: Resources, limits: ClusterLimits) -> Association | None:
    """Return the limits of the account that is requested, or of the user's default one."""
    for one in limits.associations:
        wanted = one.default if resources.account is None else one.account == resources.account
        if wanted and (not one.partition or one.partition == resources.partition):
            return one
    return None


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
