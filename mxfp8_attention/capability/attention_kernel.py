"""Which attention kernel Transformer Engine takes: asked before a run, and looked up after it.

Three names: fused (cuDNN), flash, unfused (matrix products in PyTorch). A fallback from FP8 to
BF16, or from a fused kernel to the unfused one, changes what a benchmark measures; the library
makes it without a word, so both questions are asked of every arm.
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
        sub_backend: cuDNN's sub-backend for fused attention, else None.
        reasons: Why the library turned the others off, its own lines.
    """

    family: str
    sub_backend: int | None = None
    reasons: tuple[str, ...] = ()

    @property
    def is_fp8(self) -> bool:
        """Whether its matrix products are FP8."""
        return self.family == "fused" and self.sub_backend == FP8_SUB_BACKEND

    def __str__(self) -> str:
        if self.family != "fused":
            return {"none": "no kernel"}.get(self.family, f"{self.family} attention")
        name = _SUB_BACKENDS.get(self.sub_backend or 0, "unknown")
        return f"fused attention, {name} (sub-backend {self.sub_backend})"


def query_kernel(shape: Shape, recipe: Recipe, softmax_scale: float) -> Kernel:
    """Asks the library which kernel it would take for exactly this shape, for training.

    Args:
        shape: The layer.
        recipe: The arm's quantization.
        softmax_scale: What scores are multiplied with.

    Returns:
        The kernel, and its reasons against the others.
    """
    import torch
    from transformer_engine.pytorch.attention.dot_product_attention import utils

    causal = shape.attn_mask is AttnMask.causal

    quantization = _quantization(recipe)
    layout = "_".join([shape.qkv_format.name] * 3)
    parameters = utils.AttentionParams(
        qkv_dtype=torch.bfloat16,
        qkv_layout=layout,
        batch_size=shape.batch,
        num_heads=shape.num_heads,
        num_gqa_groups=shape.num_heads,
        max_seqlen_q=shape.seq_len,
        max_seqlen_kv=shape.seq_len,
        head_dim_qk=shape.head_dim_qk,
        head_dim_v=shape.head_dim_v,
        attn_mask_type=mask_name(shape.attn_mask),
        # What DotProductAttention makes of a causal mask, and of none.
        window_size=(-1, 0) if causal else (-1, -1),
        bottom_right_diagonal=not causal,
        deterministic=os.environ.get("NVTE_ALLOW_NONDETERMINISTIC_ALGO", "1") == "0",
        is_training=True,
        fp8=quantization is not None,
        fp8_meta=quantization,
        softmax_scale=softmax_scale,
    )
    with _listening(utils) as lines:
        selection = utils.get_attention_backend(parameters)
    use_flash, _, use_fused, sub_backend, use_unfused, *_ = selection
    reasons = tuple(line for line in lines if "Disabling" in line)
    return _kernel(use_flash, use_fused, sub_backend, use_unfused, reasons)


def last_kernel() -> Kernel:
    """The kernel that the last forward pass ran.

    Returns:
        What the library's own record of its choice says.
    """
    from transformer_engine.pytorch.attention.dot_product_attention import _attention_backends

    return kernel_of(_attention_backends)


def kernel_of(record: Mapping[str, Any]) -> Kernel:
    """Reads the library's record of its choice.

    Args:
        record: `_attention_backends` of DotProductAttention's module.

    Returns:
        The kernel.
    """
    return _kernel(
        record["use_flash_attention"],
        record["use_fused_attention"],
        record["fused_attention_backend"],
        record["use_unfused_attention"],
        (),
    )


def forget_kernel() -> None:
    """Forget the last choice, so that `last_kernel` reports the next pass."""
    from transformer_engine.pytorch.attention.dot_product_attention import _attention_backends

    _attention_backends["attention_params"] = None
    _attention_backends["backend_selection_requires_update"] = True


def check_kernel(arm: str, recipe: Recipe, kernel: Kernel) -> Check:
    """Judges the library's answer before an arm runs.

    Args:
        arm: recipe or bf16.
        recipe: The arm's quantization.
        kernel: What `query_kernel` said.

    Returns:
        A check that refuses the point where no kernel takes it, and where only the unfused one
        is left. Where FP8 attention was asked for and another kernel would run, the answer is no
        but nothing is refused: the run shows it, and fails (`fallback`).
    """
    name = f"attention of the {arm} arm"
    wanted = "FP8 attention" if attention_is_quantized(recipe) else "fused attention"
    why = "; ".join(kernel.reasons) or "the library gives no reason"
    if kernel.family == "none":
        reason = f"no kernel for {wanted}: {why}"
    elif attention_is_quantized(recipe) and not kernel.is_fp8:
        reason = f"asked for FP8 attention, would run {kernel}: {why}"
        return Check(name, False, reason, source=_SOURCE)
    elif kernel.family == "unfused":
        reason = f"asked for fused attention, would run {kernel}: {why}"
    else:
        return Check(name, True, str(kernel), source=_SOURCE)
    return Check(name, False, reason, source=_SOURCE, refusal=Refusal.unsupported)


def fallback(recipe: Recipe, kernel: Kernel, variables: Mapping[str, str]) -> str | None:
    """Says whether an arm ran another attention than it was asked to.

    Args:
        recipe: The arm's quantization.
        kernel: What `last_kernel` said after its forward pass.
        variables: The environment, which can turn the backward of FP8 attention into BF16.

    Returns:
        One sentence, or None.
    """
    if attention_is_quantized(recipe):
        if not kernel.is_fp8:
            return f"asked for FP8 attention, ran {kernel}"
        if variables.get("NVTE_FP8_DPA_BWD", "1") == "0":
            return "asked for FP8 attention, ran its backward in BF16 (NVTE_FP8_DPA_BWD=0)"
        return None
    if kernel.family in ("unfused", "none"):
        return f"asked for fused attention, ran {kernel}"
    return f"asked for BF16 attention, ran {kernel}" if kernel.is_fp8 else None


def _quantization(recipe: Recipe) -> dict[str, Any] | None:
    """What DotProductAttention's own fp8_meta would hold."""
    from transformer_engine.common.recipe import DelayedScaling

    from mxfp8_attention.te.recipes import transformer_engine_recipe

    own = transformer_engine_recipe(recipe)
    if own is None:
        return None
    if recipe.name is RecipeName.fp8_current and attention_is_quantized(recipe):
        # Scores and their gradients have no current scale: they are scaled with delay.
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


class _Keep(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def _listening(utils: Any) -> Iterator[list[str]]:  # noqa: ANN401 - the library's module
    """Collects the reasons that the library logs at its debug level, whatever NVTE_DEBUG says."""
    logger, handler = logging.getLogger(_LOGGER), _Keep()
    level, propagate = utils.AttentionLogging._log_level, logger.propagate
    logger.addHandler(handler)
    # The library sets the logger's level from here each time it is asked.
    utils.AttentionLogging._log_level = logging.DEBUG
    logger.propagate = False
    try:
        yield handler.lines
    finally:
        utils.AttentionLogging._log_level = level
        logger.setLevel(level)
        logger.propagate = propagate
        logger.removeHandler(handler)
