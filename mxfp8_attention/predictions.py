"""The errors that a recipe should have: stored ones, and how they are computed.

An error depends on the shape, the initialisation and the recipe, hardly on the seed. It is
computed by the emulation over several seeds, stored by `python -m mxfp8_attention.calibrate`, and
computed on the node, from other seeds than the point's, for what is not stored.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path as FilePath
from typing import Any

import torch

from conf.choices import RopeTable
from conf.plain import from_plain, to_plain
from conf.schema import Bf16Recipe, Recipe, Shape
from mxfp8_attention.emulation import EmulatedPath
from mxfp8_attention.errors import TensorErrors, step_errors
from mxfp8_attention.model import make_case
from mxfp8_attention.reference import ReferencePath
from mxfp8_attention.stages import stage_errors

STORE = FilePath(__file__).with_name("predictions.json")
# Raised whenever the emulation's numerics change; entries of another version are not used.
EMULATION_VERSION = 1
DEFAULT_SEEDS = 3

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
# The same values quantized once or anew are the same numbers, and on data that stays the same the
# history of largest values holds this step's own.
_RECIPE_FIELDS_WITHOUT_EFFECT = ("weights", "amax_history_len")


@dataclass(frozen=True)
class Expected:
    """One expected error, over the seeds.

    Attributes:
        rel_l2: Mean relative L2 error.
        deviation: Standard deviation of it over the seeds, as a share of the mean.
        worst_head_rel_l2: Mean of each seed's worst head, None for a tensor without heads.
        worst_head_deviation: Likewise.
    """

    rel_l2: float
    deviation: float = 0.0
    worst_head_rel_l2: float | None = None
    worst_head_deviation: float = 0.0


@dataclass(frozen=True)
class TensorPrediction:
    """One tensor's expected errors.

    Attributes:
        recipe: The recipe's arm against FP32.
        bf16: The BF16 arm against FP32.
        recipe_against_bf16: The recipe's arm against the BF16 arm.
    """

    recipe: Expected
    bf16: Expected
    recipe_against_bf16: Expected


@dataclass(frozen=True)
class StagePrediction:
    """One stage's own expected error, against FP32 on the same inputs.

    Attributes:
        recipe: Of the recipe's arm.
        bf16: Of the BF16 arm.
    """

    recipe: Expected
    bf16: Expected


@dataclass(frozen=True)
class Prediction:
    """What to expect of every tensor of a step.

    Attributes:
        tensors: By their names in `Path.step`.
        stages: By their names in `stage_errors`.
        seeds: The seeds that were averaged over.
        source: stored, or predicted on the node.
        device: Where it was computed.
    """

    tensors: dict[str, TensorPrediction]
    stages: dict[str, StagePrediction]
    seeds: list[int]
    source: str
    device: str


def key(shape: Shape, recipe: Recipe) -> dict[str, Any]:
    """What the numbers depend on; equal keys share a prediction.

    Args:
        shape: The layer; its name, seed and RoPE kernel have no part in it.
        recipe: The quantization.

    Returns:
        Plain data: {"shape": {...}, "recipe": {...}}.
    """
    plain = to_plain(shape)
    fields = _SHAPE_FIELDS + (_YARN_FIELDS if shape.rope_table is RopeTable.yarn else ())
    kept = {name: plain[name] for name in fields}
    # 1/sqrt(hidden) is written with more or fewer digits.
    kept["init_std"] = float(f"{shape.init_std:.4g}")
    plain_recipe = to_plain(recipe)
    for name in _RECIPE_FIELDS_WITHOUT_EFFECT:
        plain_recipe.pop(name, None)
    return {"shape": kept, "recipe": plain_recipe}


def stored(shape: Shape, recipe: Recipe, store: FilePath = STORE) -> Prediction | None:
    """The stored prediction.

    Args:
        shape: The layer.
        recipe: The quantization.
        store: The file.

    Returns:
        It, or None where nothing is stored for this shape and recipe.
    """
    entry = _entries(store).get(_key_text(shape, recipe))
    return None if entry is None else from_plain(Prediction, entry | {"source": "stored"})


def predict(
    shape: Shape,
    recipe: Recipe,
    device: torch.device | str,
    seeds: int | Sequence[int] = DEFAULT_SEEDS,
    progress: Callable[[str], None] = lambda line: None,
) -> Prediction:
    """Compute a prediction by emulation.

    Args:
        shape: The layer.
        recipe: Any recipe: also those that no arm is emulated for.
        device: Where to compute.
        seeds: How many, or which. A number takes seeds other than the shape's own.
        progress: Told one line for each seed.

    Returns:
        The prediction, its source "predicted on the node".
    """
    chosen = other_seeds(shape.seed, seeds) if isinstance(seeds, int) else list(seeds)
    return predict_recipes(shape, [recipe], device, chosen, progress)[0]


def predict_recipes(
    shape: Shape,
    recipes: Sequence[Recipe],
    device: torch.device | str,
    seeds: Sequence[int],
    progress: Callable[[str], None] = lambda line: None,
) -> list[Prediction]:
    """Predictions of several recipes, sharing the FP32 and the BF16 arm.

    Args:
        shape: The layer.
        recipes: The quantizations.
        device: Where to compute.
        seeds: Which seeds to average over.
        progress: Told one line for each seed and recipe.

    Returns:
        One prediction for each recipe.
    """
    samples: list[list[_Sample]] = [[] for _ in recipes]
    for seed in seeds:
        case = make_case(shape, device, seed=seed)
        reference = ReferencePath(case).step()
        bf16_path = EmulatedPath(Bf16Recipe(), case)
        bf16 = bf16_path.step()
        bf16_errors = step_errors(bf16, reference, shape)
        bf16_stages = stage_errors(bf16_path)
        for recipe, gathered in zip(recipes, samples, strict=True):
            path = EmulatedPath(recipe, case)
            arm = path.step()
            errors = step_errors(arm, reference, shape)
            against_bf16 = step_errors(arm, bf16, shape)
            del arm
            gathered.append(
                _Sample(errors, bf16_errors, against_bf16, stage_errors(path), bf16_stages)
            )
            progress(f"{shape.name} {recipe.name.name} seed {seed}")
    return [
        Prediction(
            tensors=_tensors(gathered),
            stages=_stages(gathered),
            seeds=list(seeds),
            source="predicted on the node",
            device=torch.device(device).type,
        )
        for gathered in samples
    ]


def other_seeds(seed: int, count: int) -> list[int]:
    """Seeds that a point of this seed does not use itself."""
    return [seed + 1 + i for i in range(count)]


def save(predictions: Sequence[tuple[Shape, Recipe, Prediction]], store: FilePath = STORE) -> None:
    """Add predictions to the store, replacing those of the same key.

    Args:
        predictions: Each with what it holds for.
        store: The file; made if it is missing.
    """
    entries = dict(_entries(store))
    for shape, recipe, prediction in predictions:
        plain = to_plain(prediction)
        plain.pop("source")
        entries[_key_text(shape, recipe)] = _rounded(plain)
    rows = [{"key": json.loads(text)} | entries[text] for text in sorted(entries)]
    text = json.dumps({"emulation_version": EMULATION_VERSION, "entries": rows}, indent=1)
    store.write_text(text + "\n", encoding="utf-8")
    _entries.cache_clear()


@dataclass(frozen=True)
class _Sample:
    """The errors of one seed."""

    recipe: dict[str, TensorErrors]
    bf16: dict[str, TensorErrors]
    recipe_against_bf16: dict[str, TensorErrors]
    recipe_stages: dict[str, TensorErrors]
    bf16_stages: dict[str, TensorErrors]


def _tensors(samples: Sequence[_Sample]) -> dict[str, TensorPrediction]:
    return {
        name: TensorPrediction(
            recipe=_expected([sample.recipe[name] for sample in samples]),
            bf16=_expected([sample.bf16[name] for sample in samples]),
            recipe_against_bf16=_expected([s.recipe_against_bf16[name] for s in samples]),
        )
        for name in samples[0].recipe
    }


def _stages(samples: Sequence[_Sample]) -> dict[str, StagePrediction]:
    return {
        name: StagePrediction(
            recipe=_expected([sample.recipe_stages[name] for sample in samples]),
            bf16=_expected([sample.bf16_stages[name] for sample in samples]),
        )
        for name in samples[0].recipe_stages
    }


def _expected(errors: Sequence[TensorErrors]) -> Expected:
    whole = _mean_and_deviation([error.rel_l2 for error in errors])
    heads = [e.worst_head_rel_l2 for e in errors if e.worst_head_rel_l2 is not None]
    return Expected(*whole, *(_mean_and_deviation(heads) if heads else ()))


def _mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    mean = statistics.fmean(values)
    if mean == 0 or len(values) == 1:
        return mean, 0.0
    return mean, statistics.stdev(values) / mean


def _key_text(shape: Shape, recipe: Recipe) -> str:
    return json.dumps(key(shape, recipe), sort_keys=True)


def _rounded(plain: Any) -> Any:  # noqa: ANN401 - plain JSON data
    """Four digits: more would only be the seeds' noise in a file that people read."""
    if isinstance(plain, float):
        return float(f"{plain:.4g}")
    if isinstance(plain, dict):
        return {name: _rounded(value) for name, value in plain.items()}
    return [_rounded(value) for value in plain] if isinstance(plain, list) else plain


@cache
def _entries(store: FilePath) -> dict[str, dict[str, Any]]:
    """Stored entries by key text; none of another version of the emulation."""
    if not store.exists():
        return {}
    content = json.loads(store.read_text(encoding="utf-8"))
    if content["emulation_version"] != EMULATION_VERSION:
        return {}
    return {json.dumps(row.pop("key"), sort_keys=True): row for row in content["entries"]}
