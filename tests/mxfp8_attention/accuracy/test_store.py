"""What a stored prediction holds for, and that a file gives back what was put in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conf.choices import AttnMask, Fp8Format, Projection, RopeKernel, RopeTable, Weights
from conf.schema import Bf16Recipe, Fp8CurrentRecipe, Fp8DelayedRecipe, MxFp8Recipe, Recipe, Shape
from mxfp8_attention.accuracy import store as prediction_store
from mxfp8_attention.accuracy.prediction import (
    Expected,
    Prediction,
    StagePrediction,
    TensorPrediction,
)
from mxfp8_attention.accuracy.store import entries, key, save, stored
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
def test_name_seed_and_kernel_have_no_part_in_it(shape: Shape) -> None:
    assert key(shape, MxFp8Recipe()) == key(tiny(), MxFp8Recipe())


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
def test_whatever_changes_a_number_is_part_of_it(shape: Shape) -> None:
    assert key(shape, MxFp8Recipe()) != key(tiny(), MxFp8Recipe())


def test_yarns_parameters_count_where_yarn_is_used() -> None:
    assert key(tiny(yarn_factor=2.0), MxFp8Recipe()) == key(tiny(), MxFp8Recipe())
    yarn = {"rope_table": RopeTable.yarn}
    assert key(tiny(**yarn, yarn_factor=2.0), MxFp8Recipe()) != key(tiny(**yarn), MxFp8Recipe())


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
    assert key(tiny(), recipe) == key(tiny(), twin)


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
    assert key(tiny(), recipe) not in [key(tiny(), other) for other in others]


def test_a_file_gives_back_what_was_put_in(tmp_path: Path) -> None:
    store = tmp_path / "predictions.json"
    save([(tiny(), MxFp8Recipe(), PREDICTION)], store)
    found = stored(tiny(), MxFp8Recipe(), store)
    assert found is not None
    assert found.source == "stored"
    assert (found.tensors, found.stages, found.seeds) == (
        PREDICTION.tensors,
        PREDICTION.stages,
        PREDICTION.seeds,
    )
    assert stored(tiny(), Bf16Recipe(), store) is None
    assert stored(tiny(), MxFp8Recipe(), tmp_path / "missing.json") is None


def test_saving_replaces_the_same_key_and_keeps_the_others(tmp_path: Path) -> None:
    store = tmp_path / "predictions.json"
    save([(tiny(), MxFp8Recipe(), PREDICTION), (tiny(), Bf16Recipe(), PREDICTION)], store)
    changed = Prediction({}, {}, [1], "predicted on the node", "cuda")
    save([(tiny(seed=9), MxFp8Recipe(), changed)], store)
    found = {found["recipe"]["name"]: prediction for found, prediction in entries(store)}
    assert (found["mxfp8"].device, found["bf16"].device) == ("cuda", "cpu")


def test_the_order_of_saving_does_not_show(tmp_path: Path) -> None:
    rows = [(tiny(), MxFp8Recipe(), PREDICTION), (tiny(), Bf16Recipe(), PREDICTION)]
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    save(rows, one)
    save(rows[::-1], other)
    assert one.read_text() == other.read_text()


def test_predictions_of_another_emulation_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "predictions.json"
    save([(tiny(), MxFp8Recipe(), PREDICTION)], store)
    monkeypatch.setattr(prediction_store, "EMULATION_VERSION", 10**6)
    prediction_store._entries.cache_clear()
    assert stored(tiny(), MxFp8Recipe(), store) is None


def test_the_shipped_file_is_in_the_form_that_saving_gives_it(tmp_path: Path) -> None:
    shipped = prediction_store.STORE.read_text()
    assert json.loads(shipped)["emulation_version"] == prediction_store.EMULATION_VERSION
    copy = tmp_path / "predictions.json"
    copy.write_text(shipped)
    save([], copy)
    assert copy.read_text() == shipped
