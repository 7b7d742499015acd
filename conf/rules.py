"""Constraints on the values of a configuration, checked before anything starts.

A value that no recipe and no GPU could take is a `Problem`. A value that only one recipe or one
GPU cannot take is not a mistake: such a point is UNSUPPORTED (`mxfp8_attention.capability`).
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from conf.choices import Backend, QkvFormat, RopeTable, Scheduler
from conf.problem import Problem
from conf.schema import (
    RECIPES,
    TOLERANCES,
    Benchmark,
    CalibratedTolerance,
    Gpu,
    Point,
    Recipe,
    SeedTolerance,
    Shape,
    Tolerance,
)
from conf.site import SCHEDULER_KEYS, Cluster
from conf.verbs import Run

MAX_RESAMPLES = 100_000  # each resample holds every sample; more narrow no interval
MAX_STEP_VALUES = 2**40  # elements of one activation: a petabyte is a typing error
YEAR_S = 365 * 24 * 3600
MAX_COUNT = 2**31 - 1  # SLURM's counters are 32 bits wide
MAX_NICE = 2**31 - 3  # sbatch's own limit
MAX_MEMORY_GIB = 2**20
MAX_LOG_MIB = 2**20


class Bound(NamedTuple):
    """Range of a number; None means unbounded."""

    least: float | None = None
    most: float | None = None
    above: float | None = None


_POSITIVE = Bound(above=0)
_BOUNDS = {
    "gpu.peak_bf16_tflops": _POSITIVE,
    "gpu.peak_fp8_tflops": _POSITIVE,
    "gpu.peak_mxfp8_tflops": _POSITIVE,
    "gpu.bandwidth_tb_per_s": _POSITIVE,
    "gpu.memory_gib": _POSITIVE,
    "shape.batch": Bound(1),
    "shape.seq_len": Bound(1),
    "shape.hidden": Bound(1),
    "shape.num_heads": Bound(1),
    "shape.head_dim_nope": Bound(2),
    "shape.head_dim_rope": Bound(2),
    "shape.head_dim_v": Bound(2),
    "shape.init_std": _POSITIVE,
    "shape.rope_base": _POSITIVE,
    "shape.seed": Bound(0),
    "benchmark.blocks": Bound(1),
    "benchmark.iterations_per_block": Bound(1),
    "benchmark.bootstrap_resamples": Bound(1, MAX_RESAMPLES),
    "benchmark.settle_iterations": Bound(0),
    "benchmark.budget_s": Bound(above=0, most=YEAR_S),
    "benchmark.warmup_min_iterations": Bound(0),
    "benchmark.min_fprop_speedup": _POSITIVE,
    "benchmark.min_bprop_speedup": _POSITIVE,
    "launch.points_per_job": Bound(1, MAX_COUNT),
    "launch.max_parallel": Bound(1, MAX_COUNT),
    "launch.cpus_per_task": Bound(1, MAX_COUNT),
    "launch.retries": Bound(0, MAX_COUNT),
    "launch.max_log_mib": Bound(1, MAX_LOG_MIB),
    "launch.time_min": Bound(1, YEAR_S // 60),
    "launch.point_time_limit_s": Bound(1, YEAR_S),
    "launch.memory_gib": Bound(above=0, most=MAX_MEMORY_GIB),
}
_YARN_BOUNDS = {
    "shape.rope_base": Bound(above=1),
    "shape.yarn_factor": _POSITIVE,
    "shape.yarn_original_seq_len": Bound(1),
    "shape.yarn_beta_slow": _POSITIVE,
}


def problems(config: Run) -> list[Problem]:
    """Return every problem of a configuration of run, sweep or plan."""
    return number_problems(config) or [
        *point_problems(config),
        *_cluster(config.cluster),
        *_group_bounds("launch", config.launch),
    ]


def point_problems(point: Point) -> list[Problem]:
    """Return every problem of a point; the node checks these again."""
    return number_problems(point) or [
        *_gpu(point.gpu),
        *_shape(point.shape),
        *_variant("recipe", point.recipe, RECIPES[point.recipe.name]),
        *_variant("tolerance", point.tolerance, TOLERANCES[point.tolerance.name]),
        *_tolerance(point.tolerance),
        *_benchmark(point.benchmark),
        *_speedup_gates(point),
    ]


def shape_problems(shape: Shape) -> list[Problem]:
    """Return every problem of a shape by itself."""
    return list(_numbers(shape, "shape")) or list(_shape(shape))


def number_problems(config: object) -> list[Problem]:
    """Return every number of any verb's configuration that is not finite or exceeds 64 bits.

    The other rules compute with the numbers, so they are checked only if this list is empty.
    """
    return list(_numbers(config, ""))


def _numbers(value: object, key: str) -> Iterator[Problem]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            name = f"{key}.{field.name}" if key else field.name
            yield from _numbers(getattr(value, field.name), name)
    elif isinstance(value, float) and not math.isfinite(value):
        yield Problem(key, "be a finite number", value)
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        yield Problem(key, "fit into 64 bits", value)


def _group_bounds(
    group: str, holder: object, bounds: dict[str, Bound] = _BOUNDS
) -> Iterator[Problem]:
    for key, bound in bounds.items():
        parent, _, name = key.partition(".")
        if parent == group and hasattr(holder, name):
            yield from _bounded(key, getattr(holder, name), bound)


def _bounded(key: str, value: float | None, bound: Bound) -> Iterator[Problem]:
    if value is None:
        return
    if bound.least is not None and value < bound.least:
        yield Problem(key, f"be at least {bound.least}", value)
    if bound.above is not None and value <= bound.above:
        yield Problem(key, f"be greater than {bound.above}", value)
    if bound.most is not None and value > bound.most:
        yield Problem(key, f"be at most {bound.most}", value)


def _gpu(gpu: Gpu) -> Iterator[Problem]:
    if gpu.device not in ("cpu", "cuda"):
        yield Problem("gpu.device", "be cpu or cuda", gpu.device)
    capability = gpu.compute_capability
    if capability is not None and not re.fullmatch(r"\d+\.\d", capability):
        yield Problem("gpu.compute_capability", 'have the form "10.3"', capability)
    yield from _group_bounds("gpu", gpu)


def _shape(shape: Shape) -> Iterator[Problem]:
    yield from _group_bounds("shape", shape)
    for name in ("head_dim_nope", "head_dim_rope", "head_dim_v"):
        if getattr(shape, name) % 2:
            yield Problem(f"shape.{name}", "be even", getattr(shape, name))
    if shape.rope_table is RopeTable.yarn:
        yield from _yarn(shape)
    if shape.qkv_format is not QkvFormat.sbhd:
        remedy = "linear layers and attention support sbhd only (RoPE alone also bshd and thd)"
        yield Problem("shape.qkv_format", "be sbhd", shape.qkv_format, remedy)
    width, source = shape.num_heads * (2 * shape.head_dim_qk + shape.head_dim_v), "the QKV width"
    if shape.hidden > width:
        width, source = shape.hidden, "shape.hidden"
    if shape.tokens * width > MAX_STEP_VALUES:
        yield Problem(
            f"shape.batch x shape.seq_len x {source}",
            f"be at most {MAX_STEP_VALUES} (2**40)",
            shape.tokens * width,
        )


def _yarn(shape: Shape) -> Iterator[Problem]:
    yield from _group_bounds("shape", shape, _YARN_BOUNDS)
    if shape.yarn_beta_fast <= shape.yarn_beta_slow:
        constraint = f"be greater than shape.yarn_beta_slow ({shape.yarn_beta_slow})"
        yield Problem("shape.yarn_beta_fast", constraint, shape.yarn_beta_fast)


def _variant(group: str, value: Recipe | Tolerance, kind: type) -> Iterator[Problem]:
    """A name selects the type of its group's other keys, so it cannot be set on its own."""
    if type(value) is not kind:
        remedy = f"use {group}={value.name.name}"
        yield Problem(f"{group}.name", f"fit the other keys of {group}", value.name, remedy)


def _tolerance(tolerance: Tolerance) -> Iterator[Problem]:
    for field in dataclasses.fields(tolerance):
        value = getattr(tolerance, field.name)
        if isinstance(value, float):
            yield from _bounded(f"tolerance.{field.name}", value, Bound(0))
    if isinstance(tolerance, SeedTolerance):
        share = Bound(most=1)
        yield from _bounded("tolerance.max_outside_share", tolerance.max_outside_share, share)
    if isinstance(tolerance, CalibratedTolerance):
        for kind in ("", "worst_head_", "stage_"):
            lower, upper = f"{kind}lower_factor", f"{kind}upper_factor"
            low, high = getattr(tolerance, lower), getattr(tolerance, upper)
            if 0 <= high < low:
                yield Problem(f"tolerance.{lower}", f"be at most tolerance.{upper} ({high})", low)


def _benchmark(benchmark: Benchmark) -> Iterator[Problem]:
    yield from _group_bounds("benchmark", benchmark)
    least = benchmark.warmup_min_iterations
    if benchmark.warmup_max_iterations < least:
        constraint = f"be at least benchmark.warmup_min_iterations ({least})"
        value = benchmark.warmup_max_iterations
        yield Problem("benchmark.warmup_max_iterations", constraint, value)
    if not 0 < benchmark.confidence < 1:
        yield Problem("benchmark.confidence", "be between 0 and 1", benchmark.confidence)


def _speedup_gates(point: Point) -> Iterator[Problem]:
    for name in ("min_fprop_speedup", "min_bprop_speedup"):
        key, gate = f"benchmark.{name}", getattr(point.benchmark, name)
        if gate is None:
            continue
        if not point.benchmark.enabled:
            remedy = "use benchmark=default"
            yield Problem(key, "be null if benchmark.enabled is false", gate, remedy)
        if point.backend is Backend.emulated:
            constraint = "be null with backend=emulated, which does not measure hardware"
            yield Problem(key, constraint, gate, "use backend=te on a GPU")


def _cluster(cluster: Cluster) -> Iterator[Problem]:
    for field in dataclasses.fields(cluster):
        value = getattr(cluster, field.name)
        if isinstance(value, str) and ("\n" in value or "\0" in value):
            yield Problem(f"cluster.{field.name}", "be one line", value)
    for name in cluster.env:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            yield Problem("cluster.env", "have names of letters, digits and _", name)
    for line in cluster.setup:
        if line in (
            "True",
            "False",
        ):  # what OmegaConf makes of a boolean
            word = line.lower()
            remedy = f"quote it: ['{word}']"
            yield Problem("cluster.setup", "be a list of shell lines", word == "true", remedy)
    for mount in cluster.container.mounts:
        if mount.count(":") not in (1, 2):
            constraint = 'have the form "host:container[:flags]"'
            yield Problem("cluster.container.mounts", constraint, mount)
    yield from _python("cluster.python", cluster.python)
    yield from _python("cluster.container.python", cluster.container.python)
    inside = cluster.container.pythonpath
    if inside is not None and (not inside.startswith("/") or ":" in inside):
        constraint = "be one absolute path without a colon"
        yield Problem("cluster.container.pythonpath", constraint, inside)
    if cluster.scheduler is Scheduler.local:
        yield from _local(cluster)
    else:
        yield from _bounded("cluster.nice", cluster.nice, Bound(-MAX_NICE, MAX_NICE))


def _python(key: str, python: str | None) -> Iterator[Problem]:
    if python is None:
        return
    if not python.strip():
        yield Problem(key, "name an interpreter", python)
    elif "/" in python and not python.startswith("/"):
        here = os.path.abspath(os.path.expanduser(python))
        remedy = f"use {here}" if key == "cluster.python" else ""
        yield Problem(key, "be an absolute path or a command in the node's PATH", python, remedy)


def _local(cluster: Cluster) -> Iterator[Problem]:
    """Keys that only a scheduler can honour; a local cluster would ignore them."""
    values = {"container.image": cluster.container.image}
    values |= {name: getattr(cluster, name) for name in SCHEDULER_KEYS}
    for name, value in values.items():
        if value is not None:
            constraint = "be null with a local cluster"
            yield Problem(f"cluster.{name}", constraint, value, "use cluster=slurm")
    remedies = {
        "sbatch": "use cluster=slurm",
        "srun": "use cluster=slurm",
        "setup": "type the lines into this shell instead",
    }
    for name, remedy in remedies.items():
        if value := getattr(cluster, name):
            yield Problem(f"cluster.{name}", "be empty with a local cluster", value, remedy)
