"""The errors that are expected of a recipe: the type that calibration makes and gates read."""

from __future__ import annotations

from dataclasses import dataclass

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
        tensors: By their names in `Path.step`.
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
