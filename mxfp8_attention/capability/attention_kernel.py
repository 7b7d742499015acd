"""The attention kernel that Transformer Engine selects: queried before a run, read back after it.

Three families: fused (cuDNN), flash, unfused (matrix products in PyTorch). A fallback from FP8 to
BF16, or from a fused kernel to the unfused one, changes what a benchmark measures. The library
falls back silently, so every arm is checked before and after.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, SupportsInt

from conf.choices import AttnMask, RecipeName
from conf.schema import Recipe, Shape
from mxfp8_attention.capability.checks import Check, Refusal
from mxfp8_attention.capability.refusal import attention_is_quantized, mask_name
from mxfp8_attention.te.recipes import transformer_engine_recipe

_LOGGER = "DotProductAttention"
_SOURCE = "transformer_engine...dot_product_attention.utils.get_attention_backend"
# NVTE_Fused_Attn_Backend, transformer_engine/common/include/transformer_engine/fused_attn.h
_SUB_BACKENDS = {0: "F16 up to 512 tokens", 1: "F16", 2: "FP8"}
FP8_SUB_BACKEND = 2


@dataclass(frozen=True)
class Kernel:
    """An attention kernel.

    Attributes:
        family: fused, flash, unfused, or none.
        sub_backend: cuDNN's sub-backend of fused attention, None for the other families.
        reasons: The library's log lines about the kernels that it ruled out.
    """

    family: str
    sub_backend: int | None = None
    reasons: tuple[str, ...] = ()

    @property
    def is_fp8(self) -> bool:
        """True if its matrix products are FP8."""
        return self.family == "fused" and self.sub_backend == FP8_SUB_BACKEND

    def __str__(self) -> str:
        if self.family != "fused":
            return {"none": "no kernel"}.get(self.family, f"{self.family} attention")
        name = _SUB_BACKENDS.get(self.sub_backend or 0, "unknown")
        return f"fused attention, {name} (sub-backend {self.sub_backend})"


@dataclass(frozen=True)
class Fallback:
    """An arm that ran another attention than requested."""

    requested: str
    ran: str

    def __str__(self) -> str:
        return f"requested {self.requested}, ran {self.ran}"


def query_kernel(shape: Shape, recipe: Recipe, softmax_scale: float) -> Kernel:
    """Return the kernel that the library would select to train exactly this shape and recipe."""
    import torch
    from transformer_engine.pytorch.attention.dot_product_attention import utils

    causal = shape.attn_mask is AttnMask.causal
    quantization = _quantization(recipe)
    parameters = utils.AttentionParams(
        qkv_dtype=torch.bfloat16,
        qkv_layout="_".join([shape.qkv_format.name] * 3),
        batch_size=shape.batch,
        num_heads=shape.num_heads,
        num_gqa_groups=shape.num_heads,
        max_seqlen_q=shape.seq_len,
        max_seqlen_kv=shape.seq_len,
        head_dim_qk=shape.head_dim_qk,
        head_dim_v=shape.head_dim_v,
        attn_mask_type=mask_name(shape.attn_mask),
        # The values that DotProductAttention derives from the mask.
        window_size=(-1, 0) if causal else (-1, -1),
        bottom_right_diagonal=not causal,
        deterministic=os.environ.get("NVTE_ALLOW_NONDETERMINISTIC_ALGO", "1") == "0",
        is_training=True,
        fp8=quantization is not None,
        fp8_meta=quantization,
        softmax_scale=softmax_scale,
    )
    with _captured_log(utils) as lines:
        selection = utils.get_attention_backend(parameters)
    use_flash, _, use_fused, sub_backend, use_unfused, *_ = selection
    reasons = tuple(line for line in lines if "Disabling" in line)
    return _kernel(use_flash, use_fused, sub_backend, use_unfused, reasons)


def last_kernel() -> Kernel:
    """Return the kernel of the last forward pass, from the library's own record."""
    from transformer_engine.pytorch.attention.dot_product_attention import _attention_backends

    return kernel_of(_attention_backends)


def kernel_of(record: Mapping[str, Any]) -> Kernel:
    """Read `_attention_backends`, the library's record of its selection."""
    return _kernel(
        record["use_flash_attention"],
        record["use_fused_attention"],
        record["fused_attention_backend"],
        record["use_unfused_attention"],
        (),
    )


def forget_kernel() -> None:
    """Clear the record, so that the next forward pass selects its kernel anew."""
    from transformer_engine.pytorch.attention.dot_product_attention import _attention_backends

    _attention_backends["attention_params"] = None
    _attention_backends["backend_selection_requires_update"] = True


def check_kernel(arm: str, recipe: Recipe, kernel: Kernel) -> Check:
    """Check the kernel that `query_kernel` returned for an arm.

    Refuses the point if no kernel takes it, or only the unfused one. An FP8 attention that would
    fall back is not refused: the point runs, and fails with its `fallback`.
    """
    name = f"attention of the {arm} arm"
    requested = _requested(recipe)
    why = "; ".join(kernel.reasons) or "the library gives no reason"
    if kernel.family == "none":
        reason = f"no kernel for {requested}: {why}"
    elif attention_is_quantized(recipe) and not kernel.is_fp8:
        reason = f"requested {requested}, would run {kernel}: {why}"
        return Check(name, False, reason, source=_SOURCE)
    elif kernel.family == "unfused":
        reason = f"requested {requested}, would run {kernel}: {why}"
    else:
        return Check(name, True, str(kernel), source=_SOURCE)
    return Check(name, False, reason, source=_SOURCE, refusal=Refusal.unsupported)


def fallback(recipe: Recipe, kernel: Kernel, variables: Mapping[str, str]) -> Fallback | None:
    """Return how the kernel that ran differs from the recipe's attention, None if it does not.

    `variables` is the environment: it can turn the backward pass of FP8 attention into BF16.
    """
    requested = _requested(recipe)
    if attention_is_quantized(recipe):
        if not kernel.is_fp8:
            return Fallback(requested, str(kernel))
        if variables.get("NVTE_FP8_DPA_BWD", "1") == "0":
            return Fallback(requested, "its backward pass in BF16 (NVTE_FP8_DPA_BWD=0)")
        return None
    if kernel.family in ("unfused", "none"):
        return Fallback(requested, str(kernel))
    return Fallback("BF16 attention", str(kernel)) if kernel.is_fp8 else None


def _requested(recipe: Recipe) -> str:
    return "FP8 attention" if attention_is_quantized(recipe) else "fused attention"


def _quantization(recipe: Recipe) -> dict[str, Any] | None:
    """Return the fp8_meta that DotProductAttention would hold."""
    from transformer_engine.common.recipe import DelayedScaling

    own = transformer_engine_recipe(recipe)
    if own is None:
        return None
    if recipe.name is RecipeName.fp8_current and attention_is_quantized(recipe):
        # Scores and their gradients have no current scale; they use delayed scaling.
        delayed = DelayedScaling(fp8_format=own.fp8_format, fp8_dpa=own.fp8_dpa)
        return {"recipe": delayed, "local_recipes": [own, delayed]}
    return {"recipe": own, "local_recipes": [own]}


def _kernel(
    use_flash: bool,
    use_fused: bool,
    sub_backend: SupportsInt | None,
    use_unfused: bool,
    reasons: tuple[str, ...],
) -> Kernel:
    if use_flash:
        return Kernel("flash", None, reasons)
    if use_fused:
        return Kernel("fused", None if sub_backend is None else int(sub_backend), reasons)
    return Kernel("unfused" if use_unfused else "none", None, reasons)


class _LineHandler(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def _captured_log(utils: Any) -> Iterator[list[str]]:  # noqa: ANN401 - the library's module
    """Collect the lines that the library logs at its debug level, whatever NVTE_DEBUG is."""
    logger, handler = logging.getLogger(_LOGGER), _LineHandler()
    level, propagate = utils.AttentionLogging._log_level, logger.propagate
    logger.addHandler(handler)
    # The library sets the logger's level from this attribute at every call.
    utils.AttentionLogging._log_level = logging.DEBUG
    logger.propagate = False
    try:
        yield handler.lines
    finally:
        utils.AttentionLogging._log_level = level
        logger.setLevel(level)
        logger.propagate = propagate
        logger.removeHandler(handler)
