"""A point that no machine can run is refused from its configuration alone."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

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
)
from mxfp8_attention.capability.limits import COMPUTE_CAPABILITIES
from mxfp8_attention.capability.refusal import refusal_by_config
from tests.shapes import DSV3

MXFP8, BF16_ATTENTION = MxFp8Recipe(), MxFp8Recipe(fp8_dpa=False)
CURRENT, DELAYED = Fp8CurrentRecipe(fp8_dpa=True), Fp8DelayedRecipe(fp8_dpa=True)
SPLIT: dict[str, Any] = {"projection": Projection.split}
TRITON: dict[str, Any] = {"rope_kernel": RopeKernel.triton}
CPU = Gpu(name="cpu", device="cpu")
H200 = Gpu(name="h200", compute_capability="9.0")
GB300 = Gpu(name="gb300", compute_capability="10.3")
RTX = Gpu(name="rtx", compute_capability="12.0")
TOKENS = "shape.batch * shape.seq_len"


def point(
    recipe: Recipe, gpu: Gpu = GB300, backend: Backend = Backend.te, **shape: object
) -> Point:
    """A point of dsv3 with some keys of its shape replaced."""
    return Point(
        gpu=gpu,
        shape=replace(DSV3, **shape),  # type: ignore[arg-type]  # the keys' types are the caller's
        recipe=recipe,
        backend=backend,
        benchmark=Benchmark(name="default"),
    )


def width(projection: str) -> str:
    return f"the width of the {projection} projection"


def emulated(recipe: Recipe, gpu: Gpu, **shape: object) -> Point:
    return point(recipe, gpu, Backend.emulated, **shape)


@pytest.mark.parametrize(
    "supported",
    [
        point(MXFP8),
        point(Bf16Recipe(), H200),
        point(Fp8CurrentRecipe(), H200),
        point(Fp8BlockRecipe(), H200),
        point(MXFP8, replace(H200, any=True)),
        point(CURRENT, GB300),
        point(DELAYED, H200, head_dim_nope=64),
        emulated(MXFP8, CPU),
        point(MXFP8, **TRITON),
        emulated(MXFP8, H200, **TRITON),
        point(BF16_ATTENTION, seq_len=4160),
        point(Bf16Recipe(), seq_len=4097),
        point(MXFP8, head_dim_nope=112, head_dim_rope=16),
        point(Bf16Recipe(), **SPLIT, head_dim_rope=8),
    ],
)
def test_a_point_within_every_limit_runs(supported: Point) -> None:
    assert refusal_by_config(supported) is None


@pytest.mark.parametrize(
    ("refused", "limit", "required", "actual"),
    [
        (point(MXFP8, H200), "compute capability", "10.0", "9.0"),
        (point(MXFP8, RTX), "compute capability", "below 12.0", "12.0"),
        (point(CURRENT, H200), "compute capability", "10.0", "9.0"),
        (point(DELAYED, H200), "head_dim_qk/head_dim_v", "128/128", "192/128"),
        (point(MXFP8, CPU), "gpu", "a CUDA GPU", "cpu"),
        (emulated(Fp8BlockRecipe(), CPU), "recipe", "bf16 or mxfp8", "fp8_block"),
        (emulated(MXFP8, CPU, **TRITON), "shape.rope_kernel", "auto or eager", "triton"),
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
        (point(MXFP8, seq_len=4160), "shape.seq_len", 128, 4160),
        (point(MXFP8, seq_len=100), "shape.seq_len", 128, 100),
        (point(MXFP8, hidden=16400), "shape.hidden", 32, 16400),
        (point(MXFP8, head_dim_v=80), "shape.head_dim_v", 32, 80),
        (point(MXFP8, num_heads=3, head_dim_v=40), "shape.head_dim_v", 32, 40),
        (point(BF16_ATTENTION, seq_len=100), TOKENS, 32, 100),
        (point(Fp8CurrentRecipe(), seq_len=4104), TOKENS, 16, 4104),
        (point(MXFP8, **SPLIT, head_dim_nope=112, head_dim_rope=16), width("kv"), 32, 30736),
        (point(BF16_ATTENTION, num_heads=4, head_dim_nope=6), width("qkv"), 32, 1072),
        (point(Fp8CurrentRecipe(), **SPLIT, head_dim_rope=8), width("kv"), 16, 32776),
        (point(Fp8BlockRecipe(), **SPLIT, num_heads=1, head_dim_nope=6), width("q"), 16, 70),
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
    refusal = refusal_by_config(point(MXFP8, H200))
    assert refusal is not None
    assert str(refusal) == refusal.quote == COMPUTE_CAPABILITIES[RecipeName.mxfp8].too_old


def test_a_probe_is_never_refused() -> None:
    probe = replace(point(MXFP8, CPU), job=Job.probe)
    assert refusal_by_config(probe) is None


def test_a_refusal_needs_no_torch() -> None:
    program = (
        "import sys; import mxfp8_attention.capability.refusal; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
