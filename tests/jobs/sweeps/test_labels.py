"""Names of points: two points asked differently are never named the same."""

from __future__ import annotations

import itertools
import random
from xml.etree import ElementTree

from jobs.collect.junit import junit_text
from jobs.record import State
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult
from jobs.sweeps.labels import distinguish
from tests.builders.records import asked


def points(*configs: dict[str, object]) -> list[PointResult]:
    return [
        PointResult(f"p-{number}", "s-1", config, State.PLANNED)
        for number, config in enumerate(configs)
    ]


def test_a_key_that_varies_is_told_with_each_point() -> None:
    configs = [asked(shape__projection=name) for name in ("fused", "split")]
    assert distinguish(configs) == ["projection=fused", "projection=split"]


def test_what_every_name_says_and_what_follows_from_it_is_not_repeated() -> None:
    configs = [
        asked("bf16"),
        asked("mxfp8", shape__seq_len=8192),
        asked("bf16", "cpu", "tiny"),
        asked("mxfp8", "h200", "kimi_k2", shape__batch=2),
    ]
    assert distinguish(configs) == [""] * 4


def test_a_choice_of_another_group_is_told_by_the_groups_name() -> None:
    configs = [asked(tolerance__name=name) for name in ("calibrated", "seed")]
    assert distinguish(configs) == ["tolerance=calibrated", "tolerance=seed"]


def test_what_most_points_have_is_not_said() -> None:
    configs = [asked(shape__seq_len=length) for length in (1024, 2048, 4096)]
    configs += [
        asked(shape__rope_kernel="eager"),
        asked(tolerance__name="none", backend="emulated"),
    ]
    assert distinguish(configs) == [
        *("", "", ""),
        "rope_kernel=eager",
        "backend=emulated tolerance=none",
    ]


def test_a_number_is_the_same_with_and_without_its_point() -> None:
    assert distinguish([asked(gpu__memory_gib=279), asked(gpu__memory_gib=279.0)]) == ["", ""]


def test_how_long_was_measured_is_said_only_where_nothing_else_tells_two_apart() -> None:
    lengths = [asked(shape__seq_len=length, benchmark__blocks=length) for length in (1024, 2048)]
    assert distinguish(lengths) == ["", ""]
    blocks = [asked(benchmark__blocks=count) for count in (5, 10)]
    assert distinguish(blocks) == ["blocks=5", "blocks=10"]
    assert distinguish([*lengths, *blocks, asked(benchmark__blocks=5, shape__seed=1)]) == [
        *("", ""),
        *("blocks=5", "blocks=10"),
        "seed=1",
    ]


def test_names_stay_apart_in_every_mixture() -> None:
    """A grid of everything: no two points share name and words, whichever of them are shown."""
    grid = itertools.product(
        ("bf16", "fp8_current"),
        ("h200", "gb300"),
        (1024, 2048),
        ("auto", "eager"),
        (5, 10),
        (1, 2),
    )
    every = [
        asked(
            recipe,
            gpu,
            shape__seq_len=length,
            shape__rope_kernel=kernel,
            benchmark__blocks=blocks,
            shape__seed=seed,
        )
        for recipe, gpu, length, kernel, blocks, seed in grid
    ]
    rng = random.Random(1)
    for _ in range(50):
        shown = rng.sample(every, rng.randint(2, len(every)))
        labels = [point.label for point in Collection("s-1", points(*shown)).points]
        assert len(set(labels)) == len(shown)


def test_keys_that_end_alike_are_told_whole() -> None:
    configs = [asked() | {"a": {"x": one}, "b": {"x": 3 - one}} for one in (1, 2)]
    assert distinguish(configs) == ["a.x=1 b.x=2", "a.x=2 b.x=1"]


def test_a_probe_and_a_lost_plan_get_no_words() -> None:
    configs = [asked(shape__seed=1), asked(shape__seed=2), asked(job="probe"), {}]
    assert distinguish(configs) == ["seed=1", "seed=2", "", ""]


def test_labels_and_junit_names_of_a_collection_differ() -> None:
    configs = [asked(shape__projection=name) for name in ("fused", "split")]
    collection = Collection("s-1", points(*configs))
    labels = [point.label for point in collection.points]
    assert labels[0].endswith("projection=fused")
    assert labels[1].endswith("projection=split")
    cases = ElementTree.fromstring(junit_text(collection)).iter("testcase")
    assert [case.attrib["name"].split(" [")[0] for case in cases] == labels


def test_a_point_is_named_anew_beside_other_points() -> None:
    configs = [asked(shape__projection=name) for name in ("fused", "split")]
    first = Collection("s-1", points(*configs)).points[0]
    assert Collection("s-2", [first]).points[0].apart == ""
