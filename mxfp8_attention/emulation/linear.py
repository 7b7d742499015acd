"""A linear layer whose three matrix products use the operands that a recipe gives them.

    fprop   y  = round_x(x) round_w(w)^T + bias
    dgrad   dx = round_dy(dy) round_w(w)
    wgrad   dw = round_dy(dy)^T round_x(x)

With MXFP8 an operand's blocks run along the axis that is summed over: fprop uses x and w row-wise,
dgrad dy row-wise and w column-wise, wgrad dy and x column-wise; each is quantized from the bf16
tensor. Products are summed in FP32, results rounded once to bf16.
Axes: T tokens of all sequences, C inputs, O outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from conf.choices import Fp8Format as FormatChoice
from conf.choices import RecipeName, Weights
from conf.schema import (
    Fp8BlockRecipe,
    Fp8CurrentRecipe,
    Fp8DelayedRecipe,
    MxFp8Recipe,
    Recipe,
)
from mxfp8_attention.emulation.mxfp8 import Fp8Format
from mxfp8_attention.emulation.rounding import (
    Rounding,
    block_1x128,
    block_128x128,
    mx_col,
    mx_row,
    per_tensor,
    to_bf16,
)
from mxfp8_attention.matmul import matmul_precision


@dataclass(frozen=True)
class LinearNumerics:
    """The rounding of each operand of a linear layer's products; BF16 by default.

    Attributes:
        x_fprop: Of x [t, c] in y = x w^T.
        w_fprop: Of w [o, c] there.
        dy_dgrad: Of dy [t, o] in dx = dy w.
        w_dgrad: Of w [o, c] there.
        dy_wgrad: Of dy [t, o] in dw = dy^T x.
        x_wgrad: Of x [t, c] there.
        exact_in_tf32: True if every rounded value passes through TF32 unchanged.
    """

    x_fprop: Rounding = to_bf16
    w_fprop: Rounding = to_bf16
    dy_dgrad: Rounding = to_bf16
    w_dgrad: Rounding = to_bf16
    dy_wgrad: Rounding = to_bf16
    x_wgrad: Rounding = to_bf16
    exact_in_tf32: bool = True


def gradient_format(choice: FormatChoice) -> Fp8Format:
    """Return the element format of gradients: E5M2 under hybrid."""
    return Fp8Format.E5M2 if choice is FormatChoice.hybrid else Fp8Format.E4M3


def linear_numerics(recipe: Recipe) -> LinearNumerics:
    """Return the roundings of a recipe; other than bf16 and mxfp8 only for calibration."""
    if isinstance(recipe, MxFp8Recipe):
        gradient = gradient_format(recipe.format)
        return LinearNumerics(
            mx_row(), mx_row(), mx_row(gradient), mx_col(), mx_col(gradient), mx_col()
        )
    if isinstance(recipe, Fp8BlockRecipe):
        gradient = gradient_format(recipe.format)
        weight = block_128x128()
        return LinearNumerics(
            block_1x128(-1),
            weight,
            block_1x128(-1, gradient),
            weight,
            block_1x128(-2, gradient),
            block_1x128(-2),
        )
    if isinstance(recipe, Fp8CurrentRecipe | Fp8DelayedRecipe):
        margin = recipe.margin if isinstance(recipe, Fp8DelayedRecipe) else 0
        forward = per_tensor(Fp8Format.E4M3, margin)
        backward = per_tensor(gradient_format(recipe.format), margin)
        return LinearNumerics(
            forward, forward, backward, forward, backward, forward, exact_in_tf32=False
        )
    if recipe.name is not RecipeName.bf16:
        raise ValueError(f"no emulation of recipe {recipe.name}")
    return LinearNumerics()


class EmulatedLinear:
    """One linear layer of the emulated path.

    Args:
        weight: bf16 leaf [o, c].
        bias: bf16 leaf [o], or None.
        numerics: The roundings of its operands.
        weights: requantized rounds the weight in every product; cached rounds it once in each
            direction and keeps both results, two FP32 copies.
    """

    def __init__(
        self, weight: Tensor, bias: Tensor | None, numerics: LinearNumerics, weights: Weights
    ) -> None:
        self.weight = weight
        self.bias = bias
        self.numerics = numerics
        self._cache: dict[Rounding, Tensor] | None = {} if weights is Weights.cached else None

    def __call__(self, x_SBC: Tensor) -> Tensor:
        """Apply the layer to bf16 [s, b, c]; bf16 [s, b, o]."""
        y_TO: Tensor = _Linear.apply(  # type: ignore[no-untyped-call]  # torch leaves it untyped
            x_SBC.flatten(0, 1), self.weight, self.bias, self
        )
        return torch.unflatten(y_TO, 0, x_SBC.shape[:2])

    def rounded_weight(self, rounding: Rounding) -> Tensor:
        """Return the weight as a product uses it, FP32."""
        if self._cache is None:
            return rounding(self.weight.detach())
        if rounding not in self._cache:
            self._cache[rounding] = rounding(self.weight.detach())
        return self._cache[rounding]


class _Context(Protocol):
    """The part of autograd's context that is used."""

    saved_tensors: tuple[Tensor]
    layer: EmulatedLinear

    def save_for_backward(self, *tensors: Tensor) -> None: ...


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: _Context,
        x_TC: Tensor,
        weight_OC: Tensor,
        bias_O: Tensor | None,
        layer: EmulatedLinear,
    ) -> Tensor:
        ctx.save_for_backward(x_TC)
        ctx.layer = layer
        numerics = layer.numerics
        with matmul_precision(exact_in_tf32=numerics.exact_in_tf32):
            y = numerics.x_fprop(x_TC) @ layer.rounded_weight(numerics.w_fprop).mT
        if bias_O is not None:
            y += bias_O
        return y.to(torch.bfloat16)

    @staticmethod
    def backward(ctx: _Context, dy_TO: Tensor) -> tuple[Tensor | None, ...]:
        (x_TC,) = ctx.saved_tensors
        layer = ctx.layer
        numerics = layer.numerics
        with matmul_precision(exact_in_tf32=numerics.exact_in_tf32):
            dx = numerics.dy_dgrad(dy_TO) @ layer.rounded_weight(numerics.w_dgrad)
            dw = numerics.dy_wgrad(dy_TO).mT @ numerics.x_wgrad(x_TC)
        # The bias' gradient is summed from the high-precision gradient.
        # Source: transformer_engine/pytorch/module/linear.py
        dbias = None if layer.bias is None else dy_TO.sum(0, dtype=torch.float32)
        gradients = (None if g is None else g.to(torch.bfloat16) for g in (dx, dw, dbias))
        return (*gradients, None)
