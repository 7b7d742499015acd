"""Judges every tensor of a step against FP32, against the BF16 arm, and stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from conf.schema import CalibratedTolerance, Point, SeedTolerance
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


def expectation(point: Point, say: Callable[[str], None]) -> Prediction | None:
    """What the point's errors should be, where its tolerance asks for that.

    Args:
        point: Shape, recipe and tolerance.
        say: Told that a prediction is computed, which takes a while.

    Returns:
        The stored prediction, else one computed here from other seeds than the point's own;
        None under another tolerance than `calibrated`.
    """
    if not isinstance(point.tolerance, CalibratedTolerance):
        return None
    found = load_prediction(point.shape, point.recipe)
    if found is None:
        say("no stored prediction: predicting here, from other seeds")
        found = predict(point.shape, point.recipe, point.gpu.device)
    return found


def validate(
    point: Point,
    recipe: Tensors,
    bf16: Tensors,
    reference: Tensors,
    prediction: Prediction | None,
    stages: Mapping[str, Mapping[str, TensorErrors]],
) -> Validation:
    """Compares and judges what the arms computed.

    Args:
        point: Shape and tolerance.
        recipe: The recipe arm's tensors, as `AttentionPath.step` names them.
        bf16: The BF16 arm's.
        reference: The FP32 path's.
        prediction: What `expectation` gave.
        stages: By arm, what `stage_errors` gave.

    Returns:
        Every error with its gate and verdict; `passed` is None where nothing was gated, and
        never True where a prediction computed here is implausible.
    """
    tolerance = point.tolerance
    atol = tolerance.atol if isinstance(tolerance, SeedTolerance) else None
    rtol = tolerance.rtol if isinstance(tolerance, SeedTolerance) else None
    rows: list[TensorError] = []
    verdicts: list[Verdict] = []
    for arm, tensors, name, against in (
        (RECIPE_ARM, recipe, FP32_REFERENCE, reference),
        (RECIPE_ARM, recipe, BF16_REFERENCE, bf16),
        (BF16_ARM, bf16, FP32_REFERENCE, reference),
    ):
        errors = step_errors(tensors, against, point.shape, atol=atol, rtol=rtol)
        judged = judge(tolerance, arm=arm, reference=name, errors=errors, prediction=prediction)
        verdicts += judged
        rows += [_row(verdict, errors[verdict.tensor]) for verdict in judged]
    for arm, errors_by_stage in stages.items():
        judged = judge(
            tolerance,
            arm=arm,
            reference=STAGE_REFERENCE,
            errors=errors_by_stage,
            prediction=prediction,
        )
        verdicts += judged
        rows += [_row(verdict, errors_by_stage[verdict.tensor]) for verdict in judged]
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
    """What speaks against a prediction that came from the code under test."""
    if not isinstance(point.tolerance, CalibratedTolerance) or prediction is None:
        return []
    if prediction.source != PREDICTED_HERE:
        return []
    found = check_plausibility(prediction, point.recipe, point.tolerance.bf16_rel_l2)
    return [str(implausibility) for implausibility in found]


def _row(verdict: Verdict, errors: TensorErrors) -> TensorError:
    return TensorError(
        tensor=verdict.tensor,
        reference=verdict.reference,
        arm=verdict.arm,
        rel_l2=errors.rel_l2,
        worst_head_rel_l2=errors.worst_head_rel_l2,
        worst_head=errors.worst_head,
        max_abs=errors.max_abs,
        rmse=errors.rmse,
        cosine=errors.cosine,
        nonfinite_count=errors.nonfinite_count,
        outside_share=errors.outside_share,
        gate=verdict.gate,
        gate_low=verdict.low,
        gate_high=verdict.high,
        predicted_rel_l2=verdict.predicted_rel_l2,
        passed=verdict.passed,
    )
