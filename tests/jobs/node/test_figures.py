"""Rates and shares are those of the arm that ran, intervals cover what they claim."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from scipy import stats

from conf.choices import Backend, Statistic
from conf.schema import Benchmark, Bf16Recipe, MxFp8Recipe, Point, Recipe
from jobs.node.arm import BASELINE, RECIPE, Arm
from jobs.node.benchmark import MIN_BLOCKS, Block, Samples
from jobs.node.figures import (
    benchmark_result,
    claim,
    estimate,
    missed_speedups,
    ratio_interval,
    speedup,
    stage_timing,
    time_interval,
    timing,
)
from mxfp8_attention.flops import total_flops
from tests.builders.benchmarks import benchmark
from tests.builders.benchmarks import speedup as ratio_of
from tests.jobs.node.points import FEW, GB300, point
from tests.shapes import DSV3

METHOD = Benchmark(name="test")
ON_GB300 = point(gpu=GB300, shape=DSV3, backend=Backend.te, benchmark=FEW)


def arm(name: str, recipe: Recipe, *, emulated: bool = False) -> Arm:
    path: Any = SimpleNamespace(emulated=emulated, precision=recipe.name.name)
    return Arm(name, path, recipe, {}, "fused attention", None, 900.0, 12.5)


def arms(*, emulated: bool = False) -> dict[str, Arm]:
    recipes: dict[str, Recipe] = {RECIPE: MxFp8Recipe(), BASELINE: Bf16Recipe()}
    return {name: arm(name, recipe, emulated=emulated) for name, recipe in recipes.items()}


def samples(*, throttled: bool = False) -> Samples:
    """BF16 takes 8 and 16 ms, the recipe 4 and 10."""
    taken = Samples(warmup_iterations=3, stable=True, planned_blocks=6)
    for _ in range(6):
        taken.blocks.append(Block(RECIPE, [4.0, 4.0], [10.0, 10.0], throttled))
        taken.blocks.append(Block(BASELINE, [8.0, 8.0], [16.0, 16.0], throttled))
    return taken


def drifting(blocks: int, iterations: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two arms with a ratio of 1.5, whose clocks drift together by far more than they differ."""
    generator = torch.Generator().manual_seed(seed)
    drift = 1 + 0.3 * torch.rand(blocks, 1, generator=generator, dtype=torch.float64)
    noise = 1 + 0.01 * torch.randn(2, blocks, iterations, generator=generator, dtype=torch.float64)
    return 15 * drift * noise[0], 10 * drift * noise[1]


def test_each_arm_is_compared_with_its_own_peak() -> None:
    result = {a.arm: a for a in benchmark_result(arms(), samples(), ON_GB300, [], []).arms}
    for name, ms, peak in ((RECIPE, 4.0, 5000), (BASELINE, 8.0, 2500)):
        flops = total_flops(DSV3, Bf16Recipe(), "fprop")
        fprop = result[name].fprop
        assert fprop.tflops == pytest.approx(flops / ms / 1e9)
        assert fprop.share_of_peak == pytest.approx(flops / ms / 1e9 / peak)
        # The roofline includes RoPE's bytes, so it is a little slower than the peak.
        assert fprop.share_of_peak is not None
        assert fprop.share_of_roofline is not None
        assert fprop.share_of_peak < fprop.share_of_roofline < 1.2 * fprop.share_of_peak
        assert fprop.tokens_per_s == pytest.approx(4096 / ms * 1e3)


def test_each_stage_is_compared_with_its_own_arms_roofline() -> None:
    floor_ms = 2 * 4096 * 16384 * 65536 / 2500e12 * 1e3
    stages = {
        name: stage_timing(one, "qkv", "fprop", floor_ms, ON_GB300) for name, one in arms().items()
    }
    assert stages[BASELINE].share_of_roofline == pytest.approx(1.0)
    assert stages[RECIPE].share_of_roofline == pytest.approx(0.5)
    assert stages[BASELINE].tflops == pytest.approx(2500)
    assert stage_timing(arms()[BASELINE], "rope", "fprop", 1.0, ON_GB300).tflops is None


def test_an_emulated_arm_has_times_and_no_rates() -> None:
    emulated = replace(ON_GB300, backend=Backend.emulated)
    for one in benchmark_result(arms(emulated=True), samples(), emulated, [], []).arms:
        assert one.fprop.median_ms > 0
        assert one.fprop.tflops is None
        assert one.fprop.share_of_peak is None
        assert one.bprop.share_of_roofline is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (ON_GB300, "speedup"),
        (replace(ON_GB300, recipe=Bf16Recipe()), "noise"),
        (replace(ON_GB300, backend=Backend.emulated), "emulated"),
        (replace(ON_GB300, backend=Backend.emulated, recipe=Bf16Recipe()), "emulated"),
    ],
)
def test_a_ratio_has_a_meaning(given: Point, expected: str) -> None:
    assert claim(given) == expected
    result = benchmark_result(arms(), samples(), given, [], [])
    for found, ratio in ((result.fprop_speedup, 2.0), (result.bprop_speedup, 1.6)):
        assert found is not None
        assert found.claim == expected
        assert found.ratio == pytest.approx(ratio)


@pytest.mark.parametrize(("ratio", "missed"), [(1.5, 0), (1.3, 0), (1.2, 1), (None, 1)])
def test_a_speed_gate_fails_below_its_limit_only(ratio: float | None, missed: int) -> None:
    found = None if ratio is None else ratio_of("speedup", ratio)
    result = benchmark(fprop_speedup=found)
    gated = point(benchmark=replace(FEW, min_fprop_speedup=1.3))
    assert len(missed_speedups(result, gated)) == missed
    assert missed_speedups(result, replace(gated, recipe=Bf16Recipe())) == []


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"stable": False}, "not stable after 3"),
        ({"planned_blocks": 9}, "6 of 9 blocks"),
    ],
)
def test_a_benchmark_that_ended_early_has_a_note(fields: dict[str, Any], named: str) -> None:
    method = replace(FEW, warmup_max_iterations=9)
    given = replace(ON_GB300, benchmark=method)
    (note,) = benchmark_result(arms(), replace(samples(), **fields), given, [], []).notes
    assert named in note


def test_an_unknown_peak_gives_no_share() -> None:
    given = replace(ON_GB300, gpu=replace(GB300, peak_mxfp8_tflops=None))
    shares = {a.arm: a.fprop.share_of_peak for a in
              benchmark_result(arms(), samples(), given, [], []).arms}  # fmt: skip
    assert shares[RECIPE] is None
    assert shares[BASELINE] is not None


def test_without_a_clean_block_there_is_no_speedup() -> None:
    throttled = samples(throttled=True)
    result = benchmark_result(arms(), throttled, ON_GB300, [], [])
    assert result.fprop_speedup is None
    assert len(result.notes) == 1
    assert timing(throttled, RECIPE, "fprop", METHOD, 1024).median_ms == 4.0


def test_throttled_samples_do_not_affect_the_figures() -> None:
    slow = Block(RECIPE, [90.0] * 2, [90.0] * 2, True)
    fast = Block(RECIPE, [2.0] * 2, [4.0] * 2, False)
    base = Block(BASELINE, [3.0] * 2, [6.0] * 2, False)
    mixed = Samples([fast, base, base, slow, fast, base])
    times = timing(mixed, RECIPE, "fprop", METHOD, 1024)
    assert times.mean_ms == 2.0
    assert times.throttled == [False, False, True, True, False, False]
    found = speedup(mixed, "fprop", METHOD, "speedup")
    assert found is not None
    assert found.ratio == 1.5


def test_rates_and_shares_use_the_statistic_of_the_method() -> None:
    uneven = samples()
    uneven.blocks[1] = Block(BASELINE, [8.0, 20.0], [16.0, 16.0], False)
    by_mean = replace(ON_GB300, benchmark=replace(FEW, statistic=Statistic.mean))
    median, mean = (
        benchmark_result(arms(), uneven, given, [], []).arms[1].fprop
        for given in (ON_GB300, by_mean)
    )
    assert (median.share_of_peak or 0) * 8.0 / 9.0 == pytest.approx(mean.share_of_peak)
    assert median.tokens_per_s * 8.0 / 9.0 == pytest.approx(mean.tokens_per_s)


@pytest.mark.parametrize(("statistic", "value"), [(Statistic.median, 3.0), (Statistic.mean, 4.25)])
def test_an_estimate_is_the_median_or_the_mean(statistic: Statistic, value: float) -> None:
    assert estimate(torch.tensor([[1.0, 2.0], [10.0, 4.0]]), statistic) == value


def test_constant_samples_have_an_interval_of_no_width() -> None:
    constant = torch.full((8, 3), 2.5, dtype=torch.float64)
    found = time_interval(constant, Statistic.median, 0.95, 100)
    assert (found.value, found.low, found.high) == (2.5, 2.5, 2.5)


def test_equal_input_gives_equal_intervals() -> None:
    baseline, recipe = drifting(20, 5, 0)
    first, second = (
        ratio_interval(baseline, recipe, Statistic.median, 0.95, 500, paired=True)
        for _ in range(2)
    )
    assert first == second


def test_pairing_removes_a_common_drift_from_the_ratio() -> None:
    baseline, recipe = drifting(20, 5, 1)
    paired = ratio_interval(baseline, recipe, Statistic.mean, 0.95, 2000, paired=True)
    apart = ratio_interval(baseline, recipe, Statistic.mean, 0.95, 2000, paired=False)
    assert paired.low <= 1.5 <= paired.high
    assert paired.high - paired.low < (apart.high - apart.low) / 4


def test_a_95_percent_interval_covers_the_truth_about_that_often() -> None:
    covered = 0
    for seed in range(200):
        baseline, recipe = drifting(20, 5, seed)
        found = ratio_interval(baseline, recipe, Statistic.mean, 0.95, 300, paired=True)
        covered += found.low <= 1.5 <= found.high
    assert 175 <= covered <= 199


def test_the_interval_agrees_with_scipys_bootstrap() -> None:
    baseline, recipe = drifting(30, 1, 3)
    found = ratio_interval(baseline, recipe, Statistic.mean, 0.95, 4000, paired=True)
    theirs = stats.bootstrap(
        (baseline.flatten().numpy(), recipe.flatten().numpy()),
        lambda b, r, axis: b.mean(axis) / r.mean(axis),
        paired=True,
        vectorized=True,
        method="percentile",
        rng=0,
        n_resamples=4000,
    ).confidence_interval
    assert found.low == pytest.approx(theirs.low, rel=2e-3)
    assert found.high == pytest.approx(theirs.high, rel=2e-3)


def test_few_blocks_are_resampled_by_iteration() -> None:
    assert MIN_BLOCKS > 1
    one_block = torch.arange(1.0, 101.0, dtype=torch.float64)[None]
    found = time_interval(one_block, Statistic.mean, 0.95, 1000)
    assert found.low < found.value < found.high
