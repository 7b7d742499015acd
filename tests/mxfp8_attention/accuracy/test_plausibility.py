"""Plausible: all that ships, and no prediction of a path with a fault planted in it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from conf import schema
from conf.schema import Bf16Recipe, MxFp8Recipe, Recipe
from mxfp8_attention.accuracy.plausibility import implausible
from mxfp8_attention.accuracy.prediction import Expected, Prediction, TensorPrediction, predict
from mxfp8_attention.accuracy.store import entries
from mxfp8_attention.emulation import linear as emulation_linear
from mxfp8_attention.emulation.rounding import to_bf16
from tools.calibrate import shipped_shapes

BF16_REL_L2 = 0.02
UNSTORED = replace(shipped_shapes()["tiny"], seq_len=256)


def test_everything_stored_is_plausible() -> None:
    for key, prediction in entries():
        recipe = recipe_of(key["recipe"])
        assert implausible(prediction, recipe, BF16_REL_L2) == [], key


def recipe_of(plain: dict[str, Any]) -> Recipe:
    """The recipe of a stored key."""
    classes: dict[str, Any] = {
        "bf16": schema.Bf16Recipe,
        "mxfp8": schema.MxFp8Recipe,
        "fp8_block": schema.Fp8BlockRecipe,
        "fp8_current": schema.Fp8CurrentRecipe,
        "fp8_delayed": schema.Fp8DelayedRecipe,
    }
    flags = {"fp8_dpa": plain["fp8_dpa"]} if "fp8_dpa" in plain else {}
    made: Recipe = classes[plain["name"]](**flags)
    return made


@pytest.mark.parametrize("recipe", [Bf16Recipe(), MxFp8Recipe(), MxFp8Recipe(fp8_dpa=False)])
def test_an_honest_prediction_of_another_shape_is_plausible(recipe: Recipe) -> None:
    assert implausible(predict(UNSTORED, recipe, "cpu", [1]), recipe, BF16_REL_L2) == []


def test_fp8_attention_that_is_nearly_one_hot_is_plausible() -> None:
    """Its gradients err by 40 %, which is sound there."""
    peaked = replace(UNSTORED, init_std=0.25)
    prediction = predict(peaked, MxFp8Recipe(), "cpu", [1])
    assert prediction.stages["dq"].recipe.rel_l2 > 0.25
    assert implausible(prediction, MxFp8Recipe(), BF16_REL_L2) == []


def test_a_zeroed_input_gradient_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    plant_zeroed_dx(monkeypatch)
    found = implausible(predict(UNSTORED, MxFp8Recipe(), "cpu", [1]), MxFp8Recipe(), BF16_REL_L2)
    line = (
        "the prediction itself is implausible: stage dattention predicted 1, expected 0.01 to 0.1"
    )
    assert line in found


def test_a_quantizer_that_does_nothing_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    plant_no_quantizer(monkeypatch)
    found = implausible(predict(UNSTORED, MxFp8Recipe(), "cpu", [1]), MxFp8Recipe(), BF16_REL_L2)
    assert any("stage qkv predicted 0.0016" in line for line in found)


def plant_zeroed_dx(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every linear layer of the emulation returns zeros for its input's gradient."""
    honest = emulation_linear._Linear.backward

    def faulty(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # noqa: ANN401
        dx, *others = honest(ctx, dy)
        assert dx is not None
        return (torch.zeros_like(dx), *others)

    monkeypatch.setattr(emulation_linear._Linear, "backward", staticmethod(faulty))


def plant_no_quantizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every linear layer of the emulation leaves its operands in bf16."""
    for rounding in ("mx_row", "mx_col"):
        monkeypatch.setattr(emulation_linear, rounding, lambda *_: to_bf16)


@pytest.mark.parametrize("rel_l2", [0.9, math.inf, math.nan])
def test_an_end_to_end_error_of_a_tensor_that_is_lost_is_not(rel_l2: float) -> None:
    row = TensorPrediction(Expected(rel_l2), Expected(0.002), Expected(rel_l2))
    found = implausible(Prediction({"out": row}, {}, [1], "", "cpu"), MxFp8Recipe(), BF16_REL_L2)
    assert found == [
        f"the prediction itself is implausible: out predicted {rel_l2:.3g}, expected 0 to 0.9"
    ]


def test_nothing_is_said_of_a_tensor_that_is_zero_in_fp32() -> None:
    row = TensorPrediction(Expected(math.inf), Expected(math.inf), Expected(0.0))
    prediction = Prediction({"out": row}, {}, [1], "", "cpu")
    assert implausible(prediction, MxFp8Recipe(), BF16_REL_L2) == []
