"""Attention as a fused kernel computes it, with each operand of its products rounded by a recipe.

    forward   S = scale q k^T,  P = exp(S - m),  O = round(P) v / sum(P)
    backward  P = softmax(S),   dV = round(P)^T dO,   dP = dO v^T,   delta = sum(O dO)
              dS = scale P (dP - delta),   dQ = round(dS) k,   dK = round(dS)^T q

MXFP8: q, k (S) and dO, v (dP) have their blocks along d; v (O), dO (dV), k (dQ) and q (dK) along
s; dS is quantized along s_kv for dQ and along s_q for dK. P gets a fixed power of two instead of
block scales: 16 forward, where the running maximum m may lag behind the true one, 256 backward.
Source: NVIDIA/cudnn-frontend, test/python/sdpa/mxfp8_ref.py; tiles of 128 keys, threshold 4.
Its threshold is read in powers of two here: e^4 x 16 would exceed E4M3's 448.

Axes: S tokens, B batch, H heads, D width of a head, N = B * H, Q queries, K keys.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from conf.schema import MxFp8Recipe, Recipe
from mxfp8_attention.emulation_linear import gradient_format
from mxfp8_attention.emulation_rounding import Rounding, fixed_scale, mx_col, mx_row, to_bf16
from mxfp8_attention.head_pieces import head_pieces, to_NSD, to_SBHD
from mxfp8_attention.matmul_precision import matmul_precision

KEY_TILE = 128
LAZY_RESCALE_THRESHOLD = 4 * math.log(2)
P_SCALE_FORWARD = 16.0
P_SCALE_BACKWARD = 256.0
# [s_q, s_kv] FP32 tensors of one head alive at once, in backward.
PLANES = 7


@dataclass(frozen=True)
class AttentionNumerics:
    """How each operand of attention's products is rounded; every field maps a tensor to FP32.

    Attributes:
        q_score: Of q [n, q, d] in S.
        k_score: Of k [n, k, d] in S.
        p_forward: Of exp(S - m) [n, q, k] in O.
        v_out: Of v [n, k, d] in O.
        dout_dp: Of dO [n, q, d] in dP.
        v_dp: Of v [n, k, d] in dP.
        p_backward: Of P [n, q, k] in dV.
        dout_dv: Of dO [n, q, d] in dV.
        ds_dq: Of dS [n, q, k] in dQ.
        k_dq: Of k [n, k, d] in dQ.
        ds_dk: Of dS [n, q, k] in dK.
        q_dk: Of q [n, q, d] in dK.
        rescale_threshold: How far, in nats, a tile's maximum must exceed the running one before
            that follows it.
    """

    q_score: Rounding
    k_score: Rounding
    p_forward: Rounding
    v_out: Rounding
    dout_dp: Rounding
    v_dp: Rounding
    p_backward: Rounding
    dout_dv: Rounding
    ds_dq: Rounding
    k_dq: Rounding
    ds_dk: Rounding
    q_dk: Rounding
    rescale_threshold: float = 0.0


BF16_NUMERICS = AttentionNumerics(
    q_score=to_bf16,
    k_score=to_bf16,
    p_forward=to_bf16,
    v_out=to_bf16,
    dout_dp=to_bf16,
    v_dp=to_bf16,
    p_backward=to_bf16,
    dout_dv=to_bf16,
    ds_dq=to_bf16,
    k_dq=to_bf16,
    ds_dk=to_bf16,
    q_dk=to_bf16,
)


def attention_numerics(recipe: Recipe) -> AttentionNumerics:
    """A recipe's operands; BF16 where the recipe leaves attention alone.

    Args:
        recipe: Any recipe.

    Returns:
        The roundings of attention's products.
    """
    if not isinstance(recipe, MxFp8Recipe) or not recipe.fp8_dpa:
        return BF16_NUMERICS
    gradient = gradient_format(recipe.format)
    return AttentionNumerics(
        q_score=mx_row(),
        k_score=mx_row(),
        p_forward=fixed_scale(P_SCALE_FORWARD),
        v_out=mx_col(),
        dout_dp=mx_row(gradient),
        v_dp=mx_row(),
        p_backward=fixed_scale(P_SCALE_BACKWARD),
        dout_dv=mx_col(gradient),
        ds_dq=mx_row(gradient),
        k_dq=mx_col(),
        ds_dk=mx_col(gradient),
        q_dk=mx_col(),
        rescale_threshold=LAZY_RESCALE_THRESHOLD,
    )


@dataclass(frozen=True)
class AttentionMask:
    """Which keys a query sees.

    Attributes:
        diagonal: Query i sees keys 0 to i + diagonal; None: all of them. A causal mask is 0.
    """

    diagonal: int | None = None

    def apply_(self, scores_NQK: Tensor) -> Tensor:
        """Set the scores of unseen keys to minus infinity, in place."""
        if self.diagonal is None:
            return scores_NQK
        ones = torch.ones(scores_NQK.shape[-2:], dtype=torch.bool, device=scores_NQK.device)
        return scores_NQK.masked_fill_(ones.triu_(self.diagonal + 1), -torch.inf)


@dataclass(frozen=True)
class AttentionRules:
    """All that defines attention besides its tensors.

    Attributes:
        scale: Softmax scale.
        mask: Which keys are seen.
        numerics: What the products see.
    """

    scale: float
    mask: AttentionMask
    numerics: AttentionNumerics


def forward_NSD(q: Tensor, k: Tensor, v: Tensor, rules: AttentionRules) -> tuple[Tensor, Tensor]:
    """Attention of a piece of heads.

    Args:
        q: [n, s_q, d_qk].
        k: [n, s_kv, d_qk].
        v: [n, s_kv, d_v].
        rules: Scale, mask and roundings.

    Returns:
        bf16 output [n, s_q, d_v], and FP32 log(sum(exp(S))) [n, s_q, 1] for backward.
    """
    numerics = rules.numerics
    scores = _scores_NQK(q, k, rules)
    tiles = torch.split(scores, KEY_TILE, dim=-1)
    used = _running_maxima(tiles, numerics.rescale_threshold)
    last = used[-1]
    weights = torch.empty_like(scores)
    total = torch.zeros_like(last)
    for tile, maximum, target in zip(
        tiles, used, torch.split(weights, KEY_TILE, dim=-1), strict=True
    ):
        p = tile.sub_(maximum).exp_()
        correction = (maximum - last).exp_()
        total += p.sum(dim=-1, keepdim=True) * correction
        target.copy_(numerics.p_forward(p) * correction)
    out = (weights @ numerics.v_out(v)) / total
    return out.to(torch.bfloat16), last + total.log()


def backward_NSD(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    log_sum: Tensor,
    dout: Tensor,
    rules: AttentionRules,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of a piece of heads.

    Args:
        q: [n, s_q, d_qk].
        k: [n, s_kv, d_qk].
        v: [n, s_kv, d_v].
        out: What `forward_NSD` returned.
        log_sum: Likewise.
        dout: bf16 gradient of out.
        rules: Scale, mask and roundings.

    Returns:
        FP32 dq, dk, dv in the shapes of q, k, v.
    """
    numerics = rules.numerics
    p = _scores_NQK(q, k, rules).sub_(log_sum).exp_()
    dv = numerics.p_backward(p).mT @ numerics.dout_dv(dout)
    delta = (out.to(torch.float32) * dout.to(torch.float32)).sum(dim=-1, keepdim=True)
    ds = (numerics.dout_dp(dout) @ numerics.v_dp(v).mT).sub_(delta).mul_(p).mul_(rules.scale)
    del p
    dq = numerics.ds_dq(ds) @ numerics.k_dq(k)
    dk = numerics.ds_dk(ds).mT @ numerics.q_dk(q)
    return dq, dk, dv


def _scores_NQK(q: Tensor, k: Tensor, rules: AttentionRules) -> Tensor:
    """Scaled and masked scores in FP32."""
    scores = rules.numerics.q_score(q) @ rules.numerics.k_score(k).mT
    return rules.mask.apply_(scores.mul_(rules.scale))


def _running_maxima(tiles: tuple[Tensor, ...], threshold: float) -> list[Tensor]:
    """The maximum that each tile of keys is shifted by, [n, q, 1] each."""
    used = [tiles[0].amax(dim=-1, keepdim=True)]
    for tile in tiles[1:]:
        maximum = tile.amax(dim=-1, keepdim=True)
        used.append(torch.where(maximum - used[-1] > threshold, maximum, used[-1]))
    return used


def emulated_attention(
    q_SBHD: Tensor,
    k_SBHD: Tensor,
    v_SBHD: Tensor,
    rules: AttentionRules,
) -> Tensor:
    """Attention of all heads, differentiable, in head-sized pieces.

    Args:
        q_SBHD: bf16 [s_q, b, h, d_qk].
        k_SBHD: bf16 [s_kv, b, h, d_qk].
        v_SBHD: bf16 [s_kv, b, h, d_v].
        rules: Scale, mask and roundings.

    Returns:
        bf16 [s_q, b, h, d_v].
    """
    out: Tensor = _Attention.apply(  # type: ignore[no-untyped-call]  # torch leaves it untyped
        q_SBHD, k_SBHD, v_SBHD, rules
    )
    return out


class _Context(Protocol):
    """What is used of autograd's context."""

    saved_tensors: tuple[Tensor, ...]
    rules: AttentionRules

    def save_for_backward(self, *tensors: Tensor) -> None: ...


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: _Context,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        rules: AttentionRules,
    ) -> Tensor:
        ctx.rules = rules
        q_NSD, k_NSD, v_NSD = to_NSD(q), to_NSD(k), to_NSD(v)
        heads, seq_len_q = q_NSD.shape[:2]
        out_NSD = torch.empty((heads, seq_len_q, v.shape[-1]), dtype=q.dtype, device=q.device)
        log_sum = torch.empty((heads, seq_len_q, 1), dtype=torch.float32, device=q.device)
        with matmul_precision(exact_in_tf32=False):
            for piece in head_pieces(heads, seq_len_q, k.shape[0], PLANES, q.device):
                out_NSD[piece], log_sum[piece] = forward_NSD(
                    q_NSD[piece], k_NSD[piece], v_NSD[piece], rules
                )
        ctx.save_for_backward(q, k, v, out_NSD, log_sum)
        return to_SBHD(out_NSD, q.shape[1]).contiguous()

    @staticmethod
    def backward(ctx: _Context, dout: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, out_NSD, log_sum = ctx.saved_tensors
        q_NSD, k_NSD, v_NSD, dout_NSD = (to_NSD(tensor) for tensor in (q, k, v, dout))
        grads_NSD = tuple(torch.empty_like(tensor) for tensor in (q_NSD, k_NSD, v_NSD))
        heads, seq_len_q = out_NSD.shape[:2]
        with matmul_precision(exact_in_tf32=False):
            for piece in head_pieces(heads, seq_len_q, k.shape[0], PLANES, q.device):
                gradients = backward_NSD(
                    q_NSD[piece],
                    k_NSD[piece],
                    v_NSD[piece],
                    out_NSD[piece],
                    log_sum[piece],
                    dout_NSD[piece],
                    ctx.rules,
                )
                for target, gradient in zip(grads_NSD, gradients, strict=True):
                    target[piece] = gradient
        return (*(to_SBHD(grad, q.shape[1]) for grad in grads_NSD), None)
