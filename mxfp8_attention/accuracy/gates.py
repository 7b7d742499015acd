"""From errors to verdicts: what a tolerance makes of one tensor of one arm.

calibrated  both arms against FP32: relative L2, of the tensor and of its worst head, between
            factors of the prediction. The lower bound proves that FP8 ran; it is set only
            where BF16 itself would miss it.
seed        the recipe's arm against the BF16 arm, element by element
none        nothing but NaN and infinity, which fail under every tolerance
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
class Verdict:
    """What a tolerance says of one tensor of one arm against one reference.

    Attributes:
        tensor: Its name.
        arm: recipe or bf16.
        reference: fp32, bf16 or stage.
        gate: The rule in words and numbers; None: nothing is decided here.
        low: Lower bound of the relative L2, None where there is none.
        high: Upper bound: of the relative L2 under calibrated, of the share outside under seed.
        predicted_rel_l2: What was expected, None where nothing was.
        passed: None: not gated; the gate says why where it could not be.
        failures: One line for each bound that was missed.
    """

    tensor: str
    arm: str
    reference: str
    gate: str | None = None
    low: float | None = None
    high: float | None = None
    predicted_rel_l2: float | None = None
    passed: bool | None = None
    failures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bounds:
    """An interval that an error must lie in; None: open."""

    low: float | None
    high: float

    def __str__(self) -> str:
        low = "" if self.low is None else f"{self.low:.3g} <= "
        return f"{low}%s <= {self.high:.3g}"

    def complaint(self, what: str, value: float) -> str | None:
        """Why the value lies outside, None if it does not; NaN lies outside."""
        if not value <= self.high:
            return f"{what} must be at most {self.high:.3g}, got {value:.3g}"
        if self.low is not None and value < self.low:
            return (
                f"{what} must be at least {self.low:.3g}, got {value:.3g}: "
                "too close to FP32 for the precision that was asked for"
            )
        return None


def judge(
    tolerance: Tolerance,
    *,
    arm: str,
    reference: str,
    errors: Mapping[str, TensorErrors],
    prediction: Prediction | None = None,
) -> list[Verdict]:
    """Judge every tensor of one arm against one reference.

    Args:
        tolerance: The rule.
        arm: recipe or bf16.
        reference: fp32, bf16, or stage for what `stage_errors` returns.
        errors: By tensor.
        prediction: What `calibrated` needs.

    Returns:
        One verdict for each tensor, in the order of `errors`.

    Raises:
        ValueError: `calibrated` without a prediction of a tensor.
    """
    return [
        _verdict(tolerance, name, arm, reference, error, prediction)
        for name, error in errors.items()
    ]


def failures(verdicts: list[Verdict]) -> list[str]:
    """One line for each missed bound, with the tensor and the arm."""
    return [
        f"{verdict.tensor} ({verdict.arm} arm against {verdict.reference}): {line}"
        for verdict in verdicts
        for line in verdict.failures
    ]


def calibrated_bounds(
    tolerance: CalibratedTolerance, own: Expected, bf16: Expected, reference: str
) -> tuple[Bounds, Bounds | None]:
    """The bounds of a tensor and of its worst head.

    Args:
        tolerance: The factors.
        own: What the arm's error should be.
        bf16: What the BF16 arm's should be.
        reference: fp32 or stage.

    Returns:
        Bounds of the relative L2 of the tensor, and of its worst head where it has heads.
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
        # A bound that BF16 passes as well proves nothing.
        return Bounds(low if low > bf16_error * upper else None, error * upper * seeds)

    whole = bounds(own.rel_l2, own.deviation, bf16.rel_l2, *factors)
    if own.worst_head_rel_l2 is None:
        return whole, None
    bf16_head = math.inf if bf16.worst_head_rel_l2 is None else bf16.worst_head_rel_l2
    return whole, bounds(own.worst_head_rel_l2, own.worst_head_deviation, bf16_head, *head_factors)


def _expected(
    prediction: Prediction | None, tensor: str, arm: str, reference: str
) -> tuple[Expected, Expected]:
    """What the arm's error and the BF16 arm's should be."""
    if prediction is None:
        raise ValueError("tolerance=calibrated must have a prediction, got none")
    tensors = prediction.stages if reference == STAGE_REFERENCE else prediction.tensors
    if tensor not in tensors:
        known = ", ".join(tensors)
        raise ValueError(f"tensor must be one that is predicted ({known}), got {tensor}")
    row = tensors[tensor]
    return (row.recipe if arm == RECIPE_ARM else row.bf16), row.bf16


def _has_no_reference(own: Expected, error: TensorErrors) -> bool:
    """Whether no relative error exists: it is expected against zeros, and zeros are there.

    A reference that is zero where the prediction's was not still fails.
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
    complaints: list[str | None] = []
    gates: list[str] = []
    low = high = predicted = None
    if isinstance(tolerance, CalibratedTolerance) and reference != BF16_REFERENCE:
        own, bf16 = _expected(prediction, tensor, arm, reference)
        if not error.nonfinite_count and _has_no_reference(own, error):
            return Verdict(tensor, arm, reference, gate=NO_REFERENCE, predicted_rel_l2=own.rel_l2)
        whole, head = calibrated_bounds(tolerance, own, bf16, reference)
        low, high, predicted = whole.low, whole.high, own.rel_l2
        gates.append(str(whole) % "rel_l2")
        complaints.append(whole.complaint("rel_l2", error.rel_l2))
        if own.worst_head_rel_l2 == math.inf:
            gates.append("worst_head_rel_l2 cannot be gated: a head's FP32 reference is all zero")
        elif head is not None and error.worst_head_rel_l2 is not None:
            gates.append(str(head) % "worst_head_rel_l2")
            what = f"rel_l2 of head {error.worst_head}"
            complaints.append(head.complaint(what, error.worst_head_rel_l2))
    elif isinstance(tolerance, SeedTolerance) and (arm, reference) == (RECIPE_ARM, BF16_REFERENCE):
        high = tolerance.max_outside_share
        rule = f"|x - bf16| <= {tolerance.atol:g} + {tolerance.rtol:g} |bf16|"
        gates.append(f"share outside {rule} at most {high:g}")
        share = math.nan if error.outside_share is None else error.outside_share
        complaints.append(Bounds(None, high).complaint(f"share outside {rule}", share))
    if error.nonfinite_count:
        gates.append("no NaN or infinity")
        complaints.append(f"elements must be finite, got {error.nonfinite_count} that are not")
    missed = tuple(line for line in complaints if line is not None)
    return Verdict(
        tensor=tensor,
        arm=arm,
        reference=reference,
        gate="; ".join(gates) or None,
        low=low,
        high=high,
        predicted_rel_l2=predicted,
        passed=not missed if gates else None,
        failures=missed,
    )
