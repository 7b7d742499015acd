"""The errors that are expected of a recipe: the type that calibration makes and gates read."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from conf.schema import Bf16Recipe, Recipe, Shape
from mxfp8_attention.accuracy.errors import TensorErrors, step_errors
from mxfp8_attention.accuracy.stages import stage_errors, staged_step
from mxfp8_attention.case import make_case
from mxfp8_attention.emulation.layer import EmulatedPath
from mxfp8_attention.reference import ReferencePath

STORED = "stored"
PREDICTED_HERE = "predicted on the node"


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
    """One tensor's expected errors over the whole path.

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
        tensors: By their names in `AttentionPath.step`.
        stages: By their names in `stage_errors`.
        seeds: The seeds that were averaged over.
        source: stored, or predicted on the node.
        device: The kind of device it was computed on.
    """

    tensors: dict[str, TensorPrediction]
    stages: dict[str, StagePrediction]
    seeds: list[int]
    source: str
    device: str


DEFAULT_SEEDS = 3


def predict(
    shape: Shape,
    recipe: Recipe,
    device: torch.device | str,
    seeds: int | Sequence[int] = DEFAULT_SEEDS,
) -> Prediction:
    """Compute a prediction by emulation.

    Args:
        shape: The layer.
        recipe: Any recipe: also those that no arm is emulated for.
        device: Where to compute.
        seeds: How many, or which. A number takes seeds other than the shape's own.

    Returns:
        The prediction.
    """
    chosen = other_seeds(shape.seed, seeds) if isinstance(seeds, int) else seeds
    return predict_recipes(shape, [recipe], device, chosen)[0]


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
        progress: Told one line for each seed.

    Returns:
        One prediction for each recipe.
    """
    samples: list[list[_Sample]] = []
    for seed in seeds:
        samples.append(_samples(shape, recipes, device, seed))
        progress(f"seed {seed}: {len(recipes)} recipes")
    return [
        Prediction(
            tensors=_tensors(gathered),
            stages=_stages(gathered),
            seeds=list(seeds),
            source=PREDICTED_HERE,
            device=torch.device(device).type,
        )
        for gathered in zip(*samples, strict=True)
    ]


def other_seeds(seed: int, count: int) -> list[int]:
    """Seeds that a point of this seed does not use itself."""
    return [seed + 1 + i for i in range(count)]


@dataclass(frozen=True)
class _Sample:
    """The errors of one recipe with one seed."""

    recipe: dict[str, TensorErrors]
    bf16: dict[str, TensorErrors]
    recipe_against_bf16: dict[str, TensorErrors]
    recipe_stages: dict[str, TensorErrors]
    bf16_stages: dict[str, TensorErrors]


def _samples(
    shape: Shape, recipes: Sequence[Recipe], device: torch.device | str, seed: int
) -> list[_Sample]:
    """One seed's errors; its tensors are gone when this returns."""
    case = make_case(shape, device, seed=seed)
    reference = ReferencePath(case).step()
    path = EmulatedPath(Bf16Recipe(), case)
    bf16 = staged_step(path)
    bf16_errors = _against(bf16, reference, shape)
    bf16_stages = stage_errors(path, bf16)
    samples = []
    for recipe in recipes:
        path = EmulatedPath(recipe, case)
        arm = staged_step(path)
        samples.append(
            _Sample(
                recipe=_against(arm, reference, shape),
                bf16=bf16_errors,
                recipe_against_bf16=_against(arm, {n: bf16[n] for n in reference}, shape),
                recipe_stages=stage_errors(path, arm),
                bf16_stages=bf16_stages,
            )
        )
    return samples


def _against(
    arm: Mapping[str, Tensor], reference: Mapping[str, Tensor], shape: Shape
) -> dict[str, TensorErrors]:
    """Errors of those of an arm's tensors that the reference has."""
    return step_errors({name: arm[name] for name in reference}, reference, shape)


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
    rel_l2, deviation = _mean_and_deviation([error.rel_l2 for error in errors])
    heads = [e.worst_head_rel_l2 for e in errors if e.worst_head_rel_l2 is not None]
    if not heads:
        return Expected(rel_l2, deviation)
    return Expected(rel_l2, deviation, *_mean_and_deviation(heads))


def _mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    mean = statistics.fmean(values)
    # A reference of zeros makes it infinite, NaN in an arm NaN; stdev raises on both.
    if mean == 0 or not math.isfinite(mean) or len(values) == 1:
        return mean, 0.0
    return mean, statistics.stdev(values) / mean
