"""Attention as a fused kernel computes it, with a recipe's rounding of every operand.

    forward   S = scale q k^T,  P = exp(S - m),  O = round(P) v / sum(P)
    backward  P = softmax(S),   dV = round(P)^T dO,   dP = dO v^T,   delta = sum(O dO)
              dS = scale P (dP - delta),   dQ = round(dS) k,   dK = round(dS)^T q

The running maximum m goes over tiles of 128 keys, as in an online softmax. Heads run in pieces of
whole rows, so one head is the least that must fit into memory.
Axes: S tokens, B batch, H heads, D width of a head, N = B * H, Q queries, K keys.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from mxfp8_attention.emulation.attention_numerics import AttentionNumerics
from mxfp8_attention.matmul import head_pieces, matmul_precision, to_NSD, to_SBHD

KEY_TILE = 128
# [s_q, s_kv] FP32 tensors of one head alive at once, in backward.
PLANES = 5


@dataclass(frozen=True)
class AttentionMask:
    """The keys that a query attends to.

    Attributes:
        diagonal: Query i attends to keys 0 to i + diagonal, None to all. A causal mask is 0.
    """

    diagonal: int | None = None

    def apply_(self, scores_NQK: Tensor) -> Tensor:
        """Set the scores of masked keys to minus infinity, in place."""
        if self.diagonal is None:
            return scores_NQK
        ones = torch.ones(scores_NQK.shape[-2:], dtype=torch.bool, device=scores_NQK.device)
        return scores_NQK.masked_fill_(ones.triu_(self.diagonal + 1), -torch.inf)


@dataclass(frozen=True)
class AttentionRules:
    """Everything that defines attention besides its tensors.

    Attributes:
        scale: Softmax scale.
        mask: The mask.
        numerics: The roundings of its operands.
    """

    scale: float
    mask: AttentionMask
    numerics: AttentionNumerics


def forward_NSD(q: Tensor, k: Tensor, v: Tensor, rules: AttentionRules) -> tuple[Tensor, Tensor]:
    """Compute attention of a piece of heads from q, k [n, s, d_qk] and v [n, s_kv, d_v].

    Returns:
        FP32 output [n, s_q, d_v], and FP32 log(sum(exp(S))) [n, s_q, 1] for backward.
    """
    numerics = rules.numerics
    scores = _scores(q, k, rules)
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
    return out, last + total.log()


def backward_NSD(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    log_sum: Tensor,
    dout: Tensor,
    rules: AttentionRules,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return FP32 dq, dk, dv of a piece of heads.

    `out` and `log_sum` are the results of `forward_NSD`, `dout` is the bf16 gradient of `out`.
    """
    numerics = rules.numerics
    p = _probabilities(q, k, log_sum, rules)
    dv = numerics.p_backward(p).mT @ numerics.dout_dv(dout)
    ds = _score_gradient(p, v, out, dout, rules)
    dq = numerics.ds_dq(ds) @ numerics.k_dq(k)
    dk = numerics.ds_dk(ds).mT @ numerics.q_dk(q)
    return dq, dk, dv


def _scores(q: Tensor, k: Tensor, rules: AttentionRules) -> Tensor:
    """Return scaled and masked scores in FP32."""
    scores = rules.numerics.q_score(q) @ rules.numerics.k_score(k).mT
    return rules.mask.apply_(scores.mul_(rules.scale))


def _probabilities(q: Tensor, k: Tensor, log_sum: Tensor, rules: AttentionRules) -> Tensor:
    return _scores(q, k, rules).sub_(log_sum).exp_()


def _score_gradient(
    p: Tensor, v: Tensor, out: Tensor, dout: Tensor, rules: AttentionRules
) -> Tensor:
    """Return dS in FP32; overwrites p."""
    numerics = rules.numerics
    delta = (out.to(torch.float32) * numerics.dout_delta(dout)).sum(dim=-1, keepdim=True)
    dp = (numerics.dout_dp(dout) @ numerics.v_dp(v).mT).sub_(delta)
    return p.mul_(dp).mul_(rules.scale)


def _running_maxima(tiles: tuple[Tensor, ...], threshold: float) -> list[Tensor]:
    """Return the maximum that each tile of keys is shifted by, [n, q, 1] each."""
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
    """Compute attention of all heads, differentiable, in head-sized pieces.

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
    """The part of autograd's context that is used."""

    saved_tensors: tuple[Tensor, ...]
    rules: AttentionRules

    def save_for_backward(self, *tensors: Tensor) -> None: ...


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: _Context, q: Tensor, k: Tensor, v: Tensor, rules: AttentionRules) -> Tensor:
        rules = replace(rules, numerics=rules.numerics.for_inputs(q, k, v))
        ctx.rules = rules
        q_NSD, k_NSD, v_NSD = to_NSD(q), to_NSD(k), to_NSD(v)
        heads, seq_len_q = q_NSD.shape[:2]
        out_NSD = torch.empty(
            (heads, seq_len_q, v.shape[-1]), dtype=torch.float32, device=q.device
        )
        log_sum = torch.empty((heads, seq_len_q, 1), dtype=torch.float32, device=q.device)
        with matmul_precision(exact_in_tf32=False):
            for piece in head_pieces(heads, seq_len_q, k.shape[0], PLANES, q.device):
                inputs = (q_NSD[piece], k_NSD[piece], v_NSD[piece])
                out_NSD[piece], log_sum[piece] = forward_NSD(*inputs, rules)
        out_NSD = rules.numerics.out(out_NSD).to(torch.bfloat16)
        ctx.save_for_backward(q, k, v, out_NSD, log_sum)
        return to_SBHD(out_NSD, q.shape[1]).contiguous()

    @staticmethod
    def backward(ctx: _Context, dout: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, out_NSD, log_sum = ctx.saved_tensors
        q_NSD, k_NSD, v_NSD, dout_NSD = (to_NSD(tensor) for tensor in (q, k, v, dout))
        grads_NSD = (torch.empty_like(q_NSD), torch.empty_like(k_NSD), torch.empty_like(v_NSD))
        pieces = list(head_pieces(len(q_NSD), q.shape[0], k.shape[0], PLANES, q.device))

        def ds_amax() -> Tensor:
            amax = log_sum.new_zeros(())
            for piece in pieces:
                p = _probabilities(q_NSD[piece], k_NSD[piece], log_sum[piece], ctx.rules)
                ds = _score_gradient(p, v_NSD[piece], out_NSD[piece], dout_NSD[piece], ctx.rules)
                amax = torch.maximum(amax, ds.abs_().amax())
            return amax

        with matmul_precision(exact_in_tf32=False):
            rules = replace(ctx.rules, numerics=ctx.rules.numerics.for_gradient(dout, ds_amax))
            for piece in pieces:
                gradients = backward_NSD(
                    q_NSD[piece],
                    k_NSD[piece],
                    v_NSD[piece],
                    out_NSD[piece],
                    log_sum[piece],
                    dout_NSD[piece],
                    rules,
                )
                for target, gradient in zip(grads_NSD, gradients, strict=True):
                    target[piece] = gradient
        rules.numerics.round_gradients(grads_NSD)
        return (*(to_SBHD(grad, q.shape[1]) for grad in grads_NSD), None)
