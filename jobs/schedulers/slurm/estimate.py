"""Estimated time and host memory of a point, before anything has run.

A job requests what these estimates say, so they err on the large side.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from conf.choices import Backend, Job
from conf.schema import Point
from mxfp8_attention.flops import projection_width, total_flops

JOB_OVERHEAD_S = 120.0
"""Per job: prologue, container, entry point, and the last minute before the time limit."""

_MARGIN = 1.5
_START_S = {Backend.te: 120.0, Backend.emulated: 30.0}  # imports, kernels compiled on first use
_VALIDATION_STEPS = 12
_ARMS = 2
# An emulated step on two busy cores: its thousands of small operations, then 50 GFLOP/s.
_EMULATED_STEP_S = 0.25
_EMULATED_FLOP_PER_S = 50e9
# A slow GPU's BF16, far from its peak; Transformer Engine's own launch overhead.
_GPU_STEP_S = 0.02
_GPU_FLOP_PER_S = 100e12
_BASE_MIB = {Backend.te: 24 * 1024, Backend.emulated: 1024}
_EMULATED_BYTES_PER_VALUE = 40


def point_time_s(point: Point) -> float:
    """Return the seconds that one point may take, its process included."""
    start = _START_S[point.backend]
    if point.job is Job.probe:
        return start
    flops = sum(total_flops(point.shape, point.recipe, way) for way in ("fprop", "bprop"))
    if point.backend is Backend.emulated:
        step = _EMULATED_STEP_S + flops / _EMULATED_FLOP_PER_S
    else:
        step = _GPU_STEP_S + flops / _GPU_FLOP_PER_S
    steps = _VALIDATION_STEPS
    if point.benchmark.enabled:
        timed = point.benchmark.blocks * point.benchmark.iterations_per_block
        steps += _ARMS * (point.benchmark.warmup_max_iterations + timed)
        steps *= 2 if point.benchmark.stages else 1
    return start + steps * step


def job_time_min(points: Iterable[Point], point_time_limit_s: int | None = None) -> int:
    """Return the minutes that a job of these points requests, margin included."""
    if point_time_limit_s is not None:
        total = sum(float(point_time_limit_s) for _ in points)
    else:
        total = _MARGIN * sum(point_time_s(point) for point in points)
    return math.ceil((total + JOB_OVERHEAD_S) / 60)


def memory_mib(point: Point) -> int:
    """Return the host memory in MiB that one point's process needs."""
    base = _BASE_MIB[point.backend]
    if point.backend is not Backend.emulated or point.job is Job.probe:
        return base
    shape = point.shape
    width = projection_width(shape) + shape.num_heads * shape.head_dim_v
    values = shape.hidden * width + shape.tokens * (2 * shape.hidden + width)
    return base + math.ceil(values * _EMULATED_BYTES_PER_VALUE / 2**20)
