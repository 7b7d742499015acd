"""Figures of a benchmark: from samples to times with intervals, rates, shares and speedups.

Samples come in blocks, B blocks of I iterations. The iterations of a block are correlated, so the
bootstrap resamples whole blocks, and both arms' blocks of a pair together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from conf.choices import Backend, Order, RecipeName, Statistic
from conf.schema import Benchmark, Point, Recipe
from jobs.node.arm import BASELINE, RECIPE, Arm
from jobs.node.benchmark import MIN_BLOCKS, Samples
from jobs.record import (
    DIRECTIONS,
    ArmBenchmark,
    BenchmarkResult,
    Speedup,
    StageTiming,
    Timing,
)
from mxfp8_attention.flops import floor_ms, peak_tflops, stage_costs, total_floor_ms, total_flops

_SEED = 20240607


@dataclass(frozen=True)
class Interval:
    """An estimate with its bootstrap interval, in the unit of the estimate."""

    value: float
    low: float
    high: float


def estimate(samples_BI: Tensor, statistic: Statistic) -> float:
    """Return the median or mean of all samples."""
    return float(_reduce(samples_BI.flatten()[None], statistic)[0])


def time_interval(
    samples_BI: Tensor, statistic: Statistic, confidence: float, resamples: int
) -> Interval:
    """Return an arm's time with its percentile interval."""
    samples_BI = _resampling_units(samples_BI)
    picks_RB = _picks(len(samples_BI), resamples, _SEED)
    draws_R = _reduce(samples_BI[picks_RB].flatten(1), statistic)
    return _interval(estimate(samples_BI, statistic), draws_R, confidence)


def ratio_interval(
    baseline_BI: Tensor,
    recipe_BI: Tensor,
    statistic: Statistic,
    confidence: float,
    resamples: int,
    *,
    paired: bool,
) -> Interval:
    """Return statistic(baseline) / statistic(recipe) with its interval.

    `paired` draws block i of both arms together, because both ran side by side.
    """
    baseline_BI, recipe_BI = _resampling_units(baseline_BI), _resampling_units(recipe_BI)
    picks_RB = _picks(len(recipe_BI), resamples, _SEED)
    if paired and len(baseline_BI) == len(recipe_BI):
        baseline_picks_RB = picks_RB
    else:
        baseline_picks_RB = _picks(len(baseline_BI), resamples, _SEED + 1)
    draws_R = _reduce(baseline_BI[baseline_picks_RB].flatten(1), statistic) / _reduce(
        recipe_BI[picks_RB].flatten(1), statistic
    )
    value = estimate(baseline_BI, statistic) / estimate(recipe_BI, statistic)
    return _interval(value, draws_R, confidence)


def benchmark_result(
    arms: Mapping[str, Arm],
    samples: Samples,
    point: Point,
    stages: list[StageTiming],
    notes: list[str],
) -> BenchmarkResult:
    """Return the benchmark as the record holds it."""
    method = point.benchmark
    return BenchmarkResult(
        method=method.name,
        statistic=method.statistic.name,
        confidence=method.confidence,
        arms=[_arm_benchmark(arm, samples, point) for arm in arms.values()],
        fprop_speedup=speedup(samples, "fprop", method, claim(point)),
        bprop_speedup=speedup(samples, "bprop", method, claim(point)),
        stages=stages,
        warmup_iterations=samples.warmup_iterations,
        notes=_notes(samples, method, point) + notes,
    )


def timing(samples: Samples, arm: str, direction: str, method: Benchmark, tokens: int) -> Timing:
    """Return the times of one direction of one arm, without rates and shares.

    Throttled blocks do not count unless all were throttled.
    """
    all_BI = samples.ms_BI(arm, direction)
    clean_BI = samples.ms_BI(arm, direction, clean_only=True)
    used_BI = clean_BI if len(clean_BI) else all_BI
    interval = time_interval(
        used_BI, method.statistic, method.confidence, method.bootstrap_resamples
    )
    return Timing(
        samples_ms=[round(sample, 6) for sample in all_BI.flatten().tolist()],
        throttled=samples.throttled(arm) if samples.throttled_blocks else [],
        median_ms=estimate(used_BI, Statistic.median),
        mean_ms=float(used_BI.mean()),
        low_ms=interval.low,
        high_ms=interval.high,
        tokens_per_s=tokens / (interval.value * 1e-3),
    )


def speedup(samples: Samples, direction: str, method: Benchmark, claim: str) -> Speedup | None:
    """Return BF16's time over the recipe's; None if every block was throttled."""
    baseline_BI = samples.ms_BI(BASELINE, direction, clean_only=True)
    recipe_BI = samples.ms_BI(RECIPE, direction, clean_only=True)
    if not len(baseline_BI) or not len(recipe_BI):
        return None
    ratio = ratio_interval(
        baseline_BI,
        recipe_BI,
        method.statistic,
        method.confidence,
        method.bootstrap_resamples,
        paired=method.order is Order.interleaved,
    )
    return Speedup(ratio=ratio.value, low=ratio.low, high=ratio.high, claim=claim)


def stage_timing(
    arm: Arm, stage: str, direction: str, median_ms: float, point: Point
) -> StageTiming:
    """Return a stage's time with its rate and its share of the roofline.

    There is no rate for a stage without a matrix product, nor for an emulated arm.
    """
    cost = next(
        cost
        for cost in stage_costs(point.shape, arm.recipe)
        if (cost.stage, cost.direction) == (stage, direction)
    )
    floor = None if arm.path.emulated else floor_ms(cost, point.gpu)
    has_rate = cost.flops > 0 and not arm.path.emulated
    return StageTiming(
        arm=arm.name,
        stage=stage,
        direction=direction,
        median_ms=median_ms,
        tflops=cost.flops / (median_ms * 1e9) if has_rate else None,
        share_of_roofline=None if floor is None else floor / median_ms,
    )


def missed_speedups(benchmark: BenchmarkResult, point: Point) -> list[str]:
    """Return a sentence for each speed gate that was missed; recipe=bf16 has none."""
    if point.recipe.name is RecipeName.bf16:
        return []
    missed = []
    for direction in DIRECTIONS:
        limit = getattr(point.benchmark, f"min_{direction}_speedup")
        if limit is None:
            continue
        rule = f"{direction} speedup must be at least {limit}"
        ratio: Speedup | None = getattr(benchmark, f"{direction}_speedup")
        if ratio is None:
            missed.append(f"{rule}, but every block was throttled")
        elif ratio.ratio < limit:
            missed.append(f"{rule}, got {ratio.ratio:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]")
    return missed


def claim(point: Point) -> str:
    """Return the meaning of the ratio of a point's arms: speedup, noise or emulated."""
    if point.backend is Backend.emulated:
        return "emulated"
    return "noise" if point.recipe.name is RecipeName.bf16 else "speedup"


def _arm_benchmark(arm: Arm, samples: Samples, point: Point) -> ArmBenchmark:
    fprop, bprop = (_timing_with_rates(arm, samples, name, point) for name in DIRECTIONS)
    return ArmBenchmark(
        arm=arm.name,
        precision=arm.path.precision,
        emulated=arm.path.emulated,
        fprop=fprop,
        bprop=bprop,
        first_iteration_ms=arm.first_iteration_ms,
        peak_memory_gib=arm.peak_memory_gib,
    )


def _timing_with_rates(arm: Arm, samples: Samples, direction: str, point: Point) -> Timing:
    method = point.benchmark
    times = timing(samples, arm.name, direction, method, point.shape.tokens)
    if arm.path.emulated:
        return times
    ms = times.mean_ms if method.statistic is Statistic.mean else times.median_ms
    floor = total_floor_ms(point.shape, arm.recipe, point.gpu, direction)
    peak_ms = _peak_ms(point, arm.recipe, direction)
    return times.model_copy(
        update={
            "tflops": total_flops(point.shape, arm.recipe, direction) / (ms * 1e9),
            "share_of_peak": None if peak_ms is None else peak_ms / ms,
            "share_of_roofline": None if floor is None else floor / ms,
        }
    )


def _peak_ms(point: Point, recipe: Recipe, direction: str) -> float | None:
    """Return the time of all matrix products, each at the peak of its own precision."""
    total = 0.0
    for cost in stage_costs(point.shape, recipe):
        if cost.direction != direction or not cost.flops:
            continue
        peak = peak_tflops(point.gpu, cost.precision)
        if peak is None:
            return None
        total += cost.flops / (peak * 1e9)
    return total


def _notes(samples: Samples, method: Benchmark, point: Point) -> list[str]:
    notes = []
    if not samples.stable and method.warmup_max_iterations > method.warmup_min_iterations:
        notes.append(f"times not stable after {samples.warmup_iterations} warm-up iterations")
    blocks = len(samples.of_arm(RECIPE))
    if blocks < samples.planned_blocks:
        notes.append(
            f"stopped after {blocks} of {samples.planned_blocks} blocks of each arm: "
            f"benchmark.budget_s={method.budget_s:g}"
        )
    if samples.throttled_blocks:
        notes.append(
            f"{samples.throttled_blocks} of {len(samples.blocks)} blocks were throttled "
            "and are left out of the figures"
        )
    gated = method.min_fprop_speedup is not None or method.min_bprop_speedup is not None
    if gated and point.recipe.name is RecipeName.bf16:
        notes.append("speed gates do not apply to recipe=bf16, which is compared with itself")
    return notes


def _resampling_units(samples_BI: Tensor) -> Tensor:
    # A bootstrap over very few blocks is meaningless: it resamples iterations then.
    return samples_BI if len(samples_BI) >= MIN_BLOCKS else samples_BI.reshape(-1, 1)


def _picks(blocks: int, resamples: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(blocks, (resamples, blocks), generator=generator)


def _reduce(samples_RN: Tensor, statistic: Statistic) -> Tensor:
    if statistic is Statistic.mean:
        return samples_RN.mean(dim=1)
    return samples_RN.quantile(0.5, dim=1)


def _interval(value: float, draws_R: Tensor, confidence: float) -> Interval:
    tail = (1 - confidence) / 2
    ends = torch.tensor([tail, 1 - tail], dtype=draws_R.dtype)
    low, high = draws_R.quantile(ends).tolist()
    return Interval(value, min(low, value), max(high, value))
