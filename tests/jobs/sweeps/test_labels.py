"""Labels of points: two points with different configurations never share one."""

from __future__ import annotations

import itertools
import random
from xml.etree import ElementTree

import pytest

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


LENGTHS = [point_config(shape__seq_len=n, benchmark__blocks=n) for n in (1024, 2048)]
BLOCKS = [point_config(benchmark__blocks=count) for count in (5, 10)]
PROJECTIONS = [point_config(shape__projection=name) for name in ("fused", "split")]
MOSTLY_EQUAL = [
    *(point_config(shape__seq_len=length) for length in (1024, 2048, 4096)),
    point_config(shape__rope_kernel="eager"),
    point_config(tolerance__name="none", backend="emulated"),
]
ALWAYS_NAMED = [
    point_config("bf16"),
    point_config("mxfp8", shape__seq_len=8192),
    point_config("bf16", "cpu", "tiny"),
    point_config("mxfp8", "h200", "kimi_k2", shape__batch=2),
]


@pytest.mark.parametrize(
    ("configs", "labels"),
    [
        pytest.param(
            PROJECTIONS, ["projection=fused", "projection=split"], id="a key that varies"
        ),
        pytest.param(ALWAYS_NAMED, [""] * 4, id="keys of every name, and what follows from them"),
        pytest.param(
            [point_config(tolerance__name=name) for name in ("calibrated", "seed")],
            ["tolerance=calibrated", "tolerance=seed"],
            id="a choice has its group's name",
        ),
        pytest.param(
            MOSTLY_EQUAL,
            ["", "", "", "rope_kernel=eager", "backend=emulated tolerance=none"],
            id="values that most points have",
        ),
        pytest.param(
            [point_config(gpu__memory_gib=279), point_config(gpu__memory_gib=279.0)],
            ["", ""],
            id="an integer and an equal float",
        ),
        pytest.param(LENGTHS, ["", ""], id="the length of a measurement follows another key"),
        pytest.param(BLOCKS, ["blocks=5", "blocks=10"], id="the length of a measurement alone"),
        pytest.param(
            [*LENGTHS, *BLOCKS, point_config(benchmark__blocks=5, shape__seed=1)],
            ["", "", "blocks=5", "blocks=10", "seed=1"],
            id="the length of some measurements",
        ),
        pytest.param(
            [point_config() | {"a": {"x": n}, "b": {"x": 3 - n}} for n in (1, 2)],
            ["a.x=1 b.x=2", "a.x=2 b.x=1"],
            id="keys with the same last word",
        ),
        pytest.param(
            [*(point_config(shape__seed=n) for n in (1, 2)), point_config(job="probe"), {}],
            ["seed=1", "seed=2", "", ""],
            id="a probe and a lost plan",
        ),
    ],
)
def test_a_label_shows_what_differs(configs: list[dict[str, object]], labels: list[str]) -> None:
    assert distinguish(configs) == labels


def test_labels_differ_in_every_mixture() -> None:
    axes = (("bf16", "fp8_current"), ("h200", "gb300"), (1024, 2048), ("auto", "eager"), (5, 10))
    keys = ("shape__seq_len", "shape__rope_kernel", "benchmark__blocks", "shape__seed")
    every = [
        point_config(recipe, gpu, "dsv3", **dict(zip(keys, values, strict=True)))
        for recipe, gpu, *values in itertools.product(*axes, (1, 2))
    ]
    rng = random.Random(1)
    for _ in range(50):
        shown = rng.sample(every, rng.randint(2, len(every)))
        labels = {point.label for point in collection(*shown).points}
        assert len(labels) == len(shown)


def test_labels_and_junit_names_of_a_collection_differ() -> None:
    points = collection(*PROJECTIONS)
    labels = [point.label for point in points.points]
    assert [label.split()[-1] for label in labels] == ["projection=fused", "projection=split"]
    cases = ElementTree.fromstring(junit_text(points)).iter("testcase")
    assert [case.attrib["name"].split(" [")[0] for case in cases] == labels


def test_a_point_is_labelled_anew_beside_other_points() -> None:
    first = collection(*PROJECTIONS).points[0]
    assert Collection("s-2", [first]).points[0].differences == ""
