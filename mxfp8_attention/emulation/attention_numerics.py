"""The rounding of attention's operands: BF16, MXFP8, and FP8 with one scale per tensor.

MXFP8: q, k (in S) and dO, v (in dP) have their blocks along d; v (in O), dO (dV), k (dQ) and q
(dK) along s; dS is quantized along s_kv for dQ and along s_q for dK. P gets a fixed power of two
instead of block scales: 16 forward, where the running maximum may lag behind the true one, 256
backward. Scores, P and sums stay in FP32, delta takes bf16 O and dO, results are bf16.
Source: NVIDIA/cudnn-frontend, test/python/sdpa/mxfp8_ref.py, for operands, tiles of 128 keys and
the threshold 4 of the lagging maximum; its open MXFP8 prefill kernels for that threshold's unit, a
power of two: P peaks at 16 x 2^4 = 256, and E4M3's 448 is never reached.

FP8 with one scale per tensor: q, k and v share one scale, P has 448, dO and dS have one each. With
delayed scaling O leaves in FP8, and so do dQ, dK and dV, with one scale for the three.
Source: Transformer Engine 2.20, dot_product_attention/backends.py (FusedAttnFunc); cudnn-frontend,
include/cudnn_frontend/node/sdpa_fp8_bwd.h. A delayed scale is taken from the tensor itself, which
is what the history holds after a few steps on the same data.

Axes: N heads of all sequences, Q queries, K keys, D width of a head.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from conf.schema import Fp8CurrentRecipe, Fp8DelayedRecipe, MxFp8Recipe, Recipe
from mxfp8_attention.emulation.linear import gradient_format
from mxfp8_attention.emulation.mxfp8 import Fp8Format
from mxfp8_attention.emulation.rounding import (
    Rounding,
    fixed_scale,
    mx_col,
    mx_row,
    per_tensor,
    tensor_scale,
    to_bf16,
    to_fp32,
)

LAZY_RESCALE_THRESHOLD = 4 * math.log(2)
MX_P_SCALE_FORWARD = 16.0
MX_P_SCALE_BACKWARD = 256.0
FP8_P_SCALE = 448.0
_FP8_P = fixed_scale(FP8_P_SCALE)


@dataclass(frozen=True)
class AttentionNumerics:
    """The rounding of each operand of attention's products, to FP32; BF16 by default.

    Attributes:
        q_score: Of q [n, q, d] in S = q k^T.
        k_score: Of k [n, k, d] in S.
        p_forward: Of exp(S - m) [n, q, k] in O = P v.
        v_out: Of v [n, k, d] in O.
        dout_dp: Of dO [n, q, d] in dP = dO v^T.
        v_dp: Of v [n, k, d] in dP.
        p_backward: Of P [n, q, k] in dV = P^T dO.
        dout_dv: Of dO [n, q, d] in dV.
        ds_dq: Of dS [n, q, k] in dQ = dS k.
        k_dq: Of k [n, k, d] in dQ.
        ds_dk: Of dS [n, q, k] in dK = dS^T q.
        q_dk: Of q [n, q, d] in dK.
        dout_delta: Of dO [n, q, d] in delta = sum(O dO).
        out: Of O, all heads at once, before it is stored as bf16.
        rescale_threshold: Nats by which a tile's maximum must exceed the running maximum to
            raise it.
    """

    q_score: Rounding = to_bf16
    k_score: Rounding = to_bf16
    p_forward: Rounding = to_bf16
    v_out: Rounding = to_bf16
    dout_dp: Rounding = to_bf16
    v_dp: Rounding = to_bf16
    p_backward: Rounding = to_bf16
    dout_dv: Rounding = to_bf16
    ds_dq: Rounding = to_bf16
    k_dq: Rounding = to_bf16
    ds_dk: Rounding = to_bf16
    q_dk: Rounding = to_bf16
    dout_delta: Rounding = to_fp32
    out: Rounding = to_fp32
    rescale_threshold: float = 0.0

    def for_inputs(self, q: Tensor, k: Tensor, v: Tensor) -> AttentionNumerics:
        """Return the numerics with the scales that depend on q, k and v as a whole."""
        return self

    def for_gradient(self, dout: Tensor, ds_amax: Callable[[], Tensor]) -> AttentionNumerics:
        """Return the numerics with the scales of backward; `ds_amax` gives max |dS|."""
        return self

    def round_gradients(self, gradients: tuple[Tensor, Tensor, Tensor]) -> None:
        """Round dq, dk and dv of all heads in place if they do not leave as bf16."""


BF16_NUMERICS = AttentionNumerics()


def mx_numerics(gradient: Fp8Format = Fp8Format.E4M3) -> AttentionNumerics:
    """Return MXFP8 attention; `gradient` is the element format of dO and dS."""
    return AttentionNumerics(
        q_score=mx_row(),
        k_score=mx_row(),
        p_forward=fixed_scale(MX_P_SCALE_FORWARD),
        v_out=mx_col(),
        dout_dp=mx_row(gradient),
        v_dp=mx_row(),
        p_backward=fixed_scale(MX_P_SCALE_BACKWARD),
        dout_dv=mx_col(gradient),
        ds_dq=mx_row(gradient),
        k_dq=mx_col(),
        ds_dk=mx_col(gradient),
        q_dk=mx_col(),
        rescale_threshold=LAZY_RESCALE_THRESHOLD,
    )


@dataclass(frozen=True)
class TensorScaledNumerics(AttentionNumerics):
    """FP8 attention with one scale per tensor.

    Operands with a scale of their own are bf16 until `for_inputs` and `for_gradient`.

    Attributes:
        gradient: Element format of dO, dS, dQ, dK and dV.
        margin: Powers of two left free above the largest value.
        stores_fp8: True if O, dQ, dK and dV leave in FP8, as with delayed scaling.
    """

    p_forward: Rounding = _FP8_P
    p_backward: Rounding = _FP8_P
    gradient: Fp8Format = Fp8Format.E5M2
    margin: int = 0
    stores_fp8: bool = True

    def for_inputs(self, q: Tensor, k: Tensor, v: Tensor) -> AttentionNumerics:
        """Use one E4M3 scale for q, k and v."""
        amax = torch.stack([tensor.abs().amax() for tensor in (q, k, v)]).amax()
        operand = fixed_scale(tensor_scale(amax, Fp8Format.E4M3, self.margin))
        return replace(
            self,
            q_score=operand,
            k_score=operand,
            v_out=operand,
            v_dp=operand,
            k_dq=operand,
            q_dk=operand,
            out=per_tensor(Fp8Format.E4M3, self.margin) if self.stores_fp8 else to_fp32,
        )

    def for_gradient(self, dout: Tensor, ds_amax: Callable[[], Tensor]) -> AttentionNumerics:
        """Use one scale for dO and one for dS."""
        scales = [
            tensor_scale(amax, self.gradient, self.margin)
            for amax in (dout.abs().amax(), ds_amax())
        ]
        dout_rounding, ds_rounding = (fixed_scale(scale, self.gradient) for scale in scales)
        return replace(
            self,
            dout_dp=dout_rounding,
            dout_dv=dout_rounding,
            dout_delta=dout_rounding,
            ds_dq=ds_rounding,
            ds_dk=ds_rounding,
        )

    def round_gradients(self, gradients: tuple[Tensor, Tensor, Tensor]) -> None:
        """Use one scale for dq, dk and dv."""
        if not self.stores_fp8:
            return
        amax = torch.stack([gradient.abs().amax() for gradient in gradients]).amax()
        rounding = fixed_scale(tensor_scale(amax, self.gradient, self.margin), self.gradient)
        for gradient in gradients:
            gradient.copy_(rounding(gradient))


def attention_numerics(recipe: Recipe) -> AttentionNumerics:
    """Return a recipe's roundings; BF16 if the recipe does not quantize attention."""
    if isinstance(recipe, MxFp8Recipe) and recipe.fp8_dpa:
        return mx_numerics(gradient_format(recipe.format))
    if isinstance(recipe, Fp8DelayedRecipe) and recipe.fp8_dpa:
        gradient = gradient_format(recipe.format)
        return TensorScaledNumerics(gradient=gradient, margin=recipe.margin, stores_fp8=True)
    if isinstance(recipe, Fp8CurrentRecipe) and recipe.fp8_dpa:
        return TensorScaledNumerics(gradient=gradient_format(recipe.format), stores_fp8=False)
    return BF16_NUMERICS
