"""Apply every tolerance to planted faults, for the table of docs/numerics.md.

`python -m tests.mxfp8_attention.mutant_table docs/numerics.md` rewrites the table there.
"""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from torch import Tensor

from conf.schema import Bf16Recipe, CalibratedTolerance, SeedTolerance
from mxfp8_attention.accuracy.errors import step_errors
from mxfp8_attention.accuracy.gates import RECIPE_ARM, Verdict, judge
from mxfp8_attention.accuracy.prediction import Prediction, predict
from mxfp8_attention.accuracy.stages import stage_errors, staged_step
from mxfp8_attention.case import Case, make_case
from mxfp8_attention.emulation.layer import EmulatedPath
from mxfp8_attention.reference import ReferencePath
from tests.mxfp8_attention.mutants import MUTANTS, RECIPE, Fault, MutantPath
from tools.calibrate import shipped_shapes
from tools.numerics_tables import markdown, rewrite

# The two initialisations of dsv3 by their softmax: even, and nearly one-hot.
INIT_STDS = {"even": 0.0625, "one-hot": 0.18}
OUTPUT = "out"
"""The only tensor that the seed's own test compared."""


def sound(path: MutantPath) -> None:
    """No fault."""


@dataclass(frozen=True)
class Judgement:
    """Result of the tolerances for one path.

    Attributes:
        path: Tensors that fail `calibrated` over the whole path.
        stage: Tensors that fail `calibrated` in their own stage.
        seed: Tensors with an element outside the seed's atol and rtol.
        moved: Largest distance of a tensor from the correct arm's, in units of that arm's expected
            error: up to 1 it is no more than rounding.
        moved_tensor: That tensor.
    """

    path: list[str]
    stage: list[str]
    seed: list[str]
    moved: float
    moved_tensor: str


@dataclass(frozen=True)
class Bench:
    """Everything that is needed to judge paths of one initialisation."""

    case: Case
    reference: dict[str, Tensor]
    bf16: dict[str, Tensor]
    sound: dict[str, Tensor]
    prediction: Prediction


@cache
def bench(init: str) -> Bench:
    """Return the tiny shape with one initialisation."""
    shape = dataclasses.replace(shipped_shapes()["tiny"], init_std=INIT_STDS[init])
    case = make_case(shape, "cpu")
    return Bench(
        case=case,
        reference=ReferencePath(case).step(),
        bf16=EmulatedPath(Bf16Recipe(), case).step(),
        sound=EmulatedPath(RECIPE, case).step(),
        prediction=predict(shape, RECIPE, "cpu", 4),
    )


@cache
def judgement(init: str, plant: Fault = sound) -> Judgement:
    """Apply both tolerances to the path with a planted fault."""
    setup = bench(init)
    path = MutantPath(setup.case)
    plant(path)
    staged = staged_step(path)
    tensors = {name: staged[name] for name in setup.reference}
    shape, seed = setup.case.shape, SeedTolerance()
    against_bf16 = step_errors(tensors, setup.bf16, shape, atol=seed.atol, rtol=seed.rtol)
    apply = partial(judge, arm=RECIPE_ARM, prediction=setup.prediction)
    calibrated = CalibratedTolerance()
    against_fp32 = step_errors(tensors, setup.reference, shape)
    distances = {
        name: error.rel_l2 / setup.prediction.tensors[name].recipe.rel_l2
        for name, error in step_errors(tensors, setup.sound, shape).items()
    }
    farthest = max(distances, key=lambda name: distances[name])
    return Judgement(
        path=_missed(apply(calibrated, reference="fp32", errors=against_fp32)),
        stage=_missed(apply(calibrated, reference="stage", errors=stage_errors(path, staged))),
        seed=_missed(apply(seed, reference="bf16", errors=against_bf16)),
        moved=distances[farthest],
        moved_tensor=farthest,
    )


def _missed(verdicts: list[Verdict]) -> list[str]:
    return [verdict.tensor for verdict in verdicts if verdict.passed is False]


def table() -> str:
    """Return the table of docs/numerics.md: every fault with both initialisations."""
    head = ["fault", *(f"{column} ({init})" for init in INIT_STDS for column in _COLUMNS)]
    rows = [("none", sound), *((mutant.name, mutant.plant) for mutant in MUTANTS)]
    return markdown(
        head,
        [
            [name, *(cell for init in INIT_STDS for cell in _cells(judgement(init, plant)))]
            for name, plant in rows
        ],
    )


_COLUMNS = ("moves", "path", "stage", "seed", "seed, out alone")


def _cells(result: Judgement) -> list[str]:
    return [
        f"{result.moved:.1f}",
        _caught(result.path),
        _caught(result.stage),
        _caught(result.seed),
        _caught([name for name in result.seed if name == OUTPUT]),
    ]


def _caught(tensors: list[str]) -> str:
    return f"caught ({len(tensors)})" if tensors else "-"


if __name__ == "__main__":
    rewrite(Path(sys.argv[1]), {"mutants": table})
