"""From planned points to submissions: points with the same request share an array."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from conf.site import Cluster, Launch
from jobs.errors import InvalidConfig, InvalidValue
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
"""An estimate this many times over a limit warns: the points will hardly fit."""


@dataclass(frozen=True)
class Capped:
    """An estimate that was reduced to what the partition allows."""

    key: str
    most: float
    estimated: float
    remedy: str = ""

    @property
    def far(self) -> bool:
        """True if the points will hardly fit."""
        return self.estimated >= FAR_OVER * self.most

    def __str__(self) -> str:
        most, estimated = (
            str(value) if isinstance(value, int) else f"{value:.1f}"
            for value in (self.most, self.estimated)
        )
        return (
            f"{self.key}={most} is the most that the partition allows; "
            f"estimated: {estimated}{self.remedy}"
        )


@dataclass(frozen=True)
class Batch:
    """Points with the same request.

    Attributes:
        resources: Request of each of their jobs.
        cluster: Cluster configuration.
        launch: Launch configuration.
        slots: Point ids of each job.
        time_min: Minutes of each job.
        expected_s: Expected seconds of all points together.
    """

    resources: Resources
    cluster: Cluster
    launch: Launch
    slots: tuple[tuple[str, ...], ...]
    time_min: int
    expected_s: float

    def __add__(self, other: Batch) -> Batch:
        """Return both in one; their requests are the same."""
        return replace(
            self,
            slots=self.slots + other.slots,
            time_min=max(self.time_min, other.time_min),
            expected_s=self.expected_s + other.expected_s,
        )

    def array_size(self, limits: ClusterLimits | None) -> int:
        """Return how many of its jobs one array may hold."""
        size = len(self.slots)
        if limits is None:
            return size
        return min(size, limits.max_array_size, max_submit(self.resources, limits) or size)

    def avoiding(self, nodes: Sequence[str]) -> Batch:
        """Return the batch with these nodes excluded too."""
        given = self.resources.exclude.split(",") if self.resources.exclude else []
        names = ",".join(dict.fromkeys([*given, *nodes]))
        return replace(self, resources=replace(self.resources, exclude=names or None))


@dataclass(frozen=True)
class Batches:
    """Everything that one command submits.

    Attributes:
        batches: In the order of their first points.
        choices: Choices made for the user, a sentence each.
        capped: Estimates that were reduced.
    """

    batches: tuple[Batch, ...]
    choices: tuple[str, ...] = ()
    capped: tuple[Capped, ...] = ()

    @property
    def notes(self) -> list[str]:
        """Choices and reduced estimates, a sentence each."""
        return [*self.choices, *(str(one) for one in self.capped if not one.far)]

    @property
    def warnings(self) -> list[str]:
        """Estimates far above the limits, a sentence each."""
        return [str(one) for one in self.capped if one.far]

    @property
    def jobs(self) -> int:
        """Number of jobs and array tasks."""
        return sum(len(batch.slots) for batch in self.batches)

    @property
    def hours(self) -> float:
        """Expected job hours."""
        return sum(one.expected_s for one in self.batches) / 3600

    @property
    def gpu_hours(self) -> float:
        """Expected GPU hours."""
        return sum(one.expected_s * one.resources.gpus for one in self.batches) / 3600


def make_batches(points: Sequence[PlannedPoint], limits: ClusterLimits | None) -> Batches:
    """Group points by their requests; `limits` is None if the cluster does not answer.

    Raises:
        InvalidConfig: Requests that cannot reach SLURM unchanged, or that the cluster would
            refuse or leave pending forever.
    """
    groups: dict[str, list[PlannedPoint]] = {}
    for point in points:
        gpu = point.config.get("gpu")
        groups.setdefault(json.dumps([gpu, point.site], sort_keys=True), []).append(point)
    merged: dict[tuple[Resources, str], Batch] = {}
    choices: dict[str, None] = {}
    capped: dict[Capped, None] = {}
    for group in groups.values():
        batch, of_group, reduced = _batch(group, limits)
        choices.update(dict.fromkeys(of_group))
        capped.update(dict.fromkeys(reduced))
        # GPUs with the same request share an array.
        key = (batch.resources, repr((batch.cluster, batch.launch)))
        merged[key] = merged[key] + batch if key in merged else batch
    batches = Batches(tuple(merged.values()), tuple(choices), tuple(capped))
    problems = {
        str(problem): problem
        for batch in batches.batches
        for problem in resource_problems(batch.cluster, batch.launch)
    }
    if limits is not None and not problems:
        problems = {
            str(problem): problem
            for batch in batches.batches
            for problem in over_limits(batch.resources, Need(batch.time_min, batches.jobs), limits)
        }
    if problems:
        raise InvalidConfig(tuple(problems.values()))
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
            remedy = "; use fewer launch.points_per_job" if size > 1 else ""
            capped.append(Capped("launch.time_min", most, time_min, remedy))
            time_min = most
    else:
        time_min = launch.time_min
    expected = sum(point_time_s(point) for point in points.values())
    return Batch(resources, cluster, launch, slots, time_min, expected), notes, capped


def _memory_capped(
    resources: Resources, cluster: Cluster, launch: Launch, estimated_mib: int
) -> Iterator[Capped]:
    given = launch.memory_gib is not None or BY_CPU_OR_GPU & set(cluster.sbatch)
    memory = resources.memory_mib
    if not given and memory is not None and memory < estimated_mib:
        yield Capped("launch.memory_gib", memory / 1024, estimated_mib / 1024)


def _longest(resources: Resources, limits: ClusterLimits | None) -> int | None:
    """Return the minutes that the most generous named partition allows; None: no limit."""
    if limits is None:
        return None
    if resources.partition is None:
        default = limits.default_partition
        return default.max_time_min if default else None
    names = resources.partition.split(",")
    times = [limits.partitions[name].max_time_min for name in names if name in limits.partitions]
    limited = [time for time in times if time is not None]
    return max(limited) if limited and len(limited) == len(times) else None


def cut(
    batches: Batches, sweep: Path, limits: ClusterLimits | None, number: Callable[[], int]
) -> list[tuple[Submission, Batch]]:
    """Cut batches into arrays that the cluster accepts, each with its batch.

    With `launch.max_parallel`, an array waits for the one before it, so that the throttle holds
    for the whole batch. `number` returns the number of each submission.

    Raises:
        InvalidValue: An array would have to wait for one of several jobs and for an array.
    """
    for batch in batches.batches:
        _refuse_any_of(batch, batch.array_size(limits))
    return [
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
        for batch in batches.batches
        for size in [max(1, batch.array_size(limits))]
        for start in range(0, len(batch.slots), size)
    ]


def _refuse_any_of(batch: Batch, size: int) -> None:
    """Refuse "any of these jobs" for several arrays: each adds "and after the one before"."""
    dependency = batch.resources.dependency or ""
    if "?" in dependency and len(batch.slots) > size and batch.launch.max_parallel is not None:
        raise InvalidValue(
            "cluster.dependency",
            f"contain no ? with launch.max_parallel if {len(batch.slots)} jobs need several "
            f"arrays of at most {size}, which wait for each other",
            dependency,
            "increase launch.points_per_job, or remove launch.max_parallel",
        )
