"""Points that ask for the same go into one array, cut to what the cluster takes."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conf.choices import Backend, Job
from conf.plain import to_plain
from conf.schema import Benchmark, Gpu, MxFp8Recipe, NoTolerance, Point, Shape
from conf.site import Cluster, Launch, Request
from jobs.errors import InvalidConfig, InvalidValue
from jobs.schedulers.slurm.batches import Capped, cut, make_batches
from jobs.schedulers.slurm.estimate import job_time_min, memory_mib, point_time_s
from jobs.schedulers.slurm.limits import ClusterLimits, NodeKind, Partition
from jobs.sweeps.planned_point import PlannedPoint

TINY = Shape(name="tiny", seq_len=128, hidden=256, num_heads=4)
LIMITS = ClusterLimits(
    "lab",
    "24.11",
    max_array_size=4,
    max_job_count=100,
    partitions={
        "all": Partition(
            "all", True, True, 60, kinds=(NodeKind(4, 64, 64_000, {"gpu:gb300": 4}, (), "idle"),)
        )
    },
)


def point(seq_len: int = 128, gpu: str = "cpu", **changes: Any) -> Point:  # noqa: ANN401 - any field
    device = "cpu" if gpu == "cpu" else "cuda"
    made = Point(
        gpu=Gpu(name=gpu, device=device),
        shape=replace(TINY, seq_len=seq_len),
        recipe=MxFp8Recipe(),
        backend=Backend.emulated,
        tolerance=NoTolerance(),
        benchmark=Benchmark(name="default"),
    )
    return replace(made, **changes)


def planned(points: list[Point], cluster: Cluster, launch: Launch) -> list[PlannedPoint]:
    site = {"cluster": to_plain(cluster), "launch": to_plain(launch)}
    return [
        PlannedPoint(point_id=f"p-{i}", index=i, config=to_plain(one), site=site)
        for i, one in enumerate(points)
    ]


SITE = Cluster(name="lab", requests={"gb300": Request(gres="gpu:gb300:1")})


def keys(error: InvalidConfig) -> list[str]:
    return [one.key for one in error.problems if isinstance(one, InvalidValue)]


def test_one_batch_for_each_request_in_the_plans_order() -> None:
    points = [point(gpu="cpu"), point(gpu="gb300"), point(256, gpu="cpu"), point(256, gpu="gb300")]
    made = make_batches(planned(points, SITE, Launch(name="d")), LIMITS)
    assert [one.slots for one in made.batches] == [(("p-0",), ("p-2",)), (("p-1",), ("p-3",))]
    assert [one.resources.gres for one in made.batches] == [None, "gpu:gb300:1"]
    assert made.jobs == 4


def test_slots_hold_points_in_their_order() -> None:
    points = planned([point(128 * i) for i in range(1, 8)], SITE, Launch("d", points_per_job=3))
    (batch,) = make_batches(points, LIMITS).batches
    assert batch.slots == (("p-0", "p-1", "p-2"), ("p-3", "p-4", "p-5"), ("p-6",))


def test_arrays_are_cut_to_the_cluster_and_throttled_as_a_whole() -> None:
    points = planned([point(128 * i) for i in range(1, 11)], SITE, Launch("d", max_parallel=2))
    batches = make_batches(points, LIMITS)
    made = [one for one, _ in cut(batches, Path("/s"), LIMITS, itertools.count().__next__)]
    assert [len(one.tasks) for one in made] == [4, 4, 2]
    assert [one.number for one in made] == [0, 1, 2]
    assert [one.waits for one in made] == [False, True, True]
    free = replace(batches, batches=(replace(batches.batches[0], launch=Launch("d")),))
    assert not any(
        one.waits for one, _ in cut(free, Path("/s"), LIMITS, itertools.count().__next__)
    )
    (whole,) = cut(batches, Path("/s"), None, itertools.count().__next__)
    assert len(whole[0].tasks) == 10


def test_too_many_jobs_are_refused() -> None:
    points = planned([point(128 * i) for i in range(1, 102)], SITE, Launch("d"))
    with pytest.raises(InvalidConfig) as caught:
        make_batches(points, LIMITS)
    assert keys(caught.value) == ["launch.points_per_job"]


def test_the_time_follows_from_the_points_unless_given() -> None:
    one = planned([point()], SITE, Launch("d"))
    eight = planned([point(128 * i) for i in range(1, 9)], SITE, Launch("d", points_per_job=8))
    (short,), (long,) = make_batches(one, None).batches, make_batches(eight, None).batches
    assert 0 < short.time_min < long.time_min
    (given,) = make_batches(planned([point()], SITE, Launch("d", time_min=7)), None).batches
    assert given.time_min == 7
    limited = Launch("d", point_time_limit_s=600, points_per_job=2)
    (each,) = make_batches(planned([point(), point(256)], SITE, limited), None).batches
    assert each.time_min == 22


def test_an_estimate_of_time_is_cut_to_the_partition() -> None:
    points = planned([point(128 * i) for i in range(1, 90)], SITE, Launch("d", points_per_job=99))
    made = make_batches(points, LIMITS)
    assert made.batches[0].time_min == 60
    (capped,) = made.capped
    estimated = make_batches(points, None).batches[0].time_min
    assert (capped.key, capped.most, capped.estimated) == ("launch.time_min", 60, estimated)
    assert "launch.points_per_job" in capped.remedy
    assert (made.notes, made.warnings) == ([], [str(capped)])


@pytest.mark.parametrize(("limit_s", "far"), [(3480, False), (3540, False), (7080, True)])
def test_an_estimate_far_over_the_limit_is_a_warning(limit_s: int, far: bool) -> None:
    made = make_batches(planned([point()], SITE, Launch("d", point_time_limit_s=limit_s)), LIMITS)
    assert bool(made.warnings) == far
    assert bool(made.notes) == (limit_s == 3540)


def test_an_estimate_of_memory_is_reduced_to_the_partition() -> None:
    kind = NodeKind(4, 64, 1024, {}, (), "idle")
    small = replace(LIMITS, partitions={"all": Partition("all", True, True, kinds=(kind,))})
    huge = planned([point(65536)], SITE, Launch("d"))
    made = make_batches(huge, small)
    assert made.batches[0].resources.memory_mib == 1024
    estimated = memory_mib(point(65536)) / 1024
    assert made.capped == (Capped("launch.memory_gib", 1.0, estimated),)
    assert len(made.warnings) == 1
    given = make_batches(planned([point(65536)], SITE, Launch("d", memory_gib=1)), small)
    by_cpu = replace(SITE, sbatch={"mem-per-cpu": "1G"})
    other = make_batches(planned([point(65536)], by_cpu, Launch("d")), small)
    assert given.capped == other.capped == ()


def test_more_work_is_expected_to_take_longer_and_more_memory() -> None:
    assert point_time_s(point(128)) < point_time_s(point(8192))
    assert point_time_s(point(job=Job.probe)) < point_time_s(point())
    assert memory_mib(point(128)) < memory_mib(point(65536))
    assert job_time_min([point()]) < job_time_min([point(), point()])


def test_arrays_that_wait_for_each_other_take_no_dependency_on_any_of_several() -> None:
    site = replace(SITE, dependency="afterok:1?afterok:2")
    points = planned([point(128 * i) for i in range(1, 4)], site, Launch("d", max_parallel=1))
    batches = make_batches(points, None)
    number = itertools.count().__next__
    with pytest.raises(InvalidValue) as any_of:
        cut(batches, Path("/s"), replace(LIMITS, max_array_size=2), number)
    assert len(cut(batches, Path("/s"), replace(LIMITS, max_array_size=3), number)) == 1
    free = make_batches(planned([point(128 * i) for i in range(1, 4)], site, Launch("d")), None)
    assert len(cut(free, Path("/s"), replace(LIMITS, max_array_size=2), number)) == 2
    mixed = replace(SITE, dependency="afterok:1?afterok:2,afterok:3")
    with pytest.raises(InvalidConfig) as both:
        make_batches(planned([point()], mixed, Launch("d")), None)
    assert [any_of.value.key, *keys(both.value)] == ["cluster.dependency"] * 2
