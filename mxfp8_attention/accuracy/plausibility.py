"""Whether a computed prediction can be right, from what rounding theory says of any shape.

A prediction computed on the node comes from the very emulation that may be judged by it: a fault
that both share would confirm itself. A stage's own error hardly depends on the shape, so that it
can be held to bands that no emulation computes:

linear      one operand in E4M3 errs by 2.66 %, a product of two by 3.76 %, with E5M2 gradients by
            5.9 %; outputs that average over many tokens err less
attention   with FP8 in it 3 % to 7 % on every shipped shape, 40 % and more where weights four
            times as large make softmax nearly one-hot: only its lower bound is tight
the rest    BF16's own rounding: RoPE, biases, attention without FP8, and the whole BF16 arm

Over the whole path errors add up; one of 90 % means that nothing of the tensor is right.
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
    """Relative L2 errors that a sound path can have: low <= error < high."""

    low: float
    high: float

    def __contains__(self, rel_l2: object) -> bool:
        return isinstance(rel_l2, float) and self.low <= rel_l2 < self.high

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}"


LINEAR_BAND = Band(0.01, 0.1)
ATTENTION_BAND = Band(0.01, 0.9)
PATH_BAND = Band(0.0, 0.9)


def implausible(prediction: Prediction, recipe: Recipe, bf16_rel_l2: float) -> list[str]:
    """What of a prediction no sound emulation gives.

    Args:
        prediction: Computed for the recipe.
        recipe: The quantization.
        bf16_rel_l2: Error up to which a tensor counts as BF16's own rounding.

    Returns:
        One line for each tensor or stage outside its band; empty: nothing speaks against it.
    """
    rounding = Band(0.0, bf16_rel_l2)
    found = []
    for name, row in prediction.stages.items():
        if not has_no_reference(row.recipe, row.bf16):
            found += _outside(f"stage {name} of the bf16 arm", row.bf16, rounding)
            found += _outside(f"stage {name}", row.recipe, _stage_band(name, recipe, rounding))
    for name, tensor in prediction.tensors.items():
        if not has_no_reference(tensor.recipe, tensor.bf16):
            found += _outside(f"{name} of the bf16 arm", tensor.bf16, PATH_BAND)
            found += _outside(name, tensor.recipe, PATH_BAND)
    return found


def has_no_reference(own: Expected, bf16: Expected) -> bool:
    """Whether both arms' errors are infinite, or both zero: relative to zeros they are.

    Two zeros are also what copying has, as RoPE copies v.
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


def _outside(what: str, expected: Expected, band: Band) -> list[str]:
    if expected.rel_l2 in band:
        return []
    return [
        f"the prediction itself is implausible: {what} predicted {expected.rel_l2:.3g}, "
        f"expected {band}"
    ]
