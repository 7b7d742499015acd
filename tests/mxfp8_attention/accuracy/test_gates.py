"""Verdicts: what each tolerance passes and fails, and by which bound."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from conf.schema import CalibratedTolerance, NoTolerance, SeedTolerance
from mxfp8_attention.accuracy.errors import TensorErrors
from mxfp8_attention.accuracy.gates import (
    BF16_ARM,
    BF16_REFERENCE,
    FP32_REFERENCE,
    NO_REFERENCE,
    RECIPE_ARM,
    STAGE_REFERENCE,
    Verdict,
    failures,
    judge,
)
from mxfp8_attention.accuracy.prediction import (
    Expected,
    Prediction,
    StagePrediction,
    TensorPrediction,
)

CLEAN = TensorErrors(
    rel_l2=0.10,
    worst_head_rel_l2=0.12,
    worst_head=3,
    max_abs=0.4,
    rmse=0.1,
    cosine=0.995,
    nonfinite_count=0,
    outside_share=0.0,
)
FP8, BF16 = Expected(0.10, 0.0, 0.12, 0.0), Expected(0.004, 0.0, 0.005, 0.0)
STAGE_FP8 = Expected(0.04, 0.01, 0.042, 0.02)
PREDICTION = Prediction(
    tensors={"attention": TensorPrediction(FP8, BF16, FP8)},
    stages={"attention": StagePrediction(STAGE_FP8, BF16)},
    seeds=[1, 2],
    source="stored",
    device="cpu",
)


def verdict(
    error: TensorErrors = CLEAN,
    arm: str = RECIPE_ARM,
    reference: str = FP32_REFERENCE,
    prediction: Prediction | None = PREDICTION,
    seed_deviations: float = 4.0,
) -> Verdict:
    """Judge the attention output under `calibrated`."""
    (result,) = judge(
        CalibratedTolerance(seed_deviations=seed_deviations),
        arm=arm,
        reference=reference,
        errors={"attention": error},
        prediction=prediction,
    )
    return result


def test_an_error_as_predicted_passes_with_its_bounds() -> None:
    result = verdict()
    assert result.passed is True
    assert result.low == pytest.approx(0.08)
    assert result.high == pytest.approx(0.125)
    assert result.predicted_rel_l2 == 0.10
    assert result.gate == "0.08 <= rel_l2 <= 0.125; 0.072 <= worst_head_rel_l2 <= 0.18"
    assert failures([result]) == []


@pytest.mark.parametrize(
    ("changes", "quantity", "bound", "below"),
    [
        ({"rel_l2": 0.126}, "rel_l2", 0.125, False),
        ({"rel_l2": 0.079}, "rel_l2", 0.08, True),
        ({"rel_l2": math.nan}, "rel_l2", 0.125, False),
        ({"rel_l2": math.inf}, "rel_l2", 0.125, False),
        ({"worst_head_rel_l2": 0.19}, "rel_l2 of head 3", 0.18, False),
        ({"worst_head_rel_l2": 0.01}, "rel_l2 of head 3", 0.072, True),
        ({"nonfinite_count": 2}, "NaN and infinite elements", 0, False),
    ],
)
def test_each_missed_bound_is_a_failure_of_its_own(
    changes: dict[str, float], quantity: str, bound: float, below: bool
) -> None:
    result = verdict(replace(CLEAN, **changes))  # type: ignore[arg-type]  # a field each
    assert result.passed is False
    (failure,) = result.failures
    assert (failure.quantity, failure.below) == (quantity, below)
    assert failure.bound == pytest.approx(bound)
    (actual,) = changes.values()
    assert failure.actual == pytest.approx(actual, nan_ok=True)


def test_a_failure_is_one_line_with_its_tensor_and_arm() -> None:
    result = verdict(replace(CLEAN, rel_l2=0.079, worst_head_rel_l2=0.19))
    assert failures([result]) == [
        "attention (recipe arm against fp32): rel_l2 must be at least 0.08, got 0.079: "
        "too close to FP32 for the requested precision",
        "attention (recipe arm against fp32): rel_l2 of head 3 must be at most 0.18, got 0.19",
    ]


def test_a_bf16_result_instead_of_fp8_misses_the_lower_bound() -> None:
    assert verdict(replace(CLEAN, rel_l2=0.004, worst_head_rel_l2=0.005)).passed is False


def test_the_bf16_arm_has_only_an_upper_bound() -> None:
    result = verdict(replace(CLEAN, rel_l2=0.004, worst_head_rel_l2=0.0), arm=BF16_ARM)
    assert (result.passed, result.low, result.high) == (True, None, 0.02)
    assert verdict(replace(CLEAN, rel_l2=0.021), arm=BF16_ARM).passed is False


def test_a_lower_bound_that_bf16_meets_is_not_set() -> None:
    near = replace(
        PREDICTION, tensors={"attention": TensorPrediction(FP8, replace(FP8, rel_l2=0.07), FP8)}
    )
    assert verdict(prediction=near).low is None
    assert verdict(replace(CLEAN, rel_l2=0.01), prediction=near).passed is True


def test_the_deviation_over_seeds_widens_both_bounds() -> None:
    wide = replace(FP8, deviation=0.05)
    prediction = replace(PREDICTION, tensors={"attention": TensorPrediction(wide, BF16, wide)})
    result = verdict(prediction=prediction, seed_deviations=4)
    assert result.low == pytest.approx(0.08 / 1.2)
    assert result.high == pytest.approx(0.125 * 1.2)
    assert verdict(prediction=prediction, seed_deviations=0).high == pytest.approx(0.125)


def test_a_stage_has_its_own_prediction_and_factors() -> None:
    error = replace(CLEAN, rel_l2=0.04, worst_head_rel_l2=0.042)
    result = verdict(error, reference=STAGE_REFERENCE)
    assert result.passed is True
    assert result.high == pytest.approx(0.04 * 1.15 * 1.04)
    assert result.low == pytest.approx(0.04 * 0.85 / 1.04)
    for rel_l2 in (0.0486, 0.032):
        assert verdict(replace(error, rel_l2=rel_l2), reference=STAGE_REFERENCE).passed is False


def test_calibrated_requires_only_finite_values_against_bf16() -> None:
    assert verdict(replace(CLEAN, rel_l2=9), reference=BF16_REFERENCE).passed is None
    broken = replace(CLEAN, nonfinite_count=1)
    assert verdict(broken, reference=BF16_REFERENCE).passed is False


def test_calibrated_without_a_prediction_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a prediction"):
        verdict(prediction=None)
    with pytest.raises(ValueError, match="no prediction for dx"):
        judge(
            CalibratedTolerance(),
            arm=RECIPE_ARM,
            reference=FP32_REFERENCE,
            errors={"dx": CLEAN},
            prediction=PREDICTION,
        )


def seed_verdict(
    error: TensorErrors, arm: str, reference: str, max_outside_share: float = 0.0
) -> Verdict:
    """Judge under `seed`."""
    tolerance = SeedTolerance(max_outside_share=max_outside_share)
    (result,) = judge(tolerance, arm=arm, reference=reference, errors={"out": error})
    return result


def test_seed_gates_only_the_recipe_against_bf16() -> None:
    some = replace(CLEAN, outside_share=1e-6)
    assert seed_verdict(CLEAN, RECIPE_ARM, BF16_REFERENCE).passed is True
    missed = seed_verdict(some, RECIPE_ARM, BF16_REFERENCE)
    assert missed.passed is False
    assert [failure.actual for failure in missed.failures] == [1e-6]
    assert seed_verdict(some, RECIPE_ARM, BF16_REFERENCE, max_outside_share=1e-5).passed is True
    assert seed_verdict(some, RECIPE_ARM, FP32_REFERENCE).passed is None
    assert seed_verdict(some, BF16_ARM, FP32_REFERENCE).passed is None


def test_seed_fails_without_a_share() -> None:
    unknown = replace(CLEAN, outside_share=None)
    assert seed_verdict(unknown, RECIPE_ARM, BF16_REFERENCE).passed is False


@pytest.mark.parametrize("reference", [FP32_REFERENCE, BF16_REFERENCE])
def test_none_fails_only_nan_and_infinity(reference: str) -> None:
    def passed(error: TensorErrors) -> bool | None:
        errors = {"out": error}
        (result,) = judge(NoTolerance(), arm=RECIPE_ARM, reference=reference, errors=errors)
        return result.passed

    assert passed(replace(CLEAN, rel_l2=100)) is None
    assert passed(replace(CLEAN, nonfinite_count=1)) is False


@pytest.mark.parametrize(("predicted", "measured"), [(math.inf, math.inf), (0.0, 0.0)])
def test_a_tensor_whose_reference_is_zero_cannot_be_gated(
    predicted: float, measured: float
) -> None:
    nothing = replace(
        CLEAN, rel_l2=measured, worst_head_rel_l2=measured, rmse=0.1, reference_is_zero=True
    )
    result = verdict(nothing, prediction=expecting(Expected(predicted)))
    assert (result.passed, result.failures) == (None, ())
    assert result.gate == NO_REFERENCE


def expecting(own: Expected) -> Prediction:
    """PREDICTION with another error of the recipe's arm."""
    return replace(PREDICTION, tensors={"attention": TensorPrediction(own, BF16, own)})


@pytest.mark.parametrize("predicted", [math.inf, math.nan])
def test_nan_fails_whatever_was_predicted(predicted: float) -> None:
    lost = replace(CLEAN, rel_l2=math.nan, worst_head_rel_l2=math.nan, nonfinite_count=1)
    assert verdict(lost, prediction=expecting(Expected(predicted))).passed is False


def test_a_zero_reference_that_was_not_predicted_fails() -> None:
    nothing = replace(CLEAN, rel_l2=math.inf, worst_head_rel_l2=math.inf, reference_is_zero=True)
    assert verdict(nothing).passed is False


def test_a_head_whose_reference_is_zero_is_not_gated_but_the_tensor_is() -> None:
    prediction = expecting(replace(FP8, worst_head_rel_l2=math.inf))
    result = verdict(replace(CLEAN, worst_head_rel_l2=math.inf), prediction=prediction)
    assert result.passed is True
    assert "worst_head_rel_l2 cannot be gated" in (result.gate or "")
    assert verdict(replace(CLEAN, rel_l2=0.3), prediction=prediction).passed is False
