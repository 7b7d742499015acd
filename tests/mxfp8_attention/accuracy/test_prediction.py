"""Predictions come from other seeds than the point's, hold for any seed, and are shipped."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import pytest

from conf.choices import Projection
from conf.schema import (
    Bf16Recipe,
    CalibratedTolerance,
    Fp8CurrentRecipe,
    Fp8DelayedRecipe,
    MxFp8Recipe,
    Recipe,
    Shape,
)
from mxfp8_attention.accuracy.gates import (
    RECIPE_ARM,
    failures,
    judge,
)
from mxfp8_attention.accuracy.prediction import (
    _mean_and_deviation,
    other_seeds,
    predict,
    predict_recipes,
)
from mxfp8_attention.accuracy.stages import stage_errors
from mxfp8_attention.accuracy.store import load_prediction
from mxfp8_attention.case import make_case
from mxfp8_attention.emulation.layer import EmulatedPath
from tests.mxfp8_attention.correct_arm import arm_errors
from tests.shapes import tiny
from tools.calibrate import shipped_shapes

TINY = shipped_shapes()["tiny"]


def test_a_node_predicts_from_other_seeds_than_the_points() -> None:
    prediction = predict(tiny(seed=5), Bf16Recipe(), "cpu", 2)
    assert prediction.seeds == other_seeds(5, 2) == [6, 7]
    assert (prediction.source, prediction.device) == ("predicted on the node", "cpu")


def test_every_tensor_and_every_stage_is_predicted() -> None:
    shape = tiny(projection=Projection.split)
    case = make_case(shape, "cpu")
    path = EmulatedPath(MxFp8Recipe(), case)
    prediction = predict(shape, MxFp8Recipe(), "cpu", [1])
    assert list(prediction.tensors) == list(path.step())
    assert list(prediction.stages) == list(stage_errors(path))


def test_recipes_predicted_together_are_predicted_as_if_alone() -> None:
    recipes: list[Recipe] = [MxFp8Recipe(), Fp8CurrentRecipe()]
    together = predict_recipes(tiny(), recipes, "cpu", [1, 2])
    assert together == [predict(tiny(), recipe, "cpu", [1, 2]) for recipe in recipes]


def test_the_recipe_bf16_is_predicted_as_the_bf16_arm() -> None:
    prediction = predict(tiny(), Bf16Recipe(), "cpu", [1, 2])
    for row in prediction.tensors.values():
        assert row.recipe == row.bf16
        assert row.recipe_against_bf16.rel_l2 == 0


def test_one_tensor_rounded_twice_errs_by_the_formula_of_gaussian_data() -> None:
    """3.76 %: two operands with the 2.66 % of a bf16 Gaussian in E4M3."""
    prediction = predict(tiny(), MxFp8Recipe(), "cpu", 3)
    for name in ("q", "k", "v"):
        assert prediction.tensors[name].recipe.rel_l2 == pytest.approx(0.0266 * 2**0.5, rel=0.02)


@pytest.mark.parametrize(
    "recipe",
    [
        Bf16Recipe(),
        MxFp8Recipe(),
        MxFp8Recipe(fp8_dpa=False),
        Fp8CurrentRecipe(),
        Fp8DelayedRecipe(),
    ],
    ids=str,
)
@pytest.mark.parametrize("projection", Projection)
def test_the_tiny_shape_ships_with_its_predictions(recipe: Recipe, projection: Projection) -> None:
    prediction = load_prediction(replace(TINY, projection=projection), recipe)
    assert prediction is not None
    assert prediction.source == "stored"
    assert TINY.seed not in prediction.seeds


def missed(shape: Shape, seed: int) -> list[str]:
    """Failures of a correct emulated arm against the shipped prediction."""
    prediction = load_prediction(shape, MxFp8Recipe())
    apply = partial(judge, CalibratedTolerance(), arm=RECIPE_ARM, prediction=prediction)
    verdicts = [
        verdict
        for reference, errors in arm_errors(shape, seed).items()
        for verdict in apply(reference=reference, errors=errors)
    ]
    assert len(verdicts) > 20
    return failures(verdicts)


@pytest.mark.parametrize("projection", Projection)
@pytest.mark.parametrize("seed", range(2000, 2006))
def test_a_correct_arm_passes_with_any_seed(projection: Projection, seed: int) -> None:
    assert missed(replace(TINY, projection=projection), seed) == []


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_value_that_is_not_finite_is_predicted_as_such(value: float) -> None:
    mean, deviation = _mean_and_deviation([0.1, value, 0.1])
    assert (str(mean), deviation) == (str(value), 0.0)
