"""From planned points to submissions: what is alike goes into one array, cut to the cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from conf.site import Cluster, Launch
from jobs.errors import UsageError
from jobs.schedulers.slurm.estimate import job_time_min, memory_mib, point_time_s
from jobs.schedulers.slurm.fit import Need, complete, max_submit, over_limits
from jobs.schedulers.slurm.limits import ClusterLimits
from jobs.schedulers.slurm.resources import (
    BY_CPU_OR_GPU,
    Resources,
    resource_problems,
    resources_of,
)
from jobs.schedulers.slurm.script import Submission
from jobs.sweeps.planned_point import PlannedPoint

FAR_OVER = 2.0
"""An estimate this many times over a limit warns: the points will hardly end within it."""


@dataclass(frozen=True)
class Capped:
    """An estimate that was cut to what the partition allows.

    Attributes:
        key: The key that was estimated.
        most: What the partition allows.
        estimated: What was estimated.
        remedy: What else would help.
    """

    key: str
    most: float
    estimated: float
    remedy: str = ""

    @property
    def far(self) -> bool:
        """Whether the points will hardly do with what they get."""
        return self.estimated >= FAR_OVER * self.most

    def __str__(self) -> str:
        return (
            f"{self.key}={_figure(self.most)}: the partition allows no more, "
            f"{_figure(self.estimated)} were estimated{self.remedy}"
        )


def _figure(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.1f}"


@dataclass(frozen=True)
class Batch:
    """Points that ask for the same, under the same site.

    Attributes:
        resources: What each of their jobs asks for.
        cluster: The site's keys.
        launch: How they become jobs.
        slots: Point ids of each job.
        time_min: Minutes of each job.
        expected_s: Seconds that all their points are expected to take together.
    """

    resources: Resources
    cluster: Cluster
    launch: Launch
    slots: tuple[tuple[str, ...], ...]
    time_min: int
    expected_s: float


@dataclass(frozen=True)
class Batches:
    """Everything that one command submits.

    Attributes:
        batches: In the order of their first points.
        notes: What was chosen for the user, worth a line.
        warnings: What was estimated far over what the points get.
    """

    batches: tuple[Batch, ...]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def jobs(self) -> int:
        """Jobs and array tasks of all batches."""
        return sum(len(batch.slots) for batch in self.batches)

    @property
    def gpu_hours(self) -> float:
        """GPU hours that are expected."""
        return sum(one.expected_s * one.resources.gpus for one in self.batches) / 3600

    @property
    def hours(self) -> float:
        """Job hours that are expected."""
        return sum(one.expected_s for one in self.batches) / 3600


def make_batches(points: Sequence[PlannedPoint], limits: ClusterLimits | None) -> Batches:
    """Groups points by what they ask for.

    Args:
        points: The points to submit.
        limits: The cluster; None where it cannot be asked.

    Returns:
        The batches.

    Raises:
        UsageError: A request that cannot reach SLURM unchanged, or that the cluster would refuse
            or leave pending for ever; a line for each.
    """
    groups: dict[str, list[PlannedPoint]] = {}
    for point in points:
        gpu = point.config.get("gpu")
        groups.setdefault(json.dumps([gpu, point.site], sort_keys=True), []).append(point)
    made = [_batch(group, limits) for group in groups.values()]
    merged: dict[tuple[Resources, str], Batch] = {}
    notes: dict[str, None] = {}
    warnings: dict[str, None] = {}
    for batch, said, capped in made:
        notes.update(dict.fromkeys([*said, *(str(one) for one in capped if not one.far)]))
        warnings.update(dict.fromkeys(str(one) for one in capped if one.far))
        # GPUs that are asked for alike share an array.
        key = (batch.resources, repr((batch.cluster, batch.launch)))
        known = merged.get(key)
        merged[key] = batch if known is None else _together(known, batch)
    batches = Batches(tuple(merged.values()), tuple(notes), tuple(warnings))
    problems = dict.fromkeys(
        problem
        for batch in batches.batches
        for problem in resource_problems(batch.cluster, batch.launch)
    )
    if limits is not None and not problems:
        for batch in batches.batches:
            need = Need(batch.time_min, batches.jobs)
            problems.update(dict.fromkeys(over_limits(batch.resources, need, limits)))
    if problems:
        raise UsageError("\n".join(problems))
    return batches


def _batch(
    group: list[PlannedPoint], limits: ClusterLimits | None
) -> tuple[Batch, list[str], list[Capped]]:
    cluster, launch = group[0].typed_site()
    points = {point.point_id: point.typed_config() for point in group}
    gpu = next(iter(points.values())).gpu
    memory = max(memory_mib(point) for point in points.values())
    resources, notes = complete(resources_of(gpu, cluster, launch), gpu, memory, limits)
    capped = list(_memory_capped(resources, cluster, launch, memory))
    ids = list(points)
    size = launch.points_per_job
    slots = tuple(tuple(ids[i : i + size]) for i in range(0, len(ids), size))
    if launch.time_min is None:
        limit_s = launch.point_time_limit_s
        time_min = max(job_time_min([points[name] for name in slot], limit_s) for slot in slots)
        most = _longest(resources, limits)
        if most is not None and time_min > most:
            fewer = "; fewer launch.points_per_job need less" if size > 1 else ""
            capped.append(Capped("launch.time_min", most, time_min, fewer))
            time_min = most
    else:
        time_min = launch.time_min
    expected = sum(point_time_s(point) for point in points.values())
    return Batch(resources, cluster, launch, slots, time_min, expected), notes, capped


def _memory_capped(
    resources: Resources, cluster: Cluster, launch: Launch, estimated_mib: int
) -> Iterator[Capped]:
    given = launch.memory_gib is not None or BY_CPU_OR_GPU & set(cluster.sbatch)
    got_mib = resources.memory_mib
    if not given and got_mib is not None and got_mib < estimated_mib:
        yield Capped("launch.memory_gib", got_mib / 1024, estimated_mib / 1024)


def _longest(resources: Resources, limits: ClusterLimits | None) -> int | None:
    """Minutes that the most generous of the named partitions allows; None: no limit."""
    if limits is None:
        return None
    if resources.partition is None:
        default = limits.default_partition
        return default.max_time_min if default else None
    names = resources.partition.split(",")
    times = [limits.partitions[name].max_time_min for name in names if name in limits.partitions]
    limited = [time for time in times if time is not None]
    return max(limited) if limited and len(limited) == len(times) else None


def _together(one: Batch, other: Batch) -> Batch:
    return replace(
        one,
        slots=one.slots + other.slots,
        time_min=max(one.time_min, other.time_min),
        expected_s=one.expected_s + other.expected_s,
    )


def cut(
    batches: Batches, sweep: Path, limits: ClusterLimits | None, number: Callable[[], int]
) -> list[tuple[Submission, Batch]]:
    """Cuts batches into arrays that the cluster takes.

    Args:
        batches: What is to be submitted.
        sweep: The sweep's folder.
        limits: The cluster; None: nothing is cut.
        number: Gives each submission its number.

    Returns:
        The submissions in their order, each with its batch. Where a throttle is given, an array
        waits for the one before it, so that the throttle holds for the whole batch.

    Raises:
        UsageError: An array would have to wait for one of several jobs and for the array before.
    """
    sizes = [_array_size(batch, limits) for batch in batches.batches]
    for batch, size in zip(batches.batches, sizes, strict=True):
        _refuse_any_of(batch, size)
    made = []
    for batch, size in zip(batches.batches, sizes, strict=True):
        for start in range(0, len(batch.slots), max(1, size)):
            made.append(
                (
                    Submission(
                        sweep=sweep,
                        number=number(),
                        resources=batch.resources,
                        time_min=batch.time_min,
                        tasks=batch.slots[start : start + size],
                        max_parallel=batch.launch.max_parallel,
                        waits=start > 0 and batch.launch.max_parallel is not None,
                    ),
                    batch,
                )
            )
    return made


def _array_size(batch: Batch, limits: ClusterLimits | None) -> int:
    """Jobs of a batch that one array may hold."""
    size = len(batch.slots)
    if limits is None:
        return size
    return min(size, limits.max_array_size, max_submit(batch.resources, limits) or size)


def _refuse_any_of(batch: Batch, size: int) -> None:
    """SLURM takes "any of these" or "all of these": an array of several adds one more."""
    dependency = batch.resources.dependency or ""
    if "?" in dependency and len(batch.slots) > size and batch.launch.max_parallel is not None:
        raise UsageError(
            f"cluster.dependency must hold no ? with launch.max_parallel where {len(batch.slots)} "
            f"jobs need several arrays of at most {size}, which wait for each other, "
            f"got {dependency!r}; put more points into one job: launch.points_per_job, or leave "
            "launch.max_parallel out"
        )
