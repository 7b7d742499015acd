"""Rates and shares are those of the arm that ran; a ratio says what it stands for."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from conf.choices import Backend, Statistic
from conf.schema import Bf16Recipe, Gpu, MxFp8Recipe, Point, Recipe
from jobs.node.arms import Arm
from jobs.node.benchmark import Block, Collection
from jobs.node.figures import benchmark_result, claim, missed_speedups, stage_timing
from mxfp8_attention.flops import total_flops
from tests.jobs.node.points import FEW, point
from tests.shapes import DSV3

GB300 = Gpu(
    name="gb300",
    peak_bf16_tflops=2500.0,
    peak_fp8_tflops=5000.0,
    peak_mxfp8_tflops=5000.0,
    bandwidth_tb_per_s=8.0,
)
ON_GB300 = point(gpu=GB300, shape=DSV3, backend=Backend.te, benchmark=FEW)


def arm(name: str, recipe: Recipe, *, emulated: bool = False) -> Arm:
    path: Any = SimpleNamespace(emulated=emulated, precision=recipe.name.name)
    return Arm(name, path, recipe, {}, "fused attention", None, 900.0, 12.5)


def arms(*, emulated: bool = False) -> dict[str, Arm]:
    return {
        "recipe": arm("recipe", MxFp8Recipe(), emulated=emulated),
        "bf16": arm("bf16", Bf16Recipe(), emulated=emulated),
    }


def collection(*, throttled: bool = False) -> Collection:
    """BF16 takes 8 and 16 ms, the recipe 4 and 10."""
    made = Collection(warmup_iterations=3, stable=True, planned_blocks=6)
    for _ in range(6):
        made.blocks.append(Block("recipe", [4.0, 4.0], [10.0, 10.0], throttled))
        made.blocks.append(Block("bf16", [8.0, 8.0], [16.0, 16.0], throttled))
    return made


def test_each_arm_is_measured_against_its_own_peak() -> None:
    found = {a.arm: a for a in benchmark_result(arms(), collection(), ON_GB300, [], []).arms}
    for name, ms, peak in (("recipe", 4.0, 5000), ("bf16", 8.0, 2500)):
        flops = total_flops(DSV3, Bf16Recipe(), "fprop")
        timing = found[name].fprop
        assert timing.tflops == pytest.approx(flops / ms / 1e9)
        assert timing.share_of_peak == pytest.approx(flops / ms / 1e9 / peak)
        # The roofline holds RoPE's bytes too, so that it is a little slower than the peak.
        assert timing.share_of_peak is not None
        assert timing.share_of_roofline is not None
        assert timing.share_of_peak < timing.share_of_roofline < 1.2 * timing.share_of_peak
        assert timing.tokens_per_s == pytest.approx(4096 / ms * 1e3)


def test_each_stage_is_measured_against_its_own_arms_roofline() -> None:
    floor_ms = 2 * 4096 * 16384 * 65536 / 2500e12 * 1e3
    stages = {
        name: stage_timing(one, "qkv", "fprop", floor_ms, ON_GB300) for name, one in arms().items()
    }
    assert stages["bf16"].share_of_roofline == pytest.approx(1.0)
    assert stages["recipe"].share_of_roofline == pytest.approx(0.5)
    assert stages["bf16"].tflops == pytest.approx(2500)
    assert stage_timing(arms()["bf16"], "rope", "fprop", 1.0, ON_GB300).tflops is None


def test_an_emulated_arm_has_times_and_no_rates() -> None:
    made = replace(ON_GB300, backend=Backend.emulated)
    result = benchmark_result(arms(emulated=True), collection(), made, [], [])
    for one in result.arms:
        assert one.fprop.median_ms > 0
        assert one.fprop.tflops is None
        assert one.fprop.share_of_peak is None
        assert one.bprop.share_of_roofline is None


@pytest.mark.parametrize(
    ("made", "stands_for"),
    [
        (ON_GB300, "speedup"),
        (replace(ON_GB300, recipe=Bf16Recipe()), "noise"),
        (replace(ON_GB300, backend=Backend.emulated), "emulated"),
        (replace(ON_GB300, backend=Backend.emulated, recipe=Bf16Recipe()), "emulated"),
    ],
)
def test_a_ratio_says_what_it_stands_for(made: Point, stands_for: str) -> None:
    assert claim(made) == stands_for
    result = benchmark_result(arms(), collection(), made, [], [])
    for found, ratio in ((result.fprop_speedup, 2.0), (result.bprop_speedup, 1.6)):
        assert found is not None
        assert found.claim == stands_for
        assert found.ratio == pytest.approx(ratio)


def test_a_speed_gate_is_missed_below_it_and_where_all_was_throttled() -> None:
    gated = replace(ON_GB300, benchmark=replace(FEW, min_fprop_speedup=2.1, min_bprop_speedup=1.5))
    result = benchmark_result(arms(), collection(), gated, [], [])
    (line,) = missed_speedups(result, gated)
    assert line.startswith("fprop speedup must be at least 2.1, got 2.000")
    throttled = benchmark_result(arms(), collection(throttled=True), gated, [], [])
    assert throttled.fprop_speedup is None
    assert missed_speedups(throttled, gated) == [
        f"{direction} speedup must be at least {least}, but every block ran throttled"
        for direction, least in (("fprop", 2.1), ("bprop", 1.5))
    ]
    assert any("12 of 12 blocks ran throttled" in note for note in throttled.notes)
    assert missed_speedups(throttled, replace(gated, recipe=Bf16Recipe())) == []


def test_a_share_uses_the_statistic_that_is_shown() -> None:
    made = collection()
    made.blocks[1] = Block("bf16", [8.0, 20.0], [16.0, 16.0], False)
    by_mean = replace(ON_GB300, benchmark=replace(FEW, statistic=Statistic.mean))
    shares = []
    for one in (ON_GB300, by_mean):
        result = benchmark_result(arms(), made, one, [], [])
        shares.append(cast("float", result.arms[1].fprop.share_of_peak))
    assert shares[1] == pytest.approx(shares[0] * 8.0 / 9.0)
