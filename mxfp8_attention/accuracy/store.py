"""The file of stored predictions, and what a prediction holds for.

`predictions.json` has one line for each tensor: its expected errors as [relative L2, deviation
over seeds] and, for a tensor with heads, the same two of the worst head. Four digits: more would
be the seeds' noise.
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
# Raised whenever the emulation's numerics change; entries of another version are not used.
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
# Weights quantized once or anew are the same numbers.
_RECIPE_FIELDS_WITHOUT_EFFECT = ("weights", "amax_history_len")


def key(shape: Shape, recipe: Recipe) -> dict[str, Any]:
    """What the numbers depend on; equal keys share a prediction.

    Args:
        shape: The layer; its name, seed and RoPE kernel have no part in it.
        recipe: The quantization.

    Returns:
        Plain data: {"shape": {...}, "recipe": {...}}.
    """
    plain = to_plain(shape)
    names = _SHAPE_FIELDS + (_YARN_FIELDS if shape.rope_table is RopeTable.yarn else ())
    kept = {name: plain[name] for name in names}
    # 1/sqrt(hidden) is written with more or fewer digits.
    kept["init_std"] = float(f"{shape.init_std:.4g}")
    plain_recipe = to_plain(_numerical_twin(recipe))
    for name in _RECIPE_FIELDS_WITHOUT_EFFECT:
        plain_recipe.pop(name, None)
    return {"shape": kept, "recipe": plain_recipe}


def _numerical_twin(recipe: Recipe) -> Recipe:
    """Delayed scaling of data that stays the same is current scaling; attention differs."""
    if isinstance(recipe, Fp8DelayedRecipe) and not recipe.fp8_dpa and recipe.margin == 0:
        return Fp8CurrentRecipe(format=recipe.format)
    return recipe


def stored(shape: Shape, recipe: Recipe, store: Path = STORE) -> Prediction | None:
    """The stored prediction.

    Args:
        shape: The layer.
        recipe: The quantization.
        store: The file.

    Returns:
        It, or None where nothing is stored for this shape and recipe.
    """
    return _entries(store).get(_key_text(shape, recipe))


def entries(store: Path = STORE) -> Iterator[tuple[dict[str, Any], Prediction]]:
    """Every stored prediction with its key, in the file's order."""
    for text, prediction in _entries(store).items():
        yield json.loads(text), prediction


def save(predictions: Sequence[tuple[Shape, Recipe, Prediction]], store: Path = STORE) -> None:
    """Add predictions to the store, replacing those of the same key.

    Args:
        predictions: Each with what it holds for.
        store: The file; made if it is missing.
    """
    kept = dict(_entries(store))
    kept.update({_key_text(shape, recipe): found for shape, recipe, found in predictions})
    body = ",\n".join(_entry_text(text, kept[text]) for text in sorted(kept))
    content = f'{{"emulation_version": {EMULATION_VERSION}, "entries": [\n{body}\n]}}\n'
    store.write_text(content, encoding="utf-8")
    _entries.cache_clear()


def _key_text(shape: Shape, recipe: Recipe) -> str:
    return json.dumps(key(shape, recipe), sort_keys=True)


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
def _entries(store: Path) -> dict[str, Prediction]:
    """Stored predictions by key text; none of another version of the emulation."""
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
