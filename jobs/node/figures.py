"""Samples become the record's figures: times, rates, shares of peak and roofline, speedups."""

from __future__ import annotations

from collections.abc import Mapping

from conf.choices import Backend, RecipeName
from conf.schema import Benchmark, Point, Recipe
from jobs.node.arms import Arm
from jobs.node.benchmark import RECIPE, Collection, speedup, timing
from jobs.record import DIRECTIONS, ArmBenchmark, BenchmarkResult, StageTiming, Timing
from mxfp8_attention.flops import floor_ms, peak_tflops, stage_costs, total_floor_ms, total_flops


def benchmark_result(
    arms: Mapping[str, Arm],
    collection: Collection,
    point: Point,
    stages: list[StageTiming],
    notes: list[str],
) -> BenchmarkResult:
    """Everything that was measured, as the record has it.

    Args:
        arms: By name.
        collection: The samples.
        point: Shape, GPU and method.
        stages: Times of the stages.
        notes: What a reader must know besides.

    Returns:
        The benchmark.
    """
    method = point.benchmark
    return BenchmarkResult(
        method=method.name,
        statistic=method.statistic.name,
        confidence=method.confidence,
        arms=[_arm(arm, collection, point) for arm in arms.values()],
        fprop_speedup=speedup(collection, "fprop", method, claim(point)),
        bprop_speedup=speedup(collection, "bprop", method, claim(point)),
        stages=stages,
        warmup_iterations=collection.warmup_iterations,
        notes=_notes(collection, method, point) + notes,
    )


def stage_timing(
    arm: Arm, stage: str, direction: str, median_ms: float, point: Point
) -> StageTiming:
    """One stage's time with its rate and its share of the roofline.

    Args:
        arm: Whose.
        stage: qkv, rope, attention or out.
        direction: fprop or bprop.
        median_ms: Its time.
        point: Shape and GPU.

    Returns:
        The figures; no rate where a stage has no matrix product, nor from an emulated arm.
    """
    cost = next(
        cost
        for cost in stage_costs(point.shape, arm.recipe)
        if (cost.stage, cost.direction) == (stage, direction)
    )
    floor = None if arm.path.emulated else floor_ms(cost, point.gpu)
    rated = cost.flops > 0 and not arm.path.emulated
    return StageTiming(
        arm=arm.name,
        stage=stage,
        direction=direction,
        median_ms=median_ms,
        tflops=cost.flops / (median_ms * 1e9) if rated else None,
        share_of_roofline=None if floor is None else floor / median_ms,
    )


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
        rule = f"{direction} speedup must be at least {least}"
        if found is None:
            missed.append(f"{rule}, but every block ran throttled")
        elif found.ratio < least:
            missed.append(f"{rule}, got {found.ratio:.3f} [{found.low:.3f}, {found.high:.3f}]")
    return missed


def claim(point: Point) -> str:
    """What the ratio of a point's arms stands for."""
    if point.backend is Backend.emulated:
        return "emulated"
    return "noise" if point.recipe.name is RecipeName.bf16 else "speedup"


def _arm(arm: Arm, collection: Collection, point: Point) -> ArmBenchmark:
    fprop, bprop = (
        _with_rates(
            timing(collection, arm.name, direction, point.benchmark, point.shape.tokens),
            arm,
            direction,
            point,
        )
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


def _with_rates(found: Timing, arm: Arm, direction: str, point: Point) -> Timing:
    if arm.path.emulated:
        return found
    shown_ms = found.mean_ms if point.benchmark.statistic.name == "mean" else found.median_ms
    floor = total_floor_ms(point.shape, arm.recipe, point.gpu, direction)
    at_peak_ms = _at_peak_ms(point, arm.recipe, direction)
    return found.model_copy(
        update={
            "tflops": total_flops(point.shape, arm.recipe, direction) / (shown_ms * 1e9),
            "share_of_peak": None if at_peak_ms is None else at_peak_ms / shown_ms,
            "share_of_roofline": None if floor is None else floor / shown_ms,
        }
    )


def _at_peak_ms(point: Point, recipe: Recipe, direction: str) -> float | None:
    """All matrix products at the peak of the precision that each runs in."""
    total = 0.0
    for cost in stage_costs(point.shape, recipe):
        if cost.direction != direction or not cost.flops:
            continue
        peak = peak_tflops(point.gpu, cost.precision)
        if peak is None:
            return None
        total += cost.flops / (peak * 1e9)
    return total


def _notes(collection: Collection, method: Benchmark, point: Point) -> list[str]:
    notes = []
    if not collection.stable and method.warmup_max_iterations > method.warmup_min_iterations:
        notes.append(f"times not stable after {collection.warmup_iterations} warm-up iterations")
    ran = sum(block.arm == RECIPE for block in collection.blocks)
    if ran < collection.planned_blocks:
        notes.append(
            f"stopped after {ran} of {collection.planned_blocks} blocks of each arm: "
            f"benchmark.budget_s={method.budget_s:g}"
        )
    if collection.throttled_blocks:
        notes.append(
            f"{collection.throttled_blocks} of {len(collection.blocks)} blocks ran throttled "
            "and are left out of the figures"
        )
    gated = method.min_fprop_speedup is not None or method.min_bprop_speedup is not None
    if gated and point.recipe.name is RecipeName.bf16:
        notes.append("speed gates do not apply to recipe=bf16, which is compared with itself")
    return notes
