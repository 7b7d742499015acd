"""The error measure of these tests."""

from __future__ import annotations

from torch import Tensor


def distance(actual: Tensor, expected: Tensor) -> float:
    """Return the relative L2 error, in FP64."""
    return float((actual.double() - expected.double()).norm() / expected.double().norm())
