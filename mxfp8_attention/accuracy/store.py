"""The file of stored predictions, and the key that a prediction is stored under.

`predictions.json` has one line for each tensor: its errors as [relative L2, deviation over seeds]
and, for a tensor with heads, the same two of the worst head. Four digits: more would be the noise
of the seeds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from conf.choices import RopeTable
from conf.plain import to_plain
from conf.schema import Fp8CurrentRecipe, Fp8DelayedRecipe, Recipe, Shape
from mxfp8_attention.accuracy.prediction import (
    STORED,
    Expected,
    Prediction,
    StagePrediction,
    TensorPrediction,
)

STORE = Path(__file__).with_name("predictions.json")
# To be raised whenever the emulation's numerics change: other versions' entries are ignored.
EMULATION_VERSION = 1

_SHAPE_FIELDS = (
    "batch",
    "seq_len",
    "hidden",
    "num_heads",
    "head_dim_nope",
    "head_dim_rope",
    "head_dim_v",
    "projection",
    "attn_mask",
    "rope_table",
    "rope_base",
    "init_std",
    "bias",
)
_YARN_FIELDS = ("yarn_factor", "yarn_original_seq_len", "yarn_beta_fast", "yarn_beta_slow")
# Cached and requantized weights give the same numbers.
_RECIPE_FIELDS_WITHOUT_EFFECT = ("weights", "amax_history_len")


def prediction_key(shape: Shape, recipe: Recipe) -> dict[str, Any]:
    """Return everything that the numbers depend on; equal keys share a prediction.

    The shape's name, seed and RoPE kernel have no influence and are left out.
    """
    plain = to_plain(shape)
    names = _SHAPE_FIELDS + (_YARN_FIELDS if shape.rope_table is RopeTable.yarn else ())
    kept = {name: plain[name] for name in names}
    # 1/sqrt(hidden) is written with varying digits.
    kept["init_std"] = float(f"{shape.init_std:.4g}")
    plain_recipe = to_plain(_numerical_twin(recipe))
    for name in _RECIPE_FIELDS_WITHOUT_EFFECT:
        plain_recipe.pop(name, None)
    return {"shape": kept, "recipe": plain_recipe}


def _numerical_twin(recipe: Recipe) -> Recipe:
    """Return current scaling for delayed scaling, equal on data that stays the same.

    Attention's scales are not: with fp8_dpa the recipe is returned as it is.
    """
    if isinstance(recipe, Fp8DelayedRecipe) and not recipe.fp8_dpa and recipe.margin == 0:
        return Fp8CurrentRecipe(format=recipe.format)
    return recipe


def load_prediction(shape: Shape, recipe: Recipe, store: Path = STORE) -> Prediction | None:
    """Return the stored prediction for a shape and a recipe, None if there is none."""
    return _load(store).get(_key_text(shape, recipe))


def load_predictions(store: Path = STORE) -> Iterator[tuple[dict[str, Any], Prediction]]:
    """Yield every stored prediction with its key, in the file's order."""
    for text, prediction in _load(store).items():
        yield json.loads(text), prediction


def save_predictions(
    predictions: Sequence[tuple[Shape, Recipe, Prediction]], store: Path = STORE
) -> None:
    """Add predictions to the file, which is created if missing; equal keys are replaced."""
    kept = dict(_load(store))
    kept.update({_key_text(shape, recipe): new for shape, recipe, new in predictions})
    body = ",\n".join(_entry_text(text, kept[text]) for text in sorted(kept))
    content = f'{{"emulation_version": {EMULATION_VERSION}, "entries": [\n{body}\n]}}\n'
    store.write_text(content, encoding="utf-8")
    _load.cache_clear()


def _key_text(shape: Shape, recipe: Recipe) -> str:
    return json.dumps(prediction_key(shape, recipe), sort_keys=True)


def _entry_text(key_text: str, prediction: Prediction) -> str:
    head = f'{{"key": {key_text}, "seeds": {prediction.seeds}, "device": "{prediction.device}"'
    return f"{head},\n{_rows_text('tensors', prediction.tensors)},\n" + (
        f"{_rows_text('stages', prediction.stages)}}}"
    )


def _rows_text(
    name: str, rows: Mapping[str, TensorPrediction] | Mapping[str, StagePrediction]
) -> str:
    lines = [
        f"  {json.dumps(tensor)}: "
        + json.dumps({f.name: _numbers(getattr(row, f.name)) for f in fields(row)})
        for tensor, row in rows.items()
    ]
    return f' "{name}": {{\n' + ",\n".join(lines) + "}"


def _numbers(expected: Expected) -> list[float]:
    numbers = [expected.rel_l2, expected.deviation]
    if expected.worst_head_rel_l2 is not None:
        numbers += [expected.worst_head_rel_l2, expected.worst_head_deviation]
    return [float(f"{number:.4g}") for number in numbers]


@cache
def _load(store: Path) -> dict[str, Prediction]:
    """Return stored predictions by key text; none if the emulation has another version."""
    if not store.exists():
        return {}
    content = json.loads(store.read_text(encoding="utf-8"))
    if content["emulation_version"] != EMULATION_VERSION:
        return {}
    return {
        json.dumps(entry["key"], sort_keys=True): _prediction(entry)
        for entry in content["entries"]
    }


def _prediction(entry: Mapping[str, Any]) -> Prediction:
    def expected(row: Mapping[str, list[float]]) -> dict[str, Expected]:
        return {name: Expected(*numbers) for name, numbers in row.items()}

    return Prediction(
        tensors={n: TensorPrediction(**expected(row)) for n, row in entry["tensors"].items()},
        stages={n: StagePrediction(**expected(row)) for n, row in entry["stages"].items()},
        seeds=entry["seeds"],
        source=STORED,
        device=entry["device"],
    )
