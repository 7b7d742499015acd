"""From errors to verdicts: apply a tolerance to every tensor of an arm.

calibrated  both arms against FP32: relative L2, of the tensor and of its worst head, between
            factors of the prediction. The lower bound proves that FP8 ran; it is set only
            if BF16 itself would miss it.
seed        the recipe's arm against the BF16 arm, element by element
none        only NaN and infinity, which fail under every tolerance
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from conf.schema import CalibratedTolerance, SeedTolerance, Tolerance
from mxfp8_attention.accuracy.errors import TensorErrors
from mxfp8_attention.accuracy.prediction import Expected, Prediction

RECIPE_ARM = "recipe"
BF16_ARM = "bf16"
FP32_REFERENCE = "fp32"
BF16_REFERENCE = "bf16"
STAGE_REFERENCE = "stage"
NO_REFERENCE = "cannot be gated: the FP32 reference is all zero"


@dataclass(frozen=True)
class Failure:
    """A bound that an error misses; `str` gives the sentence.

    Attributes:
        quantity: The error that is bounded.
        bound: The bound.
        actual: The value.
        below: True if the value is below a lower bound.
    """

    quantity: str
    bound: float
    actual: float
    below: bool = False

    def __str__(self) -> str:
        if not self.below:
            return f"{self.quantity} must be at most {self.bound:.3g}, got {self.actual:.3g}"
        return (
            f"{self.quantity} must be at least {self.bound:.3g}, got {self.actual:.3g}: "
            "too close to FP32 for the requested precision"
        )


@dataclass(frozen=True)
class Verdict:
    """Result of one tolerance for one tensor of one arm against one reference.

    Attributes:
        tensor: Its name.
        arm: recipe or bf16.
        reference: fp32, bf16 or stage.
        gate: The rule with its numbers; None if nothing is gated.
        low: Lower bound of the relative L2, None if there is none.
        high: Upper bound: of the relative L2 under calibrated, of the share outside under seed.
        predicted_rel_l2: The predicted error, None without a prediction.
        passed: None if not gated; `gate` names the reason if it could not be.
        failures: The bounds that were missed.
    """

    tensor: str
    arm: str
    reference: str
    gate: str | None = None
    low: float | None = None
    high: float | None = None
    predicted_rel_l2: float | None = None
    passed: bool | None = None
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True)
class Bounds:
    """The interval that an error must lie in; `low` is None if it is open below."""

    low: float | None
    high: float

    def rule(self, quantity: str) -> str:
        """Return the interval as an inequality."""
        low = "" if self.low is None else f"{self.low:.3g} <= "
        return f"{low}{quantity} <= {self.high:.3g}"

    def failure(self, quantity: str, value: float) -> Failure | None:
        """Return the bound that a value misses, None if it lies inside; NaN lies outside."""
        if not value <= self.high:
            return Failure(quantity, self.high, value)
        if self.low is not None and value < self.low:
            return Failure(quantity, self.low, value, below=True)
        return None


def judge(
    tolerance: Tolerance,
    *,
    arm: str,
    reference: str,
    errors: Mapping[str, TensorErrors],
    prediction: Prediction | None = None,
) -> list[Verdict]:
    """Apply a tolerance to every tensor of one arm against one reference.

    Args:
        tolerance: The rule.
        arm: recipe or bf16.
        reference: fp32, bf16, or stage for the result of `stage_errors`.
        errors: Errors by tensor.
        prediction: Predicted errors; only `calibrated` needs them.

    Returns:
        One verdict for each tensor, in the order of `errors`.

    Raises:
        ValueError: `calibrated` lacks the prediction of a tensor.
    """
    return [
        _verdict(tolerance, name, arm, reference, error, prediction)
        for name, error in errors.items()
    ]


def failures(verdicts: list[Verdict]) -> list[str]:
    """Return one line for each missed bound, with its tensor and arm."""
    return [
        f"{verdict.tensor} ({verdict.arm} arm against {verdict.reference}): {failure}"
        for verdict in verdicts
        for failure in verdict.failures
    ]


def calibrated_bounds(
    tolerance: CalibratedTolerance, own: Expected, bf16: Expected, reference: str
) -> tuple[Bounds, Bounds | None]:
    """Return the bounds of a tensor, and those of its worst head if it has heads.

    Args:
        tolerance: The factors.
        own: Predicted errors of the arm.
        bf16: Predicted errors of the BF16 arm.
        reference: fp32 or stage.
    """
    if reference == STAGE_REFERENCE:
        factors = head_factors = (tolerance.stage_lower_factor, tolerance.stage_upper_factor)
    else:
        factors = (tolerance.lower_factor, tolerance.upper_factor)
        head_factors = (tolerance.worst_head_lower_factor, tolerance.worst_head_upper_factor)
    floor = tolerance.bf16_rel_l2

    def bounds(
        error: float, deviation: float, bf16_error: float, lower: float, upper: float
    ) -> Bounds:
        seeds = 1 + tolerance.seed_deviations * deviation
        if error <= floor:
            return Bounds(None, max(floor, error * upper * seeds))
        low = error * lower / seeds
        # A bound that BF16 meets as well proves nothing.
        return Bounds(low if low > bf16_error * upper else None, error * upper * seeds)

    whole = bounds(own.rel_l2, own.deviation, bf16.rel_l2, *factors)
    if own.worst_head_rel_l2 is None:
        return whole, None
    bf16_head = math.inf if bf16.worst_head_rel_l2 is None else bf16.worst_head_rel_l2
    return whole, bounds(own.worst_head_rel_l2, own.worst_head_deviation, bf16_head, *head_factors)


def _expected(
    prediction: Prediction | None, tensor: str, arm: str, reference: str
) -> tuple[Expected, Expected]:
    """Return the predicted errors of the arm and of the BF16 arm."""
    if prediction is None:
        raise ValueError("tolerance=calibrated needs a prediction")
    tensors = prediction.stages if reference == STAGE_REFERENCE else prediction.tensors
    if tensor not in tensors:
        raise ValueError(f"no prediction for {tensor}; predicted: {', '.join(tensors)}")
    row = tensors[tensor]
    return (row.recipe if arm == RECIPE_ARM else row.bf16), row.bf16


def _has_no_reference(own: Expected, error: TensorErrors) -> bool:
    """Return True if a zero reference was predicted and found: no relative error exists.

    A zero reference that was not predicted fails.
    """
    return own.rel_l2 == math.inf or (own.rel_l2 == 0 and error.reference_is_zero)


def _verdict(
    tolerance: Tolerance,
    tensor: str,
    arm: str,
    reference: str,
    error: TensorErrors,
    prediction: Prediction | None,
) -> Verdict:
    missed: list[Failure | None] = []
    gates: list[str] = []
    low = high = predicted = None
    if isinstance(tolerance, CalibratedTolerance) and reference != BF16_REFERENCE:
        own, bf16 = _expected(prediction, tensor, arm, reference)
        if not error.nonfinite_count and _has_no_reference(own, error):
            return Verdict(tensor, arm, reference, gate=NO_REFERENCE, predicted_rel_l2=own.rel_l2)
        whole, head = calibrated_bounds(tolerance, own, bf16, reference)
        low, high, predicted = whole.low, whole.high, own.rel_l2
        gates.append(whole.rule("rel_l2"))
        missed.append(whole.failure("rel_l2", error.rel_l2))
        if own.worst_head_rel_l2 == math.inf:
            gates.append("worst_head_rel_l2 cannot be gated: a head's FP32 reference is all zero")
        elif head is not None and error.worst_head_rel_l2 is not None:
            gates.append(head.rule("worst_head_rel_l2"))
            missed.append(
                head.failure(f"rel_l2 of head {error.worst_head}", error.worst_head_rel_l2)
            )
    elif isinstance(tolerance, SeedTolerance) and (arm, reference) == (RECIPE_ARM, BF16_REFERENCE):
        high = tolerance.max_outside_share
        quantity = f"share outside |x - bf16| <= {tolerance.atol:g} + {tolerance.rtol:g} |bf16|"
        gates.append(f"{quantity} at most {high:g}")
        share = math.nan if error.outside_share is None else error.outside_share
        missed.append(Bounds(None, high).failure(quantity, share))
    if error.nonfinite_count:
        gates.append("no NaN or infinity")
        missed.append(Failure("NaN and infinite elements", 0, error.nonfinite_count))
    failed = tuple(failure for failure in missed if failure is not None)
    return Verdict(
        tensor=tensor,
        arm=arm,
        reference=reference,
        gate="; ".join(gates) or None,
        low=low,
        high=high,
        predicted_rel_l2=predicted,
        passed=not failed if gates else None,
        failures=failed,
    )
