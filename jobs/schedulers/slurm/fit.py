"""Fits a request to a cluster: asks for what it has, and tells what would wait for ever.

SLURM accepts a job that asks for more than a partition's limit, and leaves it pending without
end; such a request is refused here, with the key to change, before anything is submitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from conf.schema import Gpu
from jobs.schedulers.slurm.limits import Association, ClusterLimits, Partition
from jobs.schedulers.slurm.resources import Resources, parse_gres
from jobs.text import pluralize


@dataclass(frozen=True)
class Need:
    """What one submission needs beside its `Resources`.

    Attributes:
        time_min: Minutes of each job.
        tasks: How many jobs all submissions of the command make together.
    """

    time_min: int
    tasks: int


def complete(
    asked: Resources, gpu: Gpu, memory_mib: int, limits: ClusterLimits | None
) -> tuple[Resources, list[str]]:
    """Fills in what was not given from what the cluster has.

    Args:
        asked: The request as configured.
        gpu: The GPU that its points name.
        memory_mib: Estimated host memory, used where none was given.
        limits: The cluster; None where it cannot be asked.

    Returns:
        The request, and notes on what was chosen.
    """
    notes: list[str] = []
    if gpu.device == "cuda" and not asked.gres and not asked.gpus_per_node:
        gres = _gres_for(gpu, limits)
        asked = replace(asked, gres=gres)
    if limits is not None and asked.partition is None:
        wanted = [name for names in asked.of_a_node.values() for name in names]
        chosen = _partition_for(wanted, limits)
        if chosen is not None:
            asked = replace(asked, partition=chosen)
            told = asked.gres or f"gpus_per_node={asked.gpus_per_node}"
            notes.append(f"cluster.partition={chosen}: the default one has no {told}")
    if asked.memory_mib is None:
        asked = replace(asked, memory_mib=_affordable(memory_mib, asked, limits))
    if limits is not None and limits.accounts_nest:
        notes += _account_doubts(asked, limits)
    return asked, notes


def _gres_for(gpu: Gpu, limits: ClusterLimits | None) -> str:
    """The GPU's own type where the cluster has it, one without a type where it names none."""
    wanted = gpu.request or f"gpu:{gpu.name}:1"
    if limits is None:
        return wanted
    kinds = [kind for part in limits.partitions.values() for kind in part.kinds]
    names = {name for kind in kinds for name in kind.gres if name.split(":")[0] == "gpu"}
    typed = next(iter(parse_gres(wanted)), "gpu")
    if typed in names:
        return wanted
    return "gpu:1" if names == {"gpu"} else wanted


def _partition_for(wanted: Sequence[str], limits: ClusterLimits) -> str | None:
    """Another partition where the default one does not have what is asked for."""
    default = limits.default_partition
    if not wanted or (default is not None and all(default.has(name) for name in wanted)):
        return None
    fitting = (
        part.name
        for part in limits.partitions.values()
        if part.up and all(part.has(name) for name in wanted)
    )
    return next(fitting, None)


def _affordable(memory_mib: int, asked: Resources, limits: ClusterLimits | None) -> int:
    """The estimate, or all of the largest node: an estimate alone refuses nobody."""
    parts = _partitions(asked, limits) if limits is not None else []
    largest = max((_largest_memory(part) for part in parts), default=0)
    return min(memory_mib, largest) if largest > 0 else memory_mib


def _largest_memory(part: Partition) -> int:
    """MiB that a job may have on one node of a partition; 0 where nobody says."""
    largest = max((kind.memory_mib for kind in part.kinds), default=0)
    return largest if part.max_memory_mib is None else min(largest, part.max_memory_mib)


def over_limits(asked: Resources, need: Need, limits: ClusterLimits) -> list[str]:
    """What the cluster would refuse or leave pending for ever, one sentence each.

    Args:
        asked: The request.
        need: Its time and its number of jobs.
        limits: What the cluster allows.

    Returns:
        "`key` must rule, got value; remedy"; none where the request can run.
    """
    parts = _partitions(asked, limits)
    found = list(_unknown(asked, limits))
    if parts:
        mine = _association(asked, limits)
        refused = [list(_against_partition(asked, need, part, mine)) for part in parts]
        if not limits.accounts_nest:
            for problems, part in zip(refused, parts, strict=True):
                problems += _against_accounts(asked, part, mine)
        # With several partitions one that takes the job is enough.
        if all(refused):
            found += refused[0]
    found += _against_accounting(asked, need, limits)
    if need.tasks > limits.max_job_count:
        found.append(
            f"the sweep must make at most {pluralize(limits.max_job_count, 'job')} (MaxJobCount), "
            f"got {need.tasks}; put more points into one: launch.points_per_job"
        )
    return found


def _partitions(asked: Resources, limits: ClusterLimits) -> list[Partition]:
    if asked.partition is None:
        return [limits.default_partition] if limits.default_partition else []
    names = asked.partition.split(",")
    return [limits.partitions[name] for name in names if name in limits.partitions]


def _unknown(asked: Resources, limits: ClusterLimits) -> Iterator[str]:
    known = ", ".join(limits.partitions)
    for name in (asked.partition or "").split(","):
        if name and name not in limits.partitions:
            yield f"cluster.partition must be one of {known}, got {name!r}"
    if asked.partition is None and limits.default_partition is None and limits.partitions:
        yield f"cluster.partition must be one of {known}, got none, and there is no default"
    if asked.qos and limits.qos and asked.qos not in limits.qos:
        yield f"cluster.qos must be one of {', '.join(limits.qos)}, got {asked.qos!r}"
    accounts = sorted({one.account for one in limits.associations})
    if asked.account and accounts and asked.account not in accounts:
        yield f"cluster.account must be one of {', '.join(accounts)}, got {asked.account!r}"


def _against_partition(
    asked: Resources, need: Need, part: Partition, mine: Association | None
) -> Iterator[str]:
    where = f"in partition {part.name}"
    if not part.up:
        yield f"cluster.partition must be one that is up, got {part.name!r}"
    if part.max_time_min is not None and need.time_min > part.max_time_min:
        yield (
            f"launch.time_min must be at most {part.max_time_min} {where}, got {need.time_min}; "
            "take another cluster.partition, or fewer launch.points_per_job"
        )
    if part.min_nodes > 1 or part.max_nodes == 0:
        limit = f"at least {part.min_nodes}" if part.min_nodes > 1 else "no"
        yield f"cluster.partition must take jobs of one node, got {part.name!r}: {limit} nodes"
    qos = asked.qos or (_default_qos(mine) if mine else None)
    yield from _against_list("qos", asked.qos, qos, part.qos, part.denied_qos, where)
    if part.kinds:
        yield from _against_nodes(asked, part)


def _against_accounts(asked: Resources, part: Partition, mine: Association | None) -> list[str]:
    used = asked.account or (mine.account if mine else None)
    where = f"in partition {part.name}"
    lists = part.accounts, part.denied_accounts
    return list(_against_list("account", asked.account, used, *lists, where))


def _account_doubts(asked: Resources, limits: ClusterLimits) -> list[str]:
    """The same where a listed account may stand for the user's own, which lies below it."""
    mine = _association(asked, limits)
    found = [_against_accounts(asked, part, mine) for part in _partitions(asked, limits)]
    doubts = found[0] if found and all(found) else []
    return [f"{one}; SLURM leaves it pending unless a listed one stands above" for one in doubts]


def _against_list(
    key: str,
    asked: str | None,
    used: str | None,
    allowed: frozenset[str] | None,
    denied: frozenset[str],
    where: str,
) -> Iterator[str]:
    """What a partition's lists say of an account or QOS that is asked for, or the default one."""
    got = repr(asked) if asked else f"none, and the default is {used!r}"
    if used and allowed is not None and used not in allowed:
        yield f"cluster.{key} must be one of {_words(allowed)} {where}, got {got}"
    elif used and used in denied:
        yield f"cluster.{key} must be none of {_words(denied)} {where}, got {got}"


def _default_qos(mine: Association) -> str | None:
    if mine.default_qos is not None:
        return mine.default_qos
    return next(iter(mine.qos)) if len(mine.qos) == 1 else None


def _against_nodes(asked: Resources, part: Partition) -> Iterator[str]:
    where = f"in partition {part.name}"
    cpus = max(kind.cpus for kind in part.kinds)
    if part.max_cpus_per_node is not None:
        cpus = min(cpus, part.max_cpus_per_node)
    if (asked.cpus_per_task or 1) > cpus:
        yield f"launch.cpus_per_task must be at most {cpus} {where}, got {asked.cpus_per_task}"
    memory = _largest_memory(part)
    if memory > 1 and (asked.memory_mib or 0) > memory:
        yield (
            f"launch.memory_gib must be at most {memory / 1024:.2f} {where}, "
            f"got {(asked.memory_mib or 0) / 1024:.2f}"
        )
    for key, wanted in asked.of_a_node.items():
        for name, count in wanted.items():
            most = max(kind.gres.get(name, 0) or _of_type(name, kind.gres) for kind in part.kinds)
            if count > most:
                has = {f"{one}:{n}" for kind in part.kinds for one, n in kind.gres.items()}
                yield (
                    f"cluster.{key} must be what a node has {where} "
                    f"({_words(has) or 'no gres'}), got {getattr(asked, key)!r}"
                )


def _of_type(name: str, gres: Mapping[str, int]) -> int:
    """A request without a type takes a GPU of any type."""
    return sum(count for one, count in gres.items() if one.split(":")[0] == name)


def _against_accounting(asked: Resources, need: Need, limits: ClusterLimits) -> Iterator[str]:
    mine = _association(asked, limits)
    if mine is not None:
        if asked.qos in limits.qos and mine.qos and asked.qos not in mine.qos:
            yield (
                f"cluster.qos must be one of {_words(mine.qos)} for account {mine.account}, "
                f"got {asked.qos!r}"
            )
        if mine.max_time_min is not None and need.time_min > mine.max_time_min:
            yield (
                f"launch.time_min must be at most {mine.max_time_min} for account "
                f"{mine.account}, got {need.time_min}"
            )
    qos = limits.qos.get(asked.qos or "")
    if qos and qos.max_time_min is not None and need.time_min > qos.max_time_min:
        yield (
            f"launch.time_min must be at most {qos.max_time_min} with cluster.qos={qos.name}, "
            f"got {need.time_min}"
        )
    allowed = max_submit(asked, limits)
    if allowed is not None and need.tasks > allowed:
        yield (
            f"the sweep must make at most {pluralize(allowed, 'job')} (MaxSubmitJobs), "
            f"got {need.tasks}; put more points into one: launch.points_per_job"
        )


def max_submit(asked: Resources, limits: ClusterLimits) -> int | None:
    """Jobs that the user may have submitted at once under this request; None: no limit."""
    mine = _association(asked, limits)
    qos = limits.qos.get(asked.qos or "")
    given = [
        one.max_submit_jobs
        for one in (mine, qos)
        if one is not None and one.max_submit_jobs is not None
    ]
    return min(given, default=None)


def _association(asked: Resources, limits: ClusterLimits) -> Association | None:
    """What accounting says of the account that is asked for, or of the user's default one."""
    for one in limits.associations:
        wanted = one.default if asked.account is None else one.account == asked.account
        if wanted and (not one.partition or one.partition == asked.partition):
            return one
    return None


def _words(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
