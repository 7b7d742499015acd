"""What no machine can run is known before anything runs, with the library's own words."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from conf.choices import Backend, Job, Projection, QkvFormat, RopeKernel
from conf.schema import (
    Benchmark,
    Bf16Recipe,
    Fp8BlockRecipe,
    Fp8CurrentRecipe,
    Fp8DelayedRecipe,
    Gpu,
    MxFp8Recipe,
    Point,
    Recipe,
    Shape,
)
from mxfp8_attention.capability.refusal import refusal_by_config
from tests.shapes import DSV3

HOPPER_FP8 = replace(DSV3, name="hopper_fp8", head_dim_nope=64)
SPLIT = replace(DSV3, projection=Projection.split)
TRITON = replace(DSV3, rope_kernel=RopeKernel.triton)
CPU = Gpu(name="cpu", device="cpu")
H200 = Gpu(name="h200", compute_capability="9.0")
GB300 = Gpu(name="gb300", compute_capability="10.3")


def point(
    recipe: Recipe, shape: Shape = DSV3, gpu: Gpu = GB300, backend: Backend = Backend.te
) -> Point:
    return Point(
        gpu=gpu, shape=shape, recipe=recipe, backend=backend, benchmark=Benchmark(name="default")
    )


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (point(MxFp8Recipe()), None),
        (point(Bf16Recipe(), gpu=H200), None),
        (point(Fp8CurrentRecipe(), gpu=H200), None),
        (point(Fp8BlockRecipe(), gpu=H200), None),
        (
            point(MxFp8Recipe(), gpu=H200),
            "Device compute capability 10.0 or higher required for MXFP8 execution.",
        ),
        (point(MxFp8Recipe(), gpu=replace(H200, any=True)), None),
        (
            point(MxFp8Recipe(), gpu=Gpu(name="rtx", compute_capability="12.0")),
            "is not supported on 12.0+ architectures yet",
        ),
        (point(Fp8CurrentRecipe(fp8_dpa=True), gpu=H200), "FP8 current scaling on arch < sm100"),
        (point(Fp8CurrentRecipe(fp8_dpa=True), gpu=GB300), None),
        (point(Fp8DelayedRecipe(fp8_dpa=True), gpu=H200), "needs head dims 128/128, got 192/128"),
        (point(Fp8DelayedRecipe(fp8_dpa=True), HOPPER_FP8, H200), None),
        (point(MxFp8Recipe(), gpu=CPU), "backend=te needs a CUDA GPU"),
        (point(MxFp8Recipe(), gpu=CPU, backend=Backend.emulated), None),
        (point(Fp8BlockRecipe(), gpu=CPU, backend=Backend.emulated), "got fp8_block"),
        (
            point(MxFp8Recipe(), TRITON, CPU, backend=Backend.emulated),
            "shape.rope_kernel=triton needs a CUDA GPU, got gpu=cpu",
        ),
        (point(MxFp8Recipe(), TRITON), None),
        (point(MxFp8Recipe(), TRITON, H200, backend=Backend.emulated), None),
        (point(MxFp8Recipe(), replace(DSV3, seq_len=4160)), "seq_len must be a multiple of 128"),
        (point(MxFp8Recipe(fp8_dpa=False), replace(DSV3, seq_len=4160)), None),
        (point(MxFp8Recipe(), replace(DSV3, hidden=16400)), "shape.hidden must be a multiple"),
        (
            point(MxFp8Recipe(), replace(DSV3, head_dim_v=80)),
            "head_dim_v must be a multiple of 32",
        ),
        (
            point(MxFp8Recipe(), replace(DSV3, seq_len=100)),
            "shape.seq_len must be a multiple of 128 for MXFP8 attention, got 100",
        ),
        (
            point(MxFp8Recipe(fp8_dpa=False), replace(DSV3, seq_len=100)),
            "shape.batch * shape.seq_len must be a multiple of 32",
        ),
        (
            point(MxFp8Recipe(), replace(DSV3, num_heads=3, head_dim_v=40)),
            "shape.head_dim_v must be a multiple of 32 for MXFP8 attention, got 40",
        ),
        (point(Bf16Recipe(), replace(DSV3, seq_len=4097)), None),
        (
            point(MxFp8Recipe(), replace(SPLIT, head_dim_nope=112, head_dim_rope=16)),
            "the width of the kv projection must be a multiple of 32 for MXFP8 blocks, got 30736",
        ),
        (point(MxFp8Recipe(), replace(DSV3, head_dim_nope=112, head_dim_rope=16)), None),
        (
            point(MxFp8Recipe(fp8_dpa=False), replace(DSV3, num_heads=4, head_dim_nope=6)),
            "the width of the qkv projection must be a multiple of 32 for MXFP8 blocks, got 1072",
        ),
        (
            point(Fp8CurrentRecipe(), replace(SPLIT, head_dim_rope=8)),
            "the width of the kv projection must be a multiple of 16 for FP8 matrix products",
        ),
        (
            point(Fp8BlockRecipe(), replace(SPLIT, num_heads=1, head_dim_nope=6)),
            "the width of the q projection must be a multiple of 16 for FP8 matrix products",
        ),
        (point(Bf16Recipe(), replace(SPLIT, head_dim_rope=8)), None),
        (point(Fp8CurrentRecipe(), replace(DSV3, seq_len=4104)), "must be a multiple of 16"),
        (point(MxFp8Recipe(), replace(DSV3, qkv_format=QkvFormat.thd)), "qkv_format must be sbhd"),
    ],
)
def test_a_point_is_refused_for_one_reason_or_runs(made: Point, told: str | None) -> None:
    refused = refusal_by_config(made)
    assert (refused is None) == (told is None), refused
    assert (told or "") in (refused or "")


def test_a_probe_is_never_refused() -> None:
    probe = replace(point(MxFp8Recipe(), gpu=CPU), job=Job.probe)
    assert refusal_by_config(probe) is None


@pytest.mark.parametrize("key", ["min_fprop_speedup", "min_bprop_speedup"])
def test_a_speed_gate_needs_hardware(key: str) -> None:
    gated = Benchmark(name="gated", **{key: 1.2})  # type: ignore[arg-type]  # one float field
    made = replace(point(MxFp8Recipe(), gpu=CPU, backend=Backend.emulated), benchmark=gated)
    assert f"benchmark.{key} must be null" in (refusal_by_config(made) or "")
    assert refusal_by_config(replace(made, recipe=Bf16Recipe())) is None


def test_a_login_node_asks_without_torch() -> None:
    program = (
        "import sys; import mxfp8_attention.capability.refusal; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
