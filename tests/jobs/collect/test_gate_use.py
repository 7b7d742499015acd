"""Nearness to a gate: 0 in the middle, 1 at either edge, more outside, for every kind of gate."""

from __future__ import annotations

import math

import pytest

from jobs.collect.gate_use import MOST, gate_uses, nearest
from jobs.record import TensorError, Validation
from tests.builders.records import point_config, validation


def judged(tolerance: str = "calibrated", **values: object) -> Validation:
    about = {
        "tensor": "dx",
        "reference": "fp32",
        "arm": "recipe",
        "rel_l2": 0.2,
        "max_abs": 1.0,
        "rmse": 0.1,
        "cosine": 0.98,
        "nonfinite_count": 0,
        "passed": True,
    }
    error = TensorError.model_validate(about | values)
    return Validation(tolerance=tolerance, tensors=[error])


@pytest.mark.parametrize(
    ("rel_l2", "position", "use"),
    [(0.1, 0, 1), (0.4, 1, 1), (0.2, 0.5, 0), (0.8, 1.5, 2), (0.05, -0.5, 2), (0, -MOST, MOST)],
)
def test_a_gate_is_measured_from_its_middle(rel_l2: float, position: float, use: float) -> None:
    (found,) = gate_uses(judged(rel_l2=rel_l2, gate_low=0.1, gate_high=0.4))
    assert found.position == pytest.approx(position)
    assert found.use == pytest.approx(use)


def test_a_gate_without_a_lower_edge_is_measured_from_nothing() -> None:
    (found,) = gate_uses(judged(rel_l2=0.1, gate_high=0.4))
    assert found.use == found.position == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("share", "high", "use"), [(0.0, 0.0, 0), (0.1, 0.0, MOST), (0.1, 0.2, 0.5)]
)
def test_the_seed_gate_bounds_the_share_outside(share: float, high: float, use: float) -> None:
    (found,) = gate_uses(judged("seed", outside_share=share, gate_high=high))
    assert found.quantity == "share outside against FP32"
    assert found.use == pytest.approx(use)


def test_a_value_that_is_no_number_is_as_far_out_as_can_be() -> None:
    (found,) = gate_uses(judged(rel_l2=math.nan, gate_high=0.4, passed=False))
    assert found.use == MOST


def test_what_is_not_gated_has_no_use() -> None:
    assert nearest(judged(gate_high=None)) is None
    assert nearest(judged(gate_high=0.4, passed=None)) is None


@pytest.mark.parametrize(
    ("reference", "name", "against"),
    [
        ("fp32", "dx", "FP32"),
        ("bf16", "dx, against BF16", "BF16"),
        ("stage", "dx, stage", "FP32 of the same inputs"),
    ],
)
def test_a_use_says_against_what_it_is(reference: str, name: str, against: str) -> None:
    (found,) = gate_uses(judged(reference=reference, gate_high=0.4))
    assert (found.name, found.quantity) == (name, f"relative L2 against {against}")
    (found,) = gate_uses(judged(reference=reference, arm="bf16", gate_high=0.4))
    assert found.name == f"{name} (bf16)"
    (found,) = gate_uses(judged("seed", reference=reference, outside_share=0.1, gate_high=0.4))
    assert found.quantity == f"share outside against {against}"


def test_the_nearest_tensor_is_the_one_that_misses() -> None:
    found = nearest(validation(point_config(), broken="dx"))
    assert found is not None
    assert found.name == "dx"
    assert found.use > 1
