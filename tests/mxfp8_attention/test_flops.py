"""Operations, bytes and floors, checked by hand for the seed's shape."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conf.choices import AttnMask, Projection
from conf.schema import (
    Bf16Recipe,
    Fp8CurrentRecipe,
    Fp8DelayedRecipe,
    Gpu,
    MxFp8Recipe,
    Recipe,
    Shape,
)
from mxfp8_attention.flops import (
    StageCost,
    floor_ms,
    peak_tflops,
    precisions,
    projection_width,
    stage_costs,
    total_floor_ms,
    total_flops,
)
from tests.shapes import DSV3

SPLIT = replace(DSV3, projection=Projection.split)
GB300 = Gpu(
    name="gb300",
    peak_bf16_tflops=2500,
    peak_fp8_tflops=5000,
    peak_mxfp8_tflops=5000,
    bandwidth_tb_per_s=8,
)
H200 = Gpu(name="h200", peak_bf16_tflops=989, peak_fp8_tflops=1979, bandwidth_tb_per_s=4.8)


def cost(shape: Shape, stage: str, direction: str) -> StageCost:
    """One stage of the BF16 arm."""
    costs = {(c.stage, c.direction): c for c in stage_costs(shape, Bf16Recipe())}
    return costs[stage, direction]


def linear_flops(shape: Shape, direction: str) -> float:
    """QKV and out together, in TFLOP."""
    return sum(cost(shape, stage, direction).flops for stage in ("qkv", "out")) / 1e12


def test_the_seeds_shape_has_the_operations_counted_by_hand() -> None:
    assert (projection_width(DSV3), projection_width(SPLIT)) == (65536, 57408)
    assert linear_flops(DSV3, "fprop") == pytest.approx(10.99, abs=0.01)
    assert linear_flops(SPLIT, "fprop") == pytest.approx(9.90, abs=0.01)
    assert linear_flops(SPLIT, "bprop") == 2 * linear_flops(SPLIT, "fprop")
    attention = cost(DSV3, "attention", "fprop").flops
    assert attention == pytest.approx(0.687e12, rel=1e-3)
    assert cost(DSV3, "attention", "bprop").flops == pytest.approx(2.6 * attention)


def test_no_mask_is_twice_the_attention() -> None:
    full = Shape(name="x", seq_len=4096, hidden=16384, num_heads=128, attn_mask=AttnMask.none)
    causal = cost(DSV3, "attention", "fprop")
    assert cost(full, "attention", "fprop").flops == 2 * causal.flops
    assert cost(full, "attention", "fprop").bytes_moved == causal.bytes_moved


def test_rope_moves_what_it_must_and_multiplies_nothing() -> None:
    """Q out of place 403 MB, KV split 607 MB each way."""
    for direction in ("fprop", "bprop"):
        split = cost(SPLIT, "rope", direction)
        assert split.bytes_moved == pytest.approx((403 + 607) * 1e6, rel=2e-3)
        assert split.flops == 0
    fused = cost(DSV3, "rope", "fprop").bytes_moved
    assert fused == pytest.approx(2 * 4096 * 128 * (2 * 192 + 192 + 128) + 2 * 4096 * 64, rel=6e-3)


@pytest.mark.parametrize(
    ("recipe", "linear", "attention"),
    [
        (Bf16Recipe(), "bf16", "bf16"),
        (MxFp8Recipe(), "mxfp8", "mxfp8"),
        (MxFp8Recipe(fp8_dpa=False), "mxfp8", "bf16"),
        (Fp8CurrentRecipe(), "fp8", "bf16"),
        (Fp8DelayedRecipe(fp8_dpa=True), "fp8", "fp8"),
    ],
)
def test_each_stage_has_the_precision_that_the_recipe_gives_it(
    recipe: Recipe, linear: str, attention: str
) -> None:
    assert precisions(recipe) == (linear, attention)
    costs = {(c.stage, c.precision) for c in stage_costs(DSV3, recipe)}
    assert costs == {("qkv", linear), ("rope", "bf16"), ("attention", attention), ("out", linear)}


def test_a_floor_is_the_longer_of_operations_and_bytes() -> None:
    busy = StageCost("qkv", "fprop", "mxfp8", flops=5e12, bytes_moved=8e9)
    moving = StageCost("rope", "fprop", "bf16", flops=0, bytes_moved=8e9)
    assert floor_ms(busy, GB300) == pytest.approx(1.0)
    assert floor_ms(moving, GB300) == pytest.approx(1.0)
    assert floor_ms(busy, H200) is None


def test_floors_at_the_published_peaks() -> None:
    """Of operations alone 4.24 and 8.64 ms in BF16 on a GB300; RoPE's bytes come on top."""
    rope = cost(SPLIT, "rope", "fprop").bytes_moved / 8e12 * 1e3
    assert total_floor_ms(SPLIT, Bf16Recipe(), GB300, "fprop") == pytest.approx(
        4.24 + rope, rel=0.002
    )
    assert total_floor_ms(SPLIT, Bf16Recipe(), GB300, "bprop") == pytest.approx(
        8.64 + rope, rel=0.002
    )
    assert total_floor_ms(SPLIT, MxFp8Recipe(), GB300, "fprop") == pytest.approx(
        2.12 + rope, rel=0.002
    )
    assert total_floor_ms(SPLIT, MxFp8Recipe(), H200, "fprop") is None


def test_totals_add_up_over_stages() -> None:
    assert total_flops(DSV3, Bf16Recipe(), "fprop") == sum(
        c.flops for c in stage_costs(DSV3, Bf16Recipe()) if c.direction == "fprop"
    )
    assert peak_tflops(H200, "fp8") == 1979
    assert peak_tflops(H200, "mxfp8") is None
