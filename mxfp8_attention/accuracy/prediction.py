"""The errors that a recipe should have, predicted by emulation.

An error depends on the shape, the initialisation and the recipe, and hardly on the seed.
`python -m tools.calibrate` stores predictions; for other shapes they are computed on the node,
from other seeds than the point's own.
"""

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
DEFAULT_SEEDS = 3


@dataclass(frozen=True)
class Expected:
    """One predicted error, over the seeds.

    Attributes:
        rel_l2: Mean relative L2 error.
        deviation: Its standard deviation over the seeds, as a share of the mean.
        worst_head_rel_l2: Mean of each seed's worst head, None for a tensor without heads.
        worst_head_deviation: Its standard deviation, likewise.
    """

    rel_l2: float
    deviation: float = 0.0
    worst_head_rel_l2: float | None = None
    worst_head_deviation: float = 0.0


@dataclass(frozen=True)
class TensorPrediction:
    """Predicted errors of one tensor over the whole path.

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
    """Predicted error of one stage alone in each arm, against FP32 on the same inputs."""

    recipe: Expected
    bf16: Expected


@dataclass(frozen=True)
class Prediction:
    """Predicted errors of every tensor of a step.

    Attributes:
        tensors: By their names in `AttentionPath.step`.
        stages: By their names in `stage_errors`.
        seeds: The seeds that were averaged over.
        source: `STORED` or `PREDICTED_HERE`.
        device: Type of the device that computed it.
    """

    tensors: dict[str, TensorPrediction]
    stages: dict[str, StagePrediction]
    seeds: list[int]
    source: str
    device: str


def predict(
    shape: Shape,
    recipe: Recipe,
    device: torch.device | str,
    seeds: int | Sequence[int] = DEFAULT_SEEDS,
) -> Prediction:
    """Compute a prediction by emulation.

    Args:
        shape: The layer.
        recipe: Any recipe, including those that no arm is emulated for.
        device: Device to compute on.
        seeds: The seeds, or their number; a number selects seeds other than the shape's own.

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
    """Predict several recipes, which share the FP32 path and the BF16 arm.

    Args:
        shape: The layer.
        recipes: The recipes.
        device: Device to compute on.
        seeds: The seeds to average over.
        progress: Callback for one progress line for each seed.

    Returns:
        One prediction for each recipe.
    """
    samples: list[list[_Sample]] = []
    for seed in seeds:
        samples.append(_samples(shape, recipes, device, seed))
        progress(f"seed {seed}: {len(recipes)} recipes")
    return [
        Prediction(
            tensors=_tensors(of_recipe),
            stages=_stages(of_recipe),
            seeds=list(seeds),
            source=PREDICTED_HERE,
            device=torch.device(device).type,
        )
        for of_recipe in zip(*samples, strict=True)
    ]


def other_seeds(seed: int, count: int) -> list[int]:
    """Return seeds that a point with this seed does not use itself."""
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
    """Return one seed's errors; its tensors are released on return."""
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
    """Return errors of those of an arm's tensors that the reference has."""
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
    # Infinite against a zero reference, NaN if an arm is: stdev raises on both.
    if mean == 0 or not math.isfinite(mean) or len(values) == 1:
        return mean, 0.0
    return mean, statistics.stdev(values) / mean
