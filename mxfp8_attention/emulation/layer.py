"""The layer with a recipe's quantization emulated in plain PyTorch, on any device.

The quantizer is bit-exact, products of quantized values are exact in FP32, sums are FP32. Only the
order of summation differs from hardware, so an emulated result predicts errors, not bits; its time
says nothing about hardware.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from conf.choices import Projection, Weights
from conf.schema import Recipe
from mxfp8_attention.case import Case
from mxfp8_attention.emulation.attention import (
    AttentionMask,
    AttentionRules,
    emulated_attention,
)
from mxfp8_attention.emulation.attention_numerics import attention_numerics
from mxfp8_attention.emulation.linear import EmulatedLinear, linear_numerics
from mxfp8_attention.layer import NORM_EPS, AttentionPath


class EmulatedPath(AttentionPath):
    """One emulated arm; calibration also emulates recipes that no backend=emulated point runs."""

    emulated = True

    def __init__(self, recipe: Recipe, case: Case) -> None:
        super().__init__(case)
        self.name = recipe.name.name
        self.precision = recipe.name.name
        self._parameters = {
            name: weight.detach().clone().requires_grad_() for name, weight in case.weights.items()
        }
        self.linear_numerics = linear_numerics(recipe)
        self.attention_rules = AttentionRules(
            scale=case.softmax_scale,
            mask=AttentionMask(0 if case.causal else None),
            numerics=attention_numerics(recipe),
        )
        self._weights = getattr(recipe, "weights", Weights.requantized)
        self._layers: dict[str, EmulatedLinear] = {}

    def parameters(self) -> dict[str, Tensor]:
        """Return bf16 leaves by the names of `Case.weights`."""
        return self._parameters

    def project(self, x_SBC: Tensor) -> tuple[Tensor, ...]:
        """Return (qkv,) or (q, kv)."""
        if self.case.shape.projection is Projection.fused:
            return (self._linear("qkv", x_SBC),)
        return tuple(self._linear(name, self._norm(name, x_SBC)) for name in ("q", "kv"))

    def attend(self, q_SBHD: Tensor, k_SBHD: Tensor, v_SBHD: Tensor) -> Tensor:
        """Run attention with the recipe's operands."""
        return emulated_attention(q_SBHD, k_SBHD, v_SBHD, self.attention_rules).flatten(2)

    def output(self, attention_SBD: Tensor) -> Tensor:
        """Apply the last linear layer."""
        return self._linear("out", attention_SBD)

    def _linear(self, name: str, x_SBC: Tensor) -> Tensor:
        if name not in self._layers:
            weight, bias = (self._parameters.get(f"{name}_{part}") for part in ("weight", "bias"))
            assert weight is not None
            self._layers[name] = EmulatedLinear(weight, bias, self.linear_numerics, self._weights)
        return self._layers[name](x_SBC)

    def _norm(self, name: str, x_SBC: Tensor) -> Tensor:
        """Apply LayerNorm in FP32; its result is rounded to bf16 before it is quantized."""
        weight, bias = (
            self._parameters[f"{name}_norm_{part}"].to(torch.float32)
            for part in ("weight", "bias")
        )
        x = x_SBC.to(torch.float32)
        return functional.layer_norm(x, (x.shape[-1],), weight, bias, NORM_EPS).to(torch.bfloat16)
