"""The attention job: both arms are run, judged against FP32 and each other, and timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from conf.choices import Backend, RecipeName
from conf.schema import Benchmark, Bf16Recipe, Point, Recipe
from jobs.node.benchmark import BASELINE, DIRECTIONS, RECIPE, Collection, collect, speedup, timing
from jobs.node.clock import Clock, clock_for
from jobs.node.draft import Draft
from jobs.node.outcome import End
from jobs.node.telemetry import Telemetry, is_throttled
from jobs.node.validate import expectation, validate
from jobs.record import ArmBenchmark, BenchmarkResult, Outcome
from mxfp8_attention.model import Case, make_case
from mxfp8_attention.model import Path as AttentionPath

PathBuilder = Callable[[str, Recipe, Case], AttentionPath]
Say = Callable[[str], None]


@dataclass
class Arm:
    """One arm after its first step.

    Attributes:
        name: recipe or bf16.
        path: What computes it.
        tensors: What its validated step gave, by name; emptied once judged.
        first_iteration_ms: Its first step, library start-up and compilation included.
        peak_memory_gib: Weights, activations and gradients of one step at their peak.
    """

    name: str
    path: AttentionPath
    tensors: dict[str, Tensor]
    first_iteration_ms: float
    peak_memory_gib: float | None


def run_attention(
    draft: Draft, attempt_dir: Path, build: PathBuilder, telemetry: Telemetry, say: Say
) -> End:
    """Validates and benchmarks one point.

    Args:
        draft: The record so far; filled in.
        attempt_dir: Where a profiler's files go.
        build: Makes an arm.
        telemetry: Watches the GPU.
        say: Tells progress.

    Returns:
        PASSED, or FAILED with every gate that was missed.
    """
    point = draft.point_file.point
    clock = clock_for(point.gpu.device)
    prediction = expectation(point, say)  # before the arms: it needs their memory
    case = make_case(point.shape, point.gpu.device)
    arms = {
        name: _first_step(name, build(point.backend.name, recipe, case), clock, say)
        for name, recipe in ((RECIPE, point.recipe), (BASELINE, Bf16Recipe()))
    }
    reference = build("reference", point.recipe, case).step()
    say("FP32 reference done")
    draft.validation = validate(
        point, arms[RECIPE].tensors, arms[BASELINE].tensors, reference, prediction
    )
    failures = list(draft.validation.failures)
    del reference
    for arm in arms.values():
        arm.tensors = {}
    if point.benchmark.enabled:
        draft.benchmark = _benchmark(draft, point, arms, clock, telemetry, say)
        failures += missed_speedups(draft.benchmark, point)
    if failures:
        return End(Outcome.FAILED, _summary(failures))
    return End(Outcome.PASSED, _passed(draft))


def missed_speedups(benchmark: BenchmarkResult, point: Point) -> list[str]:
    """The speed gates that were not met.

    Args:
        benchmark: What was measured.
        point: Its gates. They do not apply to recipe=bf16, which is compared with itself.

    Returns:
        One sentence each.
    """
    if point.recipe.name is RecipeName.bf16:
        return []
    missed = []
    for direction, found in (
        ("fprop", benchmark.fprop_speedup),
        ("bprop", benchmark.bprop_speedup),
    ):
        least = getattr(point.benchmark, f"min_{direction}_speedup")
        if least is None:
            continue
        if found is None:
            missed.append(
                f"{direction} speedup must be at least {least}, but every block throttled"
            )
        elif found.ratio < least:
            missed.append(
                f"{direction} speedup must be at least {least}, got {found.ratio:.3f} "
                f"[{found.low:.3f}, {found.high:.3f}]"
            )
    return missed


def _first_step(name: str, path: AttentionPath, clock: Clock, say: Say) -> Arm:
    tensors: dict[str, Tensor] = {}

    def step() -> None:
        tensors.update(path.step())

    on_gpu = path.x_SBC.is_cuda
    first_ms = clock.once_ms(step)
    peak = None
    if on_gpu:
        peak = _peak_memory_gib(path, clock)
    say(f"arm {name} ({path.name}): first step {first_ms:.0f} ms")
    return Arm(name, path, tensors, first_ms, peak)


def _peak_memory_gib(path: AttentionPath, clock: Clock) -> float:
    path.zero_grad()
    clock.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    path.bprop(path.fprop())
    clock.synchronize()
    grown = torch.cuda.max_memory_allocated() - before
    path.zero_grad()
    weights = sum(leaf.numel() * leaf.element_size() for leaf in path.parameters().values())
    return (grown + weights) / 2**30


def _benchmark(
    draft: Draft,
    point: Point,
    arms: dict[str, Arm],
    clock: Clock,
    telemetry: Telemetry,
    say: Say,
) -> BenchmarkResult:
    method = point.benchmark

    def watch() -> bool:
        seen = telemetry.samples("during")
        draft.telemetry += seen
        return any(is_throttled(sample.throttle_reasons) for sample in seen)

    paths = {name: arm.path for name, arm in arms.items()}
    collection = collect(paths, method, clock, watch, progress=say)
    claim = _claim(point)
    return BenchmarkResult(
        method=method.name,
        statistic=method.statistic.name,
        confidence=method.confidence,
        arms=[_arm(arm, collection, method, point) for arm in arms.values()],
        fprop_speedup=speedup(collection, "fprop", method, claim),
        bprop_speedup=speedup(collection, "bprop", method, claim),
        warmup_iterations=collection.warmup_iterations,
        notes=_notes(collection, method, point),
    )


def _arm(arm: Arm, collection: Collection, method: Benchmark, point: Point) -> ArmBenchmark:
    fprop, bprop = (
        timing(collection, arm.name, direction, method, point.shape.tokens)
        for direction in DIRECTIONS
    )
    return ArmBenchmark(
        arm=arm.name,
        precision=arm.path.precision,
        emulated=arm.path.emulated,
        fprop=fprop,
        bprop=bprop,
        first_iteration_ms=arm.first_iteration_ms,
        peak_memory_gib=arm.peak_memory_gib,
    )


def _claim(point: Point) -> str:
    if point.backend is Backend.emulated:
        return "emulated"
    return "noise" if point.recipe.name is RecipeName.bf16 else "speedup"


def _notes(collection: Collection, method: Benchmark, point: Point) -> list[str]:
    notes = []
    if not collection.stable and method.warmup_max_iterations > method.warmup_min_iterations:
        notes.append(f"times not stable after {collection.warmup_iterations} warm-up iterations")
    if collection.throttled_blocks:
        notes.append(
            f"{collection.throttled_blocks} of {len(collection.blocks)} blocks ran throttled "
            "and are left out of the figures"
        )
    gated = method.min_fprop_speedup is not None or method.min_bprop_speedup is not None
    if gated and point.recipe.name is RecipeName.bf16:
        notes.append("speed gates do not apply to recipe=bf16, which is compared with itself")
    return notes


def _summary(failures: list[str]) -> str:
    more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
    return failures[0] + more


def _passed(draft: Draft) -> str:
    point = draft.point_file.point
    judged = draft.validation is not None and draft.validation.passed is not None
    words = f"within tolerance {point.tolerance.name.name}" if judged else "nothing was gated"
    if point.backend is Backend.emulated:
        words += "; emulated: checks this code, not hardware"
    return words
