"""Position of each error within its gate: 0 is the middle of the range, 1 the edge."""

from __future__ import annotations

import math
from dataclasses import dataclass

from jobs.record import TensorError, Validation

_AGAINST = {
    "fp32": ("", "FP32"),
    "bf16": (", against BF16", "BF16"),
    "stage": (", stage", "FP32 of the same inputs"),
}
MOST = 99.0
"""Largest use, for values that are infinitely far outside."""


@dataclass(frozen=True)
class GateUse:
    """One gated tensor of one arm against one reference.

    Attributes:
        error: The tensor's errors.
        quantity: Name of the bounded quantity and its reference.
        value: Value of the quantity.
        position: Position in the range: 0 is the lower edge (or zero), 1 the upper edge.
        use: Used share of the allowed deviation; above 1, the value is outside.
    """

    error: TensorError
    quantity: str
    value: float
    position: float
    use: float

    @property
    def name(self) -> str:
        """Tensor, its reference if not the FP32 path, and its arm if not the recipe's."""
        mark, _ = _AGAINST.get(self.error.reference, (f", {self.error.reference}", ""))
        name = f"{self.error.tensor}{mark}"
        return name if self.error.arm == "recipe" else f"{name} (bf16)"


def gate_uses(validation: Validation) -> list[GateUse]:
    """Return the use of each gate that is a number, in the record's order."""
    uses = (_use(error, validation.tolerance) for error in validation.tensors)
    return [use for use in uses if use is not None]


def nearest(validation: Validation) -> GateUse | None:
    """Return the worst use: nearest to an edge or farthest outside; None without gates."""
    return max(gate_uses(validation), key=lambda use: use.use, default=None)


def _use(error: TensorError, tolerance: str) -> GateUse | None:
    high, low = error.gate_high, error.gate_low
    if high is None or not math.isfinite(high) or error.passed is None:
        return None
    # Under `seed` the gate bounds the share of elements that lie outside atol and rtol.
    by_share = tolerance == "seed" and error.outside_share is not None
    value = error.outside_share if by_share else error.rel_l2
    _, reference = _AGAINST.get(error.reference, ("", error.reference))
    quantity = f"{'share outside' if by_share else 'relative L2'} against {reference}"
    assert value is not None
    if not math.isfinite(value):
        return GateUse(error, quantity, value, MOST, MOST)
    if low is not None and 0 < low < high:
        position = _logarithmic(value, low, high)
        use = abs(2 * position - 1)
    else:
        position = use = value / high if high > 0 else (0.0 if value <= 0 else MOST)
    return GateUse(error, quantity, value, _cut(position), _cut(use))


def _logarithmic(value: float, low: float, high: float) -> float:
    if value <= 0:
        return -MOST
    return (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))


def _cut(number: float) -> float:
    return max(-MOST, min(MOST, number))
