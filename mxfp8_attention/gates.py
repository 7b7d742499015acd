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
from mxfp8_attention.errors import TensorErrors
from mxfp8_attention.predictions import Expected, Prediction

RECIPE_ARM = "recipe"
BF16_ARM = "bf16"
FP32_REFERENCE = "fp32"
BF16_REFERENCE = "bf16"


@dataclass(frozen=True)
class Verdict:
    """What a tolerance says of one tensor of one arm against one reference.

    Attributes:
        tensor: Its name.
        arm: recipe or bf16.
        reference: fp32 or bf16.
        gate: The rule in words and numbers; None: nothing is decided here.
        low: Lower bound of the relative L2, None where there is none.
        high: Upper bound: of the relative L2 under calibrated, of the share outside under seed.
        predicted_rel_l2: What was expected, None where nothing was.
        passed: None: not gated.
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
        reference: fp32 or bf16.
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
    tolerance: CalibratedTolerance, arm: str, tensor: str, prediction: Prediction
) -> tuple[Bounds, Bounds | None]:
    """The bounds of a tensor and of its worst head.

    Args:
        tolerance: The factors.
        arm: recipe or bf16.
        tensor: Its name.
        prediction: What to expect.

    Returns:
        Bounds of the relative L2 of the tensor, and of its worst head where it has heads.

    Raises:
        ValueError: The tensor is not predicted.
    """
    if tensor not in prediction.tensors:
        known = ", ".join(prediction.tensors)
        raise ValueError(f"tensor must be one that is predicted ({known}), got {tensor}")
    expected = prediction.tensors[tensor]
    own = expected.recipe if arm == RECIPE_ARM else expected.bf16
    whole = _bounds(
        tolerance,
        own.rel_l2,
        expected.bf16.rel_l2,
        tolerance.lower_factor,
        tolerance.upper_factor,
    )
    if own.worst_head_rel_l2 is None:
        return whole, None
    head = _bounds(
        tolerance,
        own.worst_head_rel_l2,
        _worst(expected.bf16),
        tolerance.worst_head_lower_factor,
        tolerance.worst_head_upper_factor,
    )
    return whole, head


def _bounds(
    tolerance: CalibratedTolerance, own: float, bf16: float, lower: float, upper: float
) -> Bounds:
    high = max(upper * own, tolerance.bf16_rel_l2 if own <= tolerance.bf16_rel_l2 else 0.0)
    low = lower * own
    # A bound that BF16 passes as well proves nothing.
    return Bounds(low if low > upper * bf16 and own > tolerance.bf16_rel_l2 else None, high)


def _worst(expected: Expected) -> float:
    return math.inf if expected.worst_head_rel_l2 is None else expected.worst_head_rel_l2


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
    if isinstance(tolerance, CalibratedTolerance) and reference == FP32_REFERENCE:
        if prediction is None:
            raise ValueError("tolerance=calibrated must have a prediction, got none")
        whole, head = calibrated_bounds(tolerance, arm, tensor, prediction)
        low, high = whole.low, whole.high
        own = prediction.tensors[tensor]
        predicted = (own.recipe if arm == RECIPE_ARM else own.bf16).rel_l2
        gates.append(str(whole) % "rel_l2")
        complaints.append(whole.complaint("rel_l2", error.rel_l2))
        if head is not None and error.worst_head_rel_l2 is not None:
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
