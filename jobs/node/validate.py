"""Compares every tensor of a step with FP32, with the BF16 arm, and stage by stage."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from torch import Tensor

from conf.schema import CalibratedTolerance, Point, SeedTolerance
from jobs.node.output import print_progress
from jobs.record import TensorError, Validation
from mxfp8_attention.accuracy.errors import TensorErrors, step_errors
from mxfp8_attention.accuracy.gates import (
    BF16_ARM,
    BF16_REFERENCE,
    FP32_REFERENCE,
    RECIPE_ARM,
    STAGE_REFERENCE,
    Verdict,
    failures,
    judge,
)
from mxfp8_attention.accuracy.plausibility import check_plausibility
from mxfp8_attention.accuracy.prediction import PREDICTED_HERE, Prediction, predict
from mxfp8_attention.accuracy.store import load_prediction

Tensors = Mapping[str, Tensor]


def expected_errors(point: Point) -> Prediction | None:
    """Return the stored prediction, or one computed here from other seeds than the point's own.

    Only the tolerance `calibrated` has a prediction.
    """
    if not isinstance(point.tolerance, CalibratedTolerance):
        return None
    prediction = load_prediction(point.shape, point.recipe)
    if prediction is None:
        print_progress("no stored prediction: predicting here, from other seeds")
        prediction = predict(point.shape, point.recipe, point.gpu.device)
    return prediction


def validate(
    point: Point,
    recipe: Tensors,
    bf16: Tensors,
    reference: Tensors,
    prediction: Prediction | None,
    stages: Mapping[str, Mapping[str, TensorErrors]],
) -> Validation:
    """Compare and gate the results of both arms.

    `passed` is None if nothing was gated, and never True if a prediction computed here is
    implausible.

    Args:
        point: Shape and tolerance.
        recipe: Tensors of the recipe's arm, as `AttentionPath.step` names them.
        bf16: Tensors of the BF16 arm.
        reference: Tensors of the FP32 path.
        prediction: From `expected_errors`.
        stages: By arm, from `stage_errors`.
    """
    tolerance = point.tolerance
    atol = tolerance.atol if isinstance(tolerance, SeedTolerance) else None
    rtol = tolerance.rtol if isinstance(tolerance, SeedTolerance) else None
    comparisons: list[tuple[str, str, Mapping[str, TensorErrors]]] = [
        (arm, name, step_errors(tensors, against, point.shape, atol=atol, rtol=rtol))
        for arm, tensors, name, against in (
            (RECIPE_ARM, recipe, FP32_REFERENCE, reference),
            (RECIPE_ARM, recipe, BF16_REFERENCE, bf16),
            (BF16_ARM, bf16, FP32_REFERENCE, reference),
        )
    ]
    comparisons += [(arm, STAGE_REFERENCE, errors) for arm, errors in stages.items()]
    rows: list[TensorError] = []
    verdicts: list[Verdict] = []
    for arm, name, errors in comparisons:
        for verdict in judge(
            tolerance, arm=arm, reference=name, errors=errors, prediction=prediction
        ):
            verdicts.append(verdict)
            rows.append(_row(verdict, errors[verdict.tensor]))
    gated = [verdict.passed for verdict in verdicts if verdict.passed is not None]
    doubts = _doubts(point, prediction)
    return Validation(
        tolerance=tolerance.name.name,
        prediction=None if prediction is None else prediction.source,
        tensors=rows,
        passed=(all(gated) and not doubts) if gated or doubts else None,
        failures=list(dict.fromkeys(failures(verdicts) + doubts)),
    )


def _doubts(point: Point, prediction: Prediction | None) -> list[str]:
    """Return the implausible errors of a prediction made by the code under test."""
    if not isinstance(point.tolerance, CalibratedTolerance) or prediction is None:
        return []
    if prediction.source != PREDICTED_HERE:
        return []
    doubts = check_plausibility(prediction, point.recipe, point.tolerance.bf16_rel_l2)
    return [str(doubt) for doubt in doubts]


def _row(verdict: Verdict, errors: TensorErrors) -> TensorError:
    figures = dataclasses.asdict(errors)
    del figures["reference_is_zero"]
    return TensorError(
        tensor=verdict.tensor,
        reference=verdict.reference,
        arm=verdict.arm,
        **figures,
        gate=verdict.gate,
        gate_low=verdict.low,
        gate_high=verdict.high,
        predicted_rel_l2=verdict.predicted_rel_l2,
        passed=verdict.passed,
    )
