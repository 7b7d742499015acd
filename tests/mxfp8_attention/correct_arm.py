"""Errors of a correct emulated MXFP8 arm at any seed."""

from __future__ import annotations

from conf.schema import MxFp8Recipe, Shape
from mxfp8_attention.accuracy.errors import TensorErrors, step_errors
from mxfp8_attention.accuracy.gates import FP32_REFERENCE, STAGE_REFERENCE
from mxfp8_attention.accuracy.stages import stage_errors, staged_step
from mxfp8_attention.case import make_case
from mxfp8_attention.emulation.layer import EmulatedPath
from mxfp8_attention.reference import ReferencePath


def arm_errors(shape: Shape, seed: int) -> dict[str, dict[str, TensorErrors]]:
    """Return the errors of every tensor over the whole path and by stage."""
    case = make_case(shape, "cpu", seed=seed)
    reference = ReferencePath(case).step()
    path = EmulatedPath(MxFp8Recipe(), case)
    staged = staged_step(path)
    whole = step_errors({name: staged[name] for name in reference}, reference, shape)
    return {FP32_REFERENCE: whole, STAGE_REFERENCE: stage_errors(path, staged)}
