"""A point that no machine can run is refused from its configuration alone."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from conf.choices import Backend, Job, Projection, RecipeName, RopeKernel
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
from mxfp8_attention.capability.limits import COMPUTE_CAPABILITIES
from mxfp8_attention.capability.refusal import refusal_by_config
from tests.shapes import DSV3

HOPPER_FP8 = replace(DSV3, name="hopper_fp8", head_dim_nope=64)
SPLIT = replace(DSV3, projection=Projection.split)
TRITON = replace(DSV3, rope_kernel=RopeKernel.triton)
CPU = Gpu(name="cpu", device="cpu")
H200 = Gpu(name="h200", compute_capability="9.0")
GB300 = Gpu(name="gb300", compute_capability="10.3")
RTX = Gpu(name="rtx", compute_capability="12.0")
BF16_ATTENTION = MxFp8Recipe(fp8_dpa=False)


def point(
    recipe: Recipe, shape: Shape = DSV3, gpu: Gpu = GB300, backend: Backend = Backend.te
) -> Point:
    return Point(
        gpu=gpu, shape=shape, recipe=recipe, backend=backend, benchmark=Benchmark(name="default")
    )


@pytest.mark.parametrize(
    "supported",
    [
        point(MxFp8Recipe()),
        point(Bf16Recipe(), gpu=H200),
        point(Fp8CurrentRecipe(), gpu=H200),
        point(Fp8BlockRecipe(), gpu=H200),
        point(MxFp8Recipe(), gpu=replace(H200, any=True)),
        point(Fp8CurrentRecipe(fp8_dpa=True), gpu=GB300),
        point(Fp8DelayedRecipe(fp8_dpa=True), HOPPER_FP8, H200),
        point(MxFp8Recipe(), gpu=CPU, backend=Backend.emulated),
        point(MxFp8Recipe(), TRITON),
        point(MxFp8Recipe(), TRITON, H200, backend=Backend.emulated),
        point(BF16_ATTENTION, replace(DSV3, seq_len=4160)),
        point(Bf16Recipe(), replace(DSV3, seq_len=4097)),
        point(MxFp8Recipe(), replace(DSV3, head_dim_nope=112, head_dim_rope=16)),
        point(Bf16Recipe(), replace(SPLIT, head_dim_rope=8)),
    ],
)
def test_a_point_within_every_limit_runs(supported: Point) -> None:
    assert refusal_by_config(supported) is None


@pytest.mark.parametrize(
    ("refused", "limit", "required", "actual"),
    [
        (point(MxFp8Recipe(), gpu=H200), "compute capability", "10.0", "9.0"),
        (point(MxFp8Recipe(), gpu=RTX), "compute capability", "below 12.0", "12.0"),
        (point(Fp8CurrentRecipe(fp8_dpa=True), gpu=H200), "compute capability", "10.0", "9.0"),
        (
            point(Fp8DelayedRecipe(fp8_dpa=True), gpu=H200),
            "head_dim_qk/head_dim_v",
            "128/128",
            "192/128",
        ),
        (point(MxFp8Recipe(), gpu=CPU), "gpu", "a CUDA GPU", "cpu"),
        (
            point(Fp8BlockRecipe(), gpu=CPU, backend=Backend.emulated),
            "recipe",
            "bf16 or mxfp8",
            "fp8_block",
        ),
        (
            point(MxFp8Recipe(), TRITON, CPU, backend=Backend.emulated),
            "shape.rope_kernel",
            "auto or eager",
            "triton",
        ),
    ],
)
def test_the_first_limit_that_a_point_exceeds_is_its_refusal(
    refused: Point, limit: str, required: str, actual: str
) -> None:
    refusal = refusal_by_config(refused)
    assert refusal is not None
    assert (refusal.limit, refusal.actual) == (limit, actual)
    assert refusal.required.startswith(required)


@pytest.mark.parametrize(
    ("refused", "limit", "multiple", "actual"),
    [
        (point(MxFp8Recipe(), replace(DSV3, seq_len=4160)), "shape.seq_len", 128, 4160),
        (point(MxFp8Recipe(), replace(DSV3, seq_len=100)), "shape.seq_len", 128, 100),
        (point(MxFp8Recipe(), replace(DSV3, hidden=16400)), "shape.hidden", 32, 16400),
        (point(MxFp8Recipe(), replace(DSV3, head_dim_v=80)), "shape.head_dim_v", 32, 80),
        (
            point(BF16_ATTENTION, replace(DSV3, seq_len=100)),
            "shape.batch * shape.seq_len",
            32,
            100,
        ),
        (
            point(MxFp8Recipe(), replace(DSV3, num_heads=3, head_dim_v=40)),
            "shape.head_dim_v",
            32,
            40,
        ),
        (
            point(MxFp8Recipe(), replace(SPLIT, head_dim_nope=112, head_dim_rope=16)),
            "the width of the kv projection",
            32,
            30736,
        ),
        (
            point(BF16_ATTENTION, replace(DSV3, num_heads=4, head_dim_nope=6)),
            "the width of the qkv projection",
            32,
            1072,
        ),
        (
            point(Fp8CurrentRecipe(), replace(SPLIT, head_dim_rope=8)),
            "the width of the kv projection",
            16,
            32776,
        ),
        (
            point(Fp8BlockRecipe(), replace(SPLIT, num_heads=1, head_dim_nope=6)),
            "the width of the q projection",
            16,
            70,
        ),
        (
            point(Fp8CurrentRecipe(), replace(DSV3, seq_len=4104)),
            "shape.batch * shape.seq_len",
            16,
            4104,
        ),
    ],
)
def test_a_size_that_is_no_multiple_is_refused(
    refused: Point, limit: str, multiple: int, actual: int
) -> None:
    refusal = refusal_by_config(refused)
    assert refusal is not None
    assert (refusal.limit, refusal.actual) == (limit, str(actual))
    assert refusal.required.startswith(f"a multiple of {multiple} ")


def test_a_compute_capability_is_refused_in_the_library_s_own_words() -> None:
    refusal = refusal_by_config(point(MxFp8Recipe(), gpu=H200))
    assert refusal is not None
    assert str(refusal) == refusal.quote == COMPUTE_CAPABILITIES[RecipeName.mxfp8].too_old


def test_a_probe_is_never_refused() -> None:
    probe = replace(point(MxFp8Recipe(), gpu=CPU), job=Job.probe)
    assert refusal_by_config(probe) is None


def test_a_refusal_needs_no_torch() -> None:
    program = (
        "import sys; import mxfp8_attention.capability.refusal; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
