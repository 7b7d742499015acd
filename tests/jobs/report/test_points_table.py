"""Every row of the points table has a unique name and is where a reader looks for it."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

from jobs.collect.records_file import load_records
from jobs.record import State
from jobs.report.entry import Entry
from jobs.report.points_table import build_table
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult
from tests.builders.records import point_config

H200 = Path(__file__).parents[3] / "docs" / "results" / "h200.jsonl"


def names(*configs: dict[str, object]) -> list[str]:
    """What the rows are called, from the first row down."""
    points = [PointResult(f"p-{n}", "s", one, State.PENDING) for n, one in enumerate(configs)]
    return names_of(Collection("s", points))


def names_of(collection: Collection) -> list[str]:
    _, rows = build_table([Entry.of(point) for point in collection.points])
    return [row.cells[0].text for row in rows]


def test_every_row_of_the_committed_records_has_a_name_of_its_own_and_its_place() -> None:
    collection = load_records(H200)
    all_names = names_of(collection)
    assert len(set(all_names)) == len(all_names) == len(collection.points)
    layers = [name.split()[:3] for name in all_names if not name.startswith("probe")]
    places = [(shape, int(length.removeprefix("s=")), recipe) for shape, length, recipe in layers]
    assert places == sorted(places)
    assert ("dsv3", 16384, "fp8_current") in places
    assert "dsv3 s=4096 bf16 rope_kernel=eager tolerance=none" in all_names
    assert "dsv3 s=4096 mxfp8 backend=emulated benchmark=quick" in all_names
    assert all_names[-2:] == ["probe run 1", "probe run 2"]


def test_what_all_points_share_is_in_no_name() -> None:
    assert names(point_config()) == ["dsv3"]
    assert names(point_config("mxfp8"), point_config("bf16")) == ["dsv3 bf16", "dsv3 mxfp8"]
    assert names(point_config(gpu="h200"), point_config(gpu="gb300")) == [
        "dsv3 gb300",
        "dsv3 h200",
    ]
    assert names(point_config(shape__batch=2), point_config()) == ["dsv3", "dsv3 b=2"]


def test_a_probe_and_a_lost_plan_stand_last() -> None:
    assert names(point_config(job="probe"), {}, point_config()) == ["dsv3", "probe", "p-1"]
    probes = [point_config(gpu=gpu, job="probe") for gpu in ("h200", "gb300")]
    assert names(*probes) == ["probe gb300", "probe h200"]


def test_rows_of_any_mixture_have_names_of_their_own() -> None:
    grid = itertools.product(
        ("bf16", "mxfp8"),
        ("h200", "gb300"),
        ("dsv3", "kimi_k2"),
        (512, 1024, 16384),
        ("fused", "split"),
        ("auto", "eager"),
    )
    every = [
        point_config(recipe, gpu, shape, shape__seq_len=length, shape__projection=projection)
        | {"backend": backend}
        for recipe, gpu, shape, length, projection, backend in grid
    ]
    rng = random.Random(4)
    for _ in range(20):
        shown = rng.sample(every, rng.randint(2, len(every)))
        assert len(set(names(*shown))) == len(shown)


def test_what_else_differs_sorts_by_its_number() -> None:
    seeds = [point_config(shape__seed=seed) for seed in (100, 9, 20)]
    assert names(*seeds) == ["dsv3 seed=9", "dsv3 seed=20", "dsv3 seed=100"]


def test_the_name_sorts_as_the_rows_stand() -> None:
    points = [
        PointResult(f"p-{length}", "s", point_config(shape__seq_len=length), State.PENDING)
        for length in (16384, 512, 4096)
    ]
    _, rows = build_table([Entry.of(point) for point in points])
    assert [row.point.point_id for row in rows] == ["p-512", "p-4096", "p-16384"]
    keys = [str(row.cells[0].key) for row in rows]
    assert keys == sorted(keys)
