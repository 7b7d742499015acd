"""Labels of points: two points with different configurations never share one."""

from __future__ import annotations

import itertools
import random
from xml.etree import ElementTree

from jobs.collect.junit import junit_text
from jobs.record import State
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult
from jobs.sweeps.labels import distinguish
from tests.builders.records import point_config


def collection(*configs: dict[str, object]) -> Collection:
    points = [
        PointResult(f"p-{number}", "s-1", config, State.PLANNED)
        for number, config in enumerate(configs)
    ]
    return Collection("s-1", points)


def both_projections() -> list[dict[str, object]]:
    return [point_config(shape__projection=name) for name in ("fused", "split")]


def test_a_key_that_varies_is_shown() -> None:
    assert distinguish(both_projections()) == ["projection=fused", "projection=split"]


def test_keys_of_every_name_and_what_follows_from_them_are_not_repeated() -> None:
    configs = [
        point_config("bf16"),
        point_config("mxfp8", shape__seq_len=8192),
        point_config("bf16", "cpu", "tiny"),
        point_config("mxfp8", "h200", "kimi_k2", shape__batch=2),
    ]
    assert distinguish(configs) == [""] * 4


def test_a_choice_of_another_group_is_shown_by_the_group_s_name() -> None:
    configs = [point_config(tolerance__name=name) for name in ("calibrated", "seed")]
    assert distinguish(configs) == ["tolerance=calibrated", "tolerance=seed"]


def test_values_that_most_points_have_are_not_shown() -> None:
    configs = [point_config(shape__seq_len=length) for length in (1024, 2048, 4096)]
    configs += [
        point_config(shape__rope_kernel="eager"),
        point_config(tolerance__name="none", backend="emulated"),
    ]
    last = ["rope_kernel=eager", "backend=emulated tolerance=none"]
    assert distinguish(configs) == ["", "", "", *last]


def test_a_number_is_the_same_as_integer_and_as_float() -> None:
    assert distinguish(
        [point_config(gpu__memory_gib=279), point_config(gpu__memory_gib=279.0)]
    ) == ["", ""]


def test_the_length_of_a_measurement_is_shown_only_if_nothing_else_differs() -> None:
    lengths = [
        point_config(shape__seq_len=length, benchmark__blocks=length) for length in (1024, 2048)
    ]
    assert distinguish(lengths) == ["", ""]
    blocks = [point_config(benchmark__blocks=count) for count in (5, 10)]
    assert distinguish(blocks) == ["blocks=5", "blocks=10"]
    every = [*lengths, *blocks, point_config(benchmark__blocks=5, shape__seed=1)]
    assert distinguish(every) == ["", "", "blocks=5", "blocks=10", "seed=1"]


def test_labels_differ_in_every_mixture() -> None:
    every = [
        point_config(
            recipe,
            gpu,
            shape__seq_len=length,
            shape__rope_kernel=kernel,
            benchmark__blocks=blocks,
            shape__seed=seed,
        )
        for recipe, gpu, length, kernel, blocks, seed in itertools.product(
            ("bf16", "fp8_current"),
            ("h200", "gb300"),
            (1024, 2048),
            ("auto", "eager"),
            (5, 10),
            (1, 2),
        )
    ]
    rng = random.Random(1)
    for _ in range(50):
        shown = rng.sample(every, rng.randint(2, len(every)))
        labels = {point.label for point in collection(*shown).points}
        assert len(labels) == len(shown)


def test_keys_with_the_same_last_word_are_shown_whole() -> None:
    configs = [point_config() | {"a": {"x": one}, "b": {"x": 3 - one}} for one in (1, 2)]
    assert distinguish(configs) == ["a.x=1 b.x=2", "a.x=2 b.x=1"]


def test_a_probe_and_a_lost_plan_get_no_text() -> None:
    configs = [
        point_config(shape__seed=1),
        point_config(shape__seed=2),
        point_config(job="probe"),
        {},
    ]
    assert distinguish(configs) == ["seed=1", "seed=2", "", ""]


def test_labels_and_junit_names_of_a_collection_differ() -> None:
    points = collection(*both_projections())
    labels = [point.label for point in points.points]
    assert [label.rpartition(" ")[2] for label in labels] == [
        "projection=fused",
        "projection=split",
    ]
    cases = ElementTree.fromstring(junit_text(points)).iter("testcase")
    assert [case.attrib["name"].split(" [")[0] for case in cases] == labels


def test_a_point_is_labelled_anew_beside_other_points() -> None:
    first = collection(*both_projections()).points[0]
    assert Collection("s-2", [first]).points[0].differences == ""
