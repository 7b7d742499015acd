"""Share of each gate that a correct arm uses, over many seeds: the reason for the factors.

`python -m tests.mxfp8_attention.margins docs/numerics.md` rewrites the table there (minutes).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from conf.choices import Projection
from conf.schema import CalibratedTolerance, MxFp8Recipe, Shape
from mxfp8_attention.accuracy.errors import TensorErrors
from mxfp8_attention.accuracy.gates import FP32_REFERENCE, STAGE_REFERENCE, calibrated_bounds
from mxfp8_attention.accuracy.prediction import Prediction, predict
from tests.mxfp8_attention.correct_arm import arm_errors
from tools.calibrate import shipped_shapes
from tools.numerics_tables import markdown, rewrite

RECIPE = MxFp8Recipe()
TINY = shipped_shapes()["tiny"]
SHAPES = {
    "even": TINY,
    "even, split": replace(TINY, projection=Projection.split),
    "one-hot": replace(TINY, init_std=0.18),
    "small weights": replace(TINY, init_std=0.023),
}
SEEDS = range(1000, 1060)
# One gate: over the whole path or one stage, the tensor or its worst head.
Gate = tuple[str, str]
GATES: tuple[Gate, ...] = tuple(
    (reference, part)
    for reference in (FP32_REFERENCE, STAGE_REFERENCE)
    for part in ("tensor", "worst head")
)


def uses(shape: Shape, prediction: Prediction, seed: int) -> Iterator[tuple[Gate, str, float]]:
    """Yield each gate, its tensor, and the share of it that one seed's correct arm uses.

    The share is the larger of error / upper bound and lower bound / error.
    """
    for reference, errors in arm_errors(shape, seed).items():
        yield from _uses(reference, errors, prediction)


def _uses(
    reference: str, errors: dict[str, TensorErrors], prediction: Prediction
) -> Iterator[tuple[Gate, str, float]]:
    rows = prediction.stages if reference == STAGE_REFERENCE else prediction.tensors
    for name, error in errors.items():
        row = rows[name]
        bounds = calibrated_bounds(CalibratedTolerance(), row.recipe, row.bf16, reference)
        values = (error.rel_l2, error.worst_head_rel_l2)
        for part, bound, value in zip(("tensor", "worst head"), bounds, values, strict=True):
            if bound is not None and value is not None:
                low = bound.low / value if bound.low is not None and value else 0.0
                yield (reference, part), name, max(value / bound.high, low)


def worst(
    shape: Shape, seeds: Iterable[int], predicted_from: int
) -> dict[Gate, tuple[float, str]]:
    """Return the largest use of each kind of gate over the seeds, with its tensor."""
    prediction = predict(shape, RECIPE, "cpu", predicted_from)
    largest: dict[Gate, tuple[float, str]] = {}
    for seed in seeds:
        for gate, tensor, use in uses(shape, prediction, seed):
            largest[gate] = max(largest.get(gate, (0.0, "")), (use, tensor))
    return largest


def table() -> str:
    """Return the table of docs/numerics.md."""
    rows = []
    for name, shape in SHAPES.items():
        for predicted_from in (3, 8):
            largest = worst(shape, SEEDS, predicted_from)
            cells = [f"{largest[gate][0]:.2f} ({largest[gate][1]})" for gate in GATES]
            rows.append([name, str(predicted_from), *cells])
    head = ["tiny shape", "seeds predicted from"]
    return markdown([*head, *(f"{reference}, {part}" for reference, part in GATES)], rows)


if __name__ == "__main__":
    rewrite(Path(sys.argv[1]), {"margins": table})
