"""What a point's values must be: one sentence for each that cannot be, with the remedy.

A value that no recipe and no hardware could take is refused here, before anything starts. What one
recipe or one GPU cannot take is no mistake: it is UNSUPPORTED (`mxfp8_attention.limits`).
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Iterator

from conf.choices import Backend, QkvFormat, RopeTable, Scheduler
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
from conf.site import SCHEDULER_KEYS, Cluster, Launch
from conf.verbs import Run

MAX_RESAMPLES = 100_000  # more make an interval no better, and each holds every sample
MAX_STEP_VALUES = 2**40  # elements of one activation: a petabyte is a typing error
YEAR_S = 365 * 24 * 3600
MAX_COUNT = 2**31 - 1  # what SLURM keeps a count in
MAX_NICE = 2**31 - 3  # what sbatch takes
MAX_MEMORY_GIB = 2**20
MAX_LOG_MIB = 2**20


def problems(config: Run) -> list[str]:
    """Every rule that a run's configuration breaks.

    Args:
        config: A typed configuration of run, sweep or plan.

    Returns:
        Sentences of the form "`key` must rule, got value; remedy"; none where all hold.
    """
    return number_problems(config) or [
        *point_problems(config),
        *_cluster(config.cluster),
        *_launch(config.launch),
    ]


def point_problems(point: Point) -> list[str]:
    """Every rule that a point breaks; what the node checks again."""
    return number_problems(point) or [
        *_gpu(point.gpu),
        *_shape(point.shape),
        *_variant("recipe", point.recipe, RECIPES[point.recipe.name]),
        *_variant("tolerance", point.tolerance, TOLERANCES[point.tolerance.name]),
        *_tolerance(point.tolerance),
        *_benchmark(point.benchmark),
        *_backend(point),
    ]


def shape_problems(shape: Shape) -> list[str]:
    """Every rule that a shape by itself breaks."""
    return list(_numbers(shape, "shape")) or list(_shape(shape))


def number_problems(config: object) -> list[str]:
    """Every number that nothing can reckon with: NaN, infinite, or wider than 64 bits.

    Args:
        config: A point, or the whole configuration of any verb.

    Returns:
        Sentences, as `problems` has them; what else is wrong can be told without these alone.
    """
    return list(_numbers(config, ""))


def _numbers(value: object, key: str) -> Iterator[str]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            name = f"{key}.{field.name}" if key else field.name
            yield from _numbers(getattr(value, field.name), name)
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{key} must be a finite number, got {value}"
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        yield f"{key} must fit into 64 bits, got {value}"


def _between(key: str, value: float, low: float, high: float) -> Iterator[str]:
    yield from _at_least(key, value, low)
    if value > high:
        yield f"{key} must be at most {high}, got {value}"


def _at_least(key: str, value: float, low: float) -> Iterator[str]:
    if value < low:
        yield f"{key} must be at least {low}, got {value}"


def _above_zero(key: str, value: float) -> Iterator[str]:
    if value <= 0:
        yield f"{key} must be greater than 0, got {value}"


def _gpu(gpu: Gpu) -> Iterator[str]:
    if gpu.device not in ("cpu", "cuda"):
        yield f"gpu.device must be cpu or cuda, got {gpu.device!r}"
    capability = gpu.compute_capability
    if capability is not None and not re.fullmatch(r"\d+\.\d", capability):
        yield f'gpu.compute_capability must read like "10.3", got {capability!r}'
    for name in (
        "peak_bf16_tflops",
        "peak_fp8_tflops",
        "peak_mxfp8_tflops",
        "bandwidth_tb_per_s",
        "memory_gib",
    ):
        peak = getattr(gpu, name)
        if peak is not None:
            yield from _above_zero(f"gpu.{name}", peak)


def _shape(shape: Shape) -> Iterator[str]:
    for name in ("batch", "seq_len", "hidden", "num_heads"):
        yield from _at_least(f"shape.{name}", getattr(shape, name), 1)
    for name in ("head_dim_nope", "head_dim_rope", "head_dim_v"):
        width = getattr(shape, name)
        yield from _at_least(f"shape.{name}", width, 2)
        if width % 2:
            yield f"shape.{name} must be even, got {width}"
    yield from _above_zero("shape.init_std", shape.init_std)
    yield from _above_zero("shape.rope_base", shape.rope_base)
    if not 0 <= shape.seed < 2**63:
        yield f"shape.seed must be between 0 and 2**63 - 1, got {shape.seed}"
    if shape.rope_table is RopeTable.yarn:
        yield from _above_zero("shape.yarn_factor", shape.yarn_factor)
        if shape.rope_base <= 1:
            yield (
                "shape.rope_base must be greater than 1 with shape.rope_table=yarn, "
                f"got {shape.rope_base}"
            )
        yield from _at_least("shape.yarn_original_seq_len", shape.yarn_original_seq_len, 1)
        yield from _above_zero("shape.yarn_beta_slow", shape.yarn_beta_slow)
        if shape.yarn_beta_fast <= shape.yarn_beta_slow:
            yield (
                f"shape.yarn_beta_fast must be greater than shape.yarn_beta_slow "
                f"({shape.yarn_beta_slow}), got {shape.yarn_beta_fast}"
            )
    if shape.qkv_format is not QkvFormat.sbhd:
        yield (
            f"shape.qkv_format must be sbhd, got {shape.qkv_format.name}: the path through "
            "linear layers and attention runs sbhd only (RoPE alone also takes bshd and thd)"
        )
    width = shape.num_heads * (2 * shape.head_dim_qk + shape.head_dim_v)
    made_of = (
        "shape.num_heads times 2 (shape.head_dim_nope + shape.head_dim_rope) + shape.head_dim_v"
    )
    if shape.hidden > width:
        width, made_of = shape.hidden, "shape.hidden"
    if shape.tokens * width > MAX_STEP_VALUES:
        yield (
            f"shape.seq_len times shape.batch times the widest layer must be at most 2**40 "
            f"values, got {shape.seq_len} x {shape.batch} x {width}, which is {made_of}"
        )


def _variant(group: str, value: Recipe | Tolerance, kind: type) -> Iterator[str]:
    """A recipe's or a tolerance's name stands for its keys; it cannot be set apart from them."""
    if type(value) is not kind:
        name = value.name.name
        yield f"{group}.name must fit the other keys of {group}, got {name}; use {group}={name}"


def _tolerance(tolerance: Tolerance) -> Iterator[str]:
    for field in dataclasses.fields(tolerance):
        value = getattr(tolerance, field.name)
        if isinstance(value, float):
            yield from _at_least(f"tolerance.{field.name}", value, 0)
    if isinstance(tolerance, SeedTolerance) and tolerance.max_outside_share > 1:
        share = tolerance.max_outside_share
        yield f"tolerance.max_outside_share must be at most 1, got {share}"
    if isinstance(tolerance, CalibratedTolerance):
        for kind in ("", "worst_head_", "stage_"):
            lower, upper = (f"{kind}{end}_factor" for end in ("lower", "upper"))
            low, high = getattr(tolerance, lower), getattr(tolerance, upper)
            if 0 <= high < low:
                yield f"tolerance.{lower} must be at most tolerance.{upper} ({high}), got {low}"


def _benchmark(benchmark: Benchmark) -> Iterator[str]:
    for name in ("blocks", "iterations_per_block", "bootstrap_resamples"):
        yield from _at_least(f"benchmark.{name}", getattr(benchmark, name), 1)
    if benchmark.bootstrap_resamples > MAX_RESAMPLES:
        yield (
            f"benchmark.bootstrap_resamples must be at most {MAX_RESAMPLES}, "
            f"got {benchmark.bootstrap_resamples}"
        )
    yield from _at_least("benchmark.settle_iterations", benchmark.settle_iterations, 0)
    yield from _above_zero("benchmark.budget_s", benchmark.budget_s)
    if benchmark.budget_s > YEAR_S:
        yield f"benchmark.budget_s must be at most {YEAR_S}, a year, got {benchmark.budget_s}"
    yield from _at_least("benchmark.warmup_min_iterations", benchmark.warmup_min_iterations, 0)
    if benchmark.warmup_max_iterations < benchmark.warmup_min_iterations:
        yield (
            "benchmark.warmup_max_iterations must be at least benchmark.warmup_min_iterations "
            f"({benchmark.warmup_min_iterations}), got {benchmark.warmup_max_iterations}"
        )
    if not 0 < benchmark.confidence < 1:
        yield f"benchmark.confidence must lie between 0 and 1, got {benchmark.confidence}"
    for name in ("min_fprop_speedup", "min_bprop_speedup"):
        gate = getattr(benchmark, name)
        if gate is not None:
            yield from _above_zero(f"benchmark.{name}", gate)
            if not benchmark.enabled:
                yield (
                    f"benchmark.{name} must be null where nothing is timed, got {gate}; "
                    "use benchmark=default"
                )


def _backend(point: Point) -> Iterator[str]:
    for name in ("min_fprop_speedup", "min_bprop_speedup"):
        gate = getattr(point.benchmark, name)
        if point.backend is Backend.emulated and gate is not None:
            yield (
                f"benchmark.{name} must be null with backend=emulated, whose times say nothing "
                f"about hardware, got {gate}; use backend=te on a GPU"
            )


def _cluster(cluster: Cluster) -> Iterator[str]:
    for field in dataclasses.fields(cluster):
        value = getattr(cluster, field.name)
        if isinstance(value, str) and ("\n" in value or "\0" in value):
            yield f"cluster.{field.name} must be one line, got {value!r}"
    for name in cluster.env:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            yield f"cluster.env must name variables of letters, digits and _, got {name!r}"
    for line in cluster.setup:
        if line in ("True", "False"):  # what is left of a bool: no shell has such a command
            meant = line.lower()
            yield f"cluster.setup must be shell lines, got the bool {meant}; quote it: ['{meant}']"
    for mount in cluster.container.mounts:
        if mount.count(":") not in (1, 2):
            yield f'cluster.container.mounts must read "host:container[:flags]", got {mount!r}'
    for name, python in (
        ("python", cluster.python),
        ("container.python", cluster.container.python),
    ):
        if python is not None and not python.strip():
            yield f"cluster.{name} must name an interpreter, got {python!r}"
        elif python is not None and "/" in python and not python.startswith("/"):
            here = os.path.abspath(os.path.expanduser(python))
            yield (
                f"cluster.{name} must be an absolute path, or a name that the node's PATH finds, "
                f"got {python!r}" + (f"; use {here}" if name == "python" else "")
            )
    inside = cluster.container.pythonpath
    if inside is not None and (not inside.startswith("/") or ":" in inside):
        yield (
            "cluster.container.pythonpath must be one absolute path without a colon, "
            f"got {inside!r}"
        )
    if cluster.scheduler is Scheduler.local:
        yield from _local(cluster)
    elif cluster.nice is not None:
        yield from _between("cluster.nice", cluster.nice, -MAX_NICE, MAX_NICE)


def _local(cluster: Cluster) -> Iterator[str]:
    """What only a scheduler can do: with a local cluster it would be lost silently."""
    named = {"container.image": cluster.container.image}
    named |= {name: getattr(cluster, name) for name in SCHEDULER_KEYS}
    for name, value in named.items():
        if value is not None:
            yield (
                f"cluster.{name} must be null with a local cluster, got {value!r}; "
                "use cluster=slurm"
            )
    for name in ("sbatch", "srun"):
        value = getattr(cluster, name)
        if value:
            yield (
                f"cluster.{name} must be empty with a local cluster, got {value!r}; "
                "use cluster=slurm"
            )
    if cluster.setup:
        yield (
            "cluster.setup must be empty with a local cluster, got "
            f"{cluster.setup[0]!r}; type it into this shell instead"
        )


def _launch(launch: Launch) -> Iterator[str]:
    for name, low, high in _LAUNCH_RANGES:
        value = getattr(launch, name)
        if value is not None:
            yield from _between(f"launch.{name}", value, low, high)
    if launch.memory_gib is not None:
        yield from _above_zero("launch.memory_gib", launch.memory_gib)
        if launch.memory_gib > MAX_MEMORY_GIB:
            yield (
                f"launch.memory_gib must be at most {MAX_MEMORY_GIB}, a petabyte, "
                f"got {launch.memory_gib}"
            )


_LAUNCH_RANGES = (
    ("points_per_job", 1, MAX_COUNT),
    ("max_parallel", 1, MAX_COUNT),
    ("cpus_per_task", 1, MAX_COUNT),
    ("retries", 0, MAX_COUNT),
    ("max_log_mib", 1, MAX_LOG_MIB),
    ("time_min", 1, YEAR_S // 60),
    ("point_time_limit_s", 1, YEAR_S),
)
