"""Every shipped prediction is plausible, and none of a path with a planted fault."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from conf.choices import RecipeName
from conf.schema import RECIPES, Bf16Recipe, MxFp8Recipe, Recipe
from mxfp8_attention.accuracy.plausibility import (
    LINEAR_BAND,
    PATH_BAND,
    Implausibility,
    check_plausibility,
)
from mxfp8_attention.accuracy.prediction import Expected, Prediction, TensorPrediction, predict
from mxfp8_attention.accuracy.store import load_predictions
from tests.mxfp8_attention.mutants import plant_no_quantizer, plant_zeroed_dx
from tools.calibrate import shipped_shapes

BF16_REL_L2 = 0.02
UNSTORED = replace(shipped_shapes()["tiny"], seq_len=256)


def test_everything_stored_is_plausible() -> None:
    for key, prediction in load_predictions():
        recipe = recipe_of(key["recipe"])
        assert check_plausibility(prediction, recipe, BF16_REL_L2) == [], key


def recipe_of(plain: dict[str, Any]) -> Recipe:
    """The recipe of a stored key."""
    flags = {"fp8_dpa": plain["fp8_dpa"]} if "fp8_dpa" in plain else {}
    recipe: Recipe = RECIPES[RecipeName[plain["name"]]](**flags)
    return recipe


@pytest.mark.parametrize("recipe", [Bf16Recipe(), MxFp8Recipe(), MxFp8Recipe(fp8_dpa=False)])
def test_an_honest_prediction_of_another_shape_is_plausible(recipe: Recipe) -> None:
    assert check_plausibility(predict(UNSTORED, recipe, "cpu", [1]), recipe, BF16_REL_L2) == []


def test_fp8_attention_that_is_nearly_one_hot_is_plausible() -> None:
    """Its gradients have 40 % error, which is correct there."""
    peaked = replace(UNSTORED, init_std=0.25)
    prediction = predict(peaked, MxFp8Recipe(), "cpu", [1])
    assert prediction.stages["dq"].recipe.rel_l2 > 0.25
    assert check_plausibility(prediction, MxFp8Recipe(), BF16_REL_L2) == []


def implausible_after(plant: Callable[[pytest.MonkeyPatch], None], stage: str) -> Implausibility:
    """The finding for one stage of a prediction that a planted fault has spoiled."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        plant(monkeypatch)
        prediction = predict(UNSTORED, MxFp8Recipe(), "cpu", [1])
    findings = check_plausibility(prediction, MxFp8Recipe(), BF16_REL_L2)
    key = (stage, "recipe", True)
    return next(each for each in findings if (each.tensor, each.arm, each.stage) == key)


def test_a_zeroed_input_gradient_is_implausible() -> None:
    finding = implausible_after(plant_zeroed_dx, "dattention")
    assert (finding.predicted, finding.band) == (1, LINEAR_BAND)


def test_a_quantizer_that_does_nothing_is_implausible() -> None:
    assert implausible_after(plant_no_quantizer, "qkv").predicted == pytest.approx(0.0016, rel=0.1)


@pytest.mark.parametrize("rel_l2", [0.9, math.inf, math.nan])
def test_an_error_of_the_whole_path_from_90_percent_on_is_implausible(rel_l2: float) -> None:
    row = TensorPrediction(Expected(rel_l2), Expected(0.002), Expected(rel_l2))
    prediction = Prediction({"out": row}, {}, [1], "", "cpu")
    (finding,) = check_plausibility(prediction, MxFp8Recipe(), BF16_REL_L2)
    assert (finding.tensor, finding.arm, finding.stage, finding.band) == (
        "out",
        "recipe",
        False,
        PATH_BAND,
    )
    assert "out predicted" in str(finding)


def test_a_tensor_that_is_zero_in_fp32_is_not_checked() -> None:
    row = TensorPrediction(Expected(math.inf), Expected(math.inf), Expected(0.0))
    prediction = Prediction({"out": row}, {}, [1], "", "cpu")
    assert check_plausibility(prediction, MxFp8Recipe(), BF16_REL_L2) == []
