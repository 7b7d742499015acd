"""Check a computed prediction against what rounding theory allows for any shape.

A prediction computed on the node comes from the emulation that it may judge: a fault common to
both would confirm itself. A stage's own error hardly depends on the shape, so it must lie in bands
that no emulation computes:

linear      one operand in E4M3 has 2.66 % error, a product of two 3.76 %, with E5M2 gradients
            5.9 %; outputs that average over many tokens have less
attention   with FP8 3 % to 7 % on every shipped shape, 40 % and more if weights four times as
            large make softmax nearly one-hot: only the lower bound is tight
the rest    BF16's own rounding: RoPE, biases, attention without FP8, and the whole BF16 arm

Errors add up over the whole path; above 90 % nothing of the tensor is right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from conf.schema import Bf16Recipe, Fp8CurrentRecipe, Fp8DelayedRecipe, MxFp8Recipe, Recipe
from mxfp8_attention.accuracy.prediction import Expected, Prediction

_ATTENTION = ("attention", "dq", "dk", "dv")
_LINEAR = ("qkv", "q_proj", "kv_proj", "out", "dx", "dattention")
_WEIGHTS = ("_weight", "_norm_bias")


@dataclass(frozen=True)
class Band:
    """Relative L2 errors that a correct path can have: low <= error < high."""

    low: float
    high: float

    def __contains__(self, rel_l2: object) -> bool:
        return isinstance(rel_l2, float) and self.low <= rel_l2 < self.high

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}"


LINEAR_BAND = Band(0.01, 0.1)
ATTENTION_BAND = Band(0.01, 0.9)
PATH_BAND = Band(0.0, 0.9)


@dataclass(frozen=True)
class Implausibility:
    """A predicted error outside its band; `str` gives the sentence.

    Attributes:
        tensor: Name of the tensor or stage.
        arm: recipe or bf16.
        stage: True for the error of one stage, False for the whole path.
        predicted: The predicted relative L2 error.
        band: The band.
    """

    tensor: str
    arm: str
    stage: bool
    predicted: float
    band: Band

    def __str__(self) -> str:
        name = f"stage {self.tensor}" if self.stage else self.tensor
        arm = " of the bf16 arm" if self.arm == "bf16" else ""
        return (
            f"the prediction itself is implausible: {name}{arm} predicted {self.predicted:.3g}, "
            f"expected {self.band}"
        )


def check_plausibility(
    prediction: Prediction, recipe: Recipe, bf16_rel_l2: float
) -> list[Implausibility]:
    """Return the predicted errors that no correct emulation gives.

    Args:
        prediction: Computed for the recipe.
        recipe: The recipe.
        bf16_rel_l2: Relative L2 error up to which a tensor counts as BF16's own rounding.

    Returns:
        One entry for each tensor or stage outside its band; empty if all are plausible.
    """
    rounding = Band(0.0, bf16_rel_l2)
    rows = [
        (name, True, row.recipe, row.bf16, _stage_band(name, recipe, rounding), rounding)
        for name, row in prediction.stages.items()
    ]
    rows += [
        (name, False, row.recipe, row.bf16, PATH_BAND, PATH_BAND)
        for name, row in prediction.tensors.items()
    ]
    return [
        Implausibility(name, arm, stage, expected.rel_l2, band)
        for name, stage, own, bf16, own_band, bf16_band in rows
        if not has_no_reference(own, bf16)
        for arm, expected, band in (("bf16", bf16, bf16_band), ("recipe", own, own_band))
        if expected.rel_l2 not in band
    ]


def has_no_reference(own: Expected, bf16: Expected) -> bool:
    """Return True if the reference is zero: both arms' errors are then infinite, or both zero.

    Two zeros also come from copying, as RoPE copies v.
    """
    return own.rel_l2 == bf16.rel_l2 and own.rel_l2 in (0.0, math.inf)


def _stage_band(name: str, recipe: Recipe, rounding: Band) -> Band:
    if isinstance(recipe, Bf16Recipe):
        return rounding
    if name in _ATTENTION:
        if isinstance(recipe, MxFp8Recipe | Fp8CurrentRecipe | Fp8DelayedRecipe):
            return ATTENTION_BAND if recipe.fp8_dpa else rounding
        return rounding
    return LINEAR_BAND if name in _LINEAR or name.endswith(_WEIGHTS) else rounding
