"""Stand-in for Transformer Engine on a CPU: its names, its state, its selection of kernels.

It computes in PyTorch and quantizes nothing. It selects attention kernels as release 2.20.2 does
on Hopper or on Blackwell, so that both can be tested on any machine.
"""

# ruff: noqa: ANN401 - the library itself types almost nothing, and this copies its signatures

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional


class Format(Enum):
    """Element formats."""

    E4M3 = 1
    HYBRID = 2


@dataclass
class _Recipe:
    fp8_format: Format = Format.HYBRID
    fp8_dpa: bool = False
    margin: int = 0
    amax_history_len: int = 1024
    amax_compute_algo: str = "max"


class DelayedScaling(_Recipe):
    """One scale per tensor, from history."""


class Float8CurrentScaling(_Recipe):
    """One scale per tensor, from the tensor."""


class MXFP8BlockScaling(_Recipe):
    """One scale for 32 values."""


class Float8BlockScaling(_Recipe):
    """One scale for 128 values."""


class Linear(nn.Module):
    """Computes with a copy of its weight that is_first_microbatch keeps, as the library does."""

    def __init__(
        self, inputs: int, outputs: int, *, bias: bool, params_dtype: Any, device: Any
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = inputs, outputs
        self.weight = nn.Parameter(torch.zeros(outputs, inputs, dtype=params_dtype, device=device))
        if bias:
            self.bias = nn.Parameter(torch.zeros(outputs, dtype=params_dtype, device=device))
        self.cache: Tensor | None = None

    def forward(self, x: Tensor, is_first_microbatch: bool | None = None) -> Tensor:
        weight: Tensor = self.weight
        if is_first_microbatch is not None and State.recipe is not None:
            if is_first_microbatch or self.cache is None:
                self.cache = self.weight.detach().clone()
            weight = self.cache + (self.weight - self.weight.detach())
        return functional.linear(self.normed(x), weight, getattr(self, "bias", None))

    def normed(self, x: Tensor) -> Tensor:
        return x


class LayerNormLinear(Linear):
    """The same behind a LayerNorm."""

    def __init__(self, inputs: int, outputs: int, *, eps: float, **options: Any) -> None:
        super().__init__(inputs, outputs, **options)
        self.eps = eps
        like = {"dtype": options["params_dtype"], "device": options["device"]}
        self.layer_norm_weight = nn.Parameter(torch.ones(inputs, **like))
        self.layer_norm_bias = nn.Parameter(torch.zeros(inputs, **like))

    def normed(self, x: Tensor) -> Tensor:
        return functional.layer_norm(
            x, (self.in_features,), self.layer_norm_weight, self.layer_norm_bias, self.eps
        )


class State:
    """The library's global state."""

    recipe: Any = None
    compute_capability = (9, 0)
    cudnn = (9, 21, 1)
    attention_backends: dict[str, Any] = {}  # noqa: RUF012 - set anew by `installed`


class DotProductAttention(nn.Module):
    """Selects a kernel, records it, and computes by definition."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        backends = State.attention_backends
        if backends["backend_selection_requires_update"]:
            heads = {"head_dim_qk": q.shape[-1], "head_dim_v": v.shape[-1]}
            recipe = State.recipe
            chosen = get_attention_backend(
                AttentionParams(fp8=recipe is not None, fp8_meta={"recipe": recipe}, **heads)
            )
            names = (
                "use_flash_attention",
                "flash_attention_backend",
                "use_fused_attention",
                "fused_attention_backend",
                "use_unfused_attention",
            )
            backends.update(zip(names, chosen[:5], strict=True))
            backends["backend_selection_requires_update"] = False
            if not (chosen[0] or chosen[2] or chosen[4]):
                raise ValueError(
                    "No dot product attention backend is available for the provided inputs."
                )
        q, k, v = (x.permute(1, 2, 0, 3) for x in (q, k, v))
        out = functional.scaled_dot_product_attention(
            q,
            k,
            v,
            is_causal=self.options["attn_mask_type"] == "causal",
            scale=self.options["softmax_scale"],
        )
        return out.permute(2, 0, 1, 3).flatten(2)


class AttentionParams:
    """Store its arguments."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


class AttentionLogging:
    """The level that the library sets its logger to."""

    _log_level = logging.WARNING


def get_attention_backend(params: AttentionParams) -> tuple[Any, ...]:
    """Select a kernel for FP8 and BF16, with the library's log lines."""
    logger = logging.getLogger("DotProductAttention")
    logger.setLevel(AttentionLogging._log_level)
    recipe: Any = params.fp8_meta["recipe"] if params.fp8 else None  # type: ignore[attr-defined]
    if recipe is None or not recipe.fp8_dpa:
        return False, None, True, 1, True, [False, True, True]
    logger.debug("Disabling UnfusedDotProductAttention for FP8 attention")
    local = params.fp8_meta.get("local_recipes", [recipe])[0]  # type: ignore[attr-defined]
    refused = _refused(local, params)
    if refused is not None:
        logger.debug(refused)
        return False, None, False, None, False, [False, False, False]
    return False, None, True, 2, False, [False, True, False]


def _refused(recipe: Any, params: AttentionParams) -> str | None:
    hopper = State.compute_capability < (10, 0)
    if isinstance(recipe, Float8CurrentScaling) and hopper:
        return "Disabling FusedAttention for FP8 current scaling on arch < sm100"
    if isinstance(recipe, MXFP8BlockScaling):
        if hopper:
            return "Disabling FusedAttention for MXFP8 on arch < sm100"
        if State.cudnn < (9, 21, 0):
            return "Disabling FusedAttention for MXFP8 with cuDNN < 9.21.0"
        if State.cudnn in ((9, 23, 0), (9, 23, 1)):
            return "Disabling FusedAttention for MXFP8 with cuDNN 9.23.0/9.23.1"
    if isinstance(recipe, DelayedScaling) and hopper:
        dims = (params.head_dim_qk, params.head_dim_v)  # type: ignore[attr-defined]
        if dims != (128, 128):
            return "Disabling FusedAttention: head dimensions are not 128"
    return None


@contextmanager
def autocast(enabled: bool = True, recipe: Any = None) -> Iterator[None]:
    """Remembers the recipe for the modules called inside."""
    before, State.recipe = State.recipe, recipe if enabled else None
    try:
        yield
    finally:
        State.recipe = before


def install(
    monkeypatch: pytest.MonkeyPatch,
    *,
    compute_capability: tuple[int, int] = (9, 0),
    cudnn: tuple[int, int, int] = (9, 21, 1),
) -> None:
    """Make `import transformer_engine` find the stand-in, for one test."""
    State.recipe, State.compute_capability, State.cudnn = None, compute_capability, cudnn
    State.attention_backends = {
        "attention_params": None,
        "use_flash_attention": None,
        "flash_attention_backend": None,
        "use_fused_attention": None,
        "fused_attention_backend": None,
        "use_unfused_attention": None,
        "backend_selection_requires_update": True,
    }
    attention = "transformer_engine.pytorch.attention.dot_product_attention"
    modules: dict[str, dict[str, Any]] = {
        "transformer_engine": {},
        "transformer_engine.common": {},
        "transformer_engine.common.recipe": {
            "Format": Format,
            "DelayedScaling": DelayedScaling,
            "Float8CurrentScaling": Float8CurrentScaling,
            "Float8BlockScaling": Float8BlockScaling,
            "MXFP8BlockScaling": MXFP8BlockScaling,
        },
        "transformer_engine.pytorch": {
            "Linear": Linear,
            "LayerNormLinear": LayerNormLinear,
            "DotProductAttention": DotProductAttention,
            "autocast": autocast,
        },
        "transformer_engine.pytorch.attention": {},
        attention: {"_attention_backends": State.attention_backends},
        f"{attention}.utils": {
            "AttentionParams": AttentionParams,
            "AttentionLogging": AttentionLogging,
            "get_attention_backend": get_attention_backend,
        },
    }
    for name, contents in modules.items():
        module = ModuleType(name)
        module.__dict__.update(contents)
        monkeypatch.setitem(sys.modules, name, module)
        parent, _, child = name.rpartition(".")
        if parent:
            monkeypatch.setattr(sys.modules[parent], child, module, raising=False)
