"""The attention kernel is known before and after a run, and no fallback goes unreported."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest
import torch

from conf.schema import (
    Bf16Recipe,
    Fp8CurrentRecipe,
    Fp8DelayedRecipe,
    MxFp8Recipe,
    Recipe,
    Shape,
)
from mxfp8_attention.capability.attention_kernel import (
    Fallback,
    Kernel,
    check_kernel,
    fallback,
    forget_kernel,
    kernel_of,
    last_kernel,
    query_kernel,
)
from mxfp8_attention.capability.checks import Refusal
from mxfp8_attention.case import make_case
from mxfp8_attention.te.layer import TransformerEnginePath
from tests.mxfp8_attention.te import fake_transformer_engine
from tests.shapes import DSV3

HOPPER_FP8 = replace(DSV3, name="hopper_fp8", head_dim_nope=64)
FUSED_BF16, FUSED_FP8 = Kernel("fused", 1), Kernel("fused", 2)
UNFUSED, NONE, FLASH = Kernel("unfused"), Kernel("none"), Kernel("flash")


def record(**chosen: Any) -> dict[str, Any]:  # noqa: ANN401 - the library's own record
    """`_attention_backends` as Transformer Engine 2.20 keeps it."""
    return {
        "attention_params": object(),
        "use_flash_attention": False,
        "flash_attention_backend": None,
        "use_fused_attention": False,
        "fused_attention_backend": None,
        "use_unfused_attention": False,
        "backend_selection_requires_update": False,
    } | chosen


@pytest.mark.parametrize(
    ("chosen", "kernel"),
    [
        ({"use_fused_attention": True, "fused_attention_backend": 1}, FUSED_BF16),
        ({"use_fused_attention": True, "fused_attention_backend": 2}, FUSED_FP8),
        ({"use_flash_attention": True}, FLASH),
        ({"use_unfused_attention": True}, UNFUSED),
        # Several may be possible; this is the order in which the library takes them.
        (
            {
                "use_fused_attention": True,
                "fused_attention_backend": 1,
                "use_unfused_attention": True,
            },
            FUSED_BF16,
        ),
        ({}, NONE),
    ],
)
def test_the_librarys_record_names_the_kernel_that_ran(
    chosen: dict[str, Any], kernel: Kernel
) -> None:
    assert kernel_of(record(**chosen)) == kernel


@pytest.mark.parametrize(
    "recipe", [MxFp8Recipe(), Fp8CurrentRecipe(fp8_dpa=True), Fp8DelayedRecipe(fp8_dpa=True)]
)
def test_fp8_attention_that_ran_another_kernel_is_a_fallback(recipe: Recipe) -> None:
    assert fallback(recipe, FUSED_FP8, {}) is None
    for kernel in (FUSED_BF16, UNFUSED, FLASH):
        assert fallback(recipe, kernel, {}) == Fallback("FP8 attention", str(kernel))


def test_fp8_attention_with_a_bf16_backward_is_a_fallback() -> None:
    assert fallback(MxFp8Recipe(), FUSED_FP8, {"NVTE_FP8_DPA_BWD": "1"}) is None
    assert fallback(MxFp8Recipe(), FUSED_FP8, {"NVTE_FP8_DPA_BWD": "0"}) is not None


@pytest.mark.parametrize(
    ("kernel", "requested"),
    [(UNFUSED, "fused attention"), (NONE, "fused attention"), (FUSED_FP8, "BF16 attention")],
)
def test_bf16_attention_that_ran_unfused_or_in_fp8_is_a_fallback(
    kernel: Kernel, requested: str
) -> None:
    assert fallback(Bf16Recipe(), kernel, {}) == Fallback(requested, str(kernel))
    assert fallback(Bf16Recipe(), FUSED_BF16, {}) is None
    assert fallback(Bf16Recipe(), FLASH, {}) is None


def test_no_kernel_refuses_the_point_with_the_librarys_reasons() -> None:
    reasons = (
        "Disabling FusedAttention for FP8 current scaling on arch < sm100",
        "Disabling UnfusedDotProductAttention for FP8 attention",
    )
    check = check_kernel("recipe", Fp8CurrentRecipe(fp8_dpa=True), Kernel("none", None, reasons))
    assert check.refusal is Refusal.unsupported
    for reason in reasons:
        assert reason in check.reason


def test_fp8_attention_that_would_fall_back_runs_and_fails_after() -> None:
    check = check_kernel("recipe", MxFp8Recipe(), FUSED_BF16)
    assert check.ok is False
    assert check.refusal is None


def test_a_baseline_without_a_fused_kernel_is_refused() -> None:
    check = check_kernel("bf16", Bf16Recipe(), UNFUSED)
    assert check.refusal is Refusal.unsupported


def test_capturing_the_log_restores_the_logger(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_transformer_engine.install(monkeypatch)
    logger = logging.getLogger("DotProductAttention")
    handlers, propagate = list(logger.handlers), logger.propagate
    query_kernel(DSV3, Bf16Recipe(), 0.1)
    assert (logger.handlers, logger.propagate) == (handlers, propagate)
    assert fake_transformer_engine.AttentionLogging._log_level == logging.WARNING


@pytest.mark.parametrize(
    ("compute_capability", "cudnn", "recipe", "shape", "kernel"),
    [
        ((9, 0), (9, 19, 0), Bf16Recipe(), DSV3, FUSED_BF16),
        ((9, 0), (9, 19, 0), Fp8CurrentRecipe(), DSV3, FUSED_BF16),
        ((9, 0), (9, 19, 0), Fp8CurrentRecipe(fp8_dpa=True), DSV3, NONE),
        ((9, 0), (9, 19, 0), Fp8DelayedRecipe(fp8_dpa=True), DSV3, NONE),
        ((9, 0), (9, 19, 0), Fp8DelayedRecipe(fp8_dpa=True), HOPPER_FP8, FUSED_FP8),
        ((10, 3), (9, 21, 1), MxFp8Recipe(), DSV3, FUSED_FP8),
        ((10, 3), (9, 19, 0), MxFp8Recipe(), DSV3, NONE),
        ((10, 3), (9, 23, 1), MxFp8Recipe(), DSV3, NONE),
        ((10, 3), (9, 21, 1), MxFp8Recipe(fp8_dpa=False), DSV3, FUSED_BF16),
        ((10, 0), (9, 21, 1), Fp8CurrentRecipe(fp8_dpa=True), DSV3, FUSED_FP8),
    ],
)
def test_the_library_is_queried_for_exactly_this_shape_and_recipe(
    compute_capability: tuple[int, int],
    cudnn: tuple[int, int, int],
    recipe: Recipe,
    shape: Shape,
    kernel: Kernel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake_transformer_engine.install(
        monkeypatch, compute_capability=compute_capability, cudnn=cudnn
    )
    selected = query_kernel(shape, recipe, 0.1)
    assert (selected.family, selected.sub_backend) == (kernel.family, kernel.sub_backend)
    refused = check_kernel("recipe", recipe, selected).refusal is not None
    assert refused == (kernel == NONE)
    if refused:
        assert any("Disabling FusedAttention" in reason for reason in selected.reasons)


def test_the_last_kernel_is_that_of_the_last_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_transformer_engine.install(monkeypatch)
    case = make_case(replace(HOPPER_FP8, seq_len=32, hidden=64, num_heads=1), "cpu")
    forget_kernel()
    TransformerEnginePath(Fp8DelayedRecipe(fp8_dpa=True), case).step()
    assert last_kernel() == FUSED_FP8
    forget_kernel()
    TransformerEnginePath(Bf16Recipe(), case).step()
    assert last_kernel() == FUSED_BF16


@pytest.mark.te
@pytest.mark.gpu
class TestOnTransformerEngine:
    """On a CUDA GPU, with the real library."""

    def test_the_queried_kernel_is_the_one_that_runs(self) -> None:
        shape = Shape(name="small", seq_len=256, hidden=512, num_heads=4, init_std=512**-0.5)
        case = make_case(shape, "cuda")
        before = query_kernel(shape, Bf16Recipe(), case.softmax_scale)
        forget_kernel()
        TransformerEnginePath(Bf16Recipe(), case).step()
        assert (last_kernel().family, last_kernel().sub_backend) == (
            before.family,
            before.sub_backend,
        )

    @pytest.mark.skipif(
        torch.cuda.is_available() and torch.cuda.get_device_capability() >= (10, 0),
        reason="Blackwell runs this",
    )
    def test_hopper_gives_its_reasons_against_current_scaling_attention(self) -> None:
        shape = Shape(name="small", seq_len=256, hidden=512, num_heads=4)
        kernel = query_kernel(shape, Fp8CurrentRecipe(fp8_dpa=True), 0.1)
        assert kernel.family == "none"
        assert any("FP8 current scaling on arch < sm100" in reason for reason in kernel.reasons)
