"""Predictions are stored by everything that changes a number, and read back unchanged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conf.choices import AttnMask, Fp8Format, Projection, RopeKernel, RopeTable, Weights
from conf.schema import Bf16Recipe, Fp8CurrentRecipe, Fp8DelayedRecipe, MxFp8Recipe, Recipe, Shape
from mxfp8_attention.accuracy import store
from mxfp8_attention.accuracy.prediction import (
    Expected,
    Prediction,
    StagePrediction,
    TensorPrediction,
)
from mxfp8_attention.accuracy.store import (
    load_prediction,
    load_predictions,
    prediction_key,
    save_predictions,
)
from tests.shapes import tiny

WITH_HEADS = Expected(0.0698, 0.0123, 0.0731, 0.0301)
WITHOUT = Expected(0.001702, 0.05)
PREDICTION = Prediction(
    tensors={
        "q": TensorPrediction(WITH_HEADS, WITHOUT, WITH_HEADS),
        "out": TensorPrediction(WITHOUT, WITHOUT, WITHOUT),
    },
    stages={"qkv": StagePrediction(WITH_HEADS, WITHOUT)},
    seeds=[43, 44],
    source="predicted on the node",
    device="cpu",
)


@pytest.mark.parametrize(
    "shape",
    [tiny(name="other"), tiny(seed=7), tiny(rope_kernel=RopeKernel.eager), tiny(init_std=1 / 16)],
)
def test_name_seed_and_kernel_are_no_part_of_the_key(shape: Shape) -> None:
    assert prediction_key(shape, MxFp8Recipe()) == prediction_key(tiny(), MxFp8Recipe())


@pytest.mark.parametrize(
    "shape",
    [
        tiny(batch=2),
        tiny(seq_len=256),
        tiny(init_std=0.023),
        tiny(bias=False),
        tiny(projection=Projection.split),
        tiny(attn_mask=AttnMask.none),
        tiny(rope_base=1e6),
        tiny(rope_table=RopeTable.yarn),
    ],
)
def test_everything_that_changes_a_number_is_part_of_the_key(shape: Shape) -> None:
    assert prediction_key(shape, MxFp8Recipe()) != prediction_key(tiny(), MxFp8Recipe())


def test_yarn_parameters_are_part_of_the_key_only_with_yarn() -> None:
    assert prediction_key(tiny(yarn_factor=2.0), MxFp8Recipe()) == prediction_key(
        tiny(), MxFp8Recipe()
    )
    yarn = {"rope_table": RopeTable.yarn}
    assert prediction_key(tiny(**yarn, yarn_factor=2.0), MxFp8Recipe()) != prediction_key(
        tiny(**yarn), MxFp8Recipe()
    )


@pytest.mark.parametrize(
    ("recipe", "twin"),
    [
        (MxFp8Recipe(weights=Weights.cached), MxFp8Recipe()),
        (Fp8DelayedRecipe(), Fp8CurrentRecipe()),
        (Fp8DelayedRecipe(amax_history_len=1024), Fp8CurrentRecipe(weights=Weights.cached)),
        (Fp8DelayedRecipe(fp8_dpa=True, amax_history_len=1), Fp8DelayedRecipe(fp8_dpa=True)),
    ],
)
def test_recipes_with_the_same_numbers_share_a_prediction(recipe: Recipe, twin: Recipe) -> None:
    assert prediction_key(tiny(), recipe) == prediction_key(tiny(), twin)


@pytest.mark.parametrize(
    "recipe",
    [
        Bf16Recipe(),
        MxFp8Recipe(fp8_dpa=False),
        MxFp8Recipe(format=Fp8Format.hybrid),
        Fp8DelayedRecipe(margin=1),
        Fp8DelayedRecipe(fp8_dpa=True),
    ],
)
def test_recipes_with_other_numbers_do_not(recipe: Recipe) -> None:
    others = [MxFp8Recipe(), Fp8CurrentRecipe()]
    assert prediction_key(tiny(), recipe) not in [
        prediction_key(tiny(), other) for other in others
    ]


def test_a_saved_prediction_is_loaded_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "predictions.json"
    save_predictions([(tiny(), MxFp8Recipe(), PREDICTION)], path)
    loaded = load_prediction(tiny(), MxFp8Recipe(), path)
    assert loaded is not None
    assert loaded.source == "stored"
    assert (loaded.tensors, loaded.stages, loaded.seeds) == (
        PREDICTION.tensors,
        PREDICTION.stages,
        PREDICTION.seeds,
    )
    assert load_prediction(tiny(), Bf16Recipe(), path) is None
    assert load_prediction(tiny(), MxFp8Recipe(), tmp_path / "missing.json") is None


def test_saving_replaces_the_same_key_and_keeps_the_others(tmp_path: Path) -> None:
    path = tmp_path / "predictions.json"
    save_predictions(
        [(tiny(), MxFp8Recipe(), PREDICTION), (tiny(), Bf16Recipe(), PREDICTION)], path
    )
    changed = Prediction({}, {}, [1], "predicted on the node", "cuda")
    save_predictions([(tiny(seed=9), MxFp8Recipe(), changed)], path)
    loaded = {key["recipe"]["name"]: prediction for key, prediction in load_predictions(path)}
    assert (loaded["mxfp8"].device, loaded["bf16"].device) == ("cuda", "cpu")


def test_the_order_of_saving_has_no_effect(tmp_path: Path) -> None:
    rows = [(tiny(), MxFp8Recipe(), PREDICTION), (tiny(), Bf16Recipe(), PREDICTION)]
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    save_predictions(rows, one)
    save_predictions(rows[::-1], other)
    assert one.read_text() == other.read_text()


def test_predictions_of_another_emulation_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "predictions.json"
    save_predictions([(tiny(), MxFp8Recipe(), PREDICTION)], path)
    monkeypatch.setattr(store, "EMULATION_VERSION", 10**6)
    store._load.cache_clear()
    assert load_prediction(tiny(), MxFp8Recipe(), path) is None


def test_the_shipped_file_is_in_the_form_that_saving_gives_it(tmp_path: Path) -> None:
    shipped = store.STORE.read_text()
    assert json.loads(shipped)["emulation_version"] == store.EMULATION_VERSION
    copy = tmp_path / "predictions.json"
    copy.write_text(shipped)
    save_predictions([], copy)
    assert copy.read_text() == shipped
