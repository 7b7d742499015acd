"""The FP32 path: the reference that errors are measured against.

Every product is FP32 (no TF32), every derivative comes from autograd; only RoPE is shared with the
emulation. Attention runs in head-sized pieces, which the backward pass recomputes.
Axes: S tokens, B batch, C hidden, H heads, D width of a head, N = B * H.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from conf.choices import Projection
from mxfp8_attention.case import Case
from mxfp8_attention.layer import NORM_EPS, AttentionPath
from mxfp8_attention.matmul import head_pieces, matmul_precision, to_NSD, to_SBHD

# Scores, probabilities, their gradients in backward, and autograd's temporaries.
PLANES = 6


class ReferencePath(AttentionPath):
    """The layer in FP32."""

    name = "fp32"
    precision = "fp32"

    def __init__(self, case: Case) -> None:
        super().__init__(case, torch.float32)
        self._parameters = {
            name: weight.detach().to(torch.float32, copy=True).requires_grad_()
            for name, weight in case.weights.items()
        }

    def parameters(self) -> dict[str, Tensor]:
        """Return FP32 leaves by the names of `Case.weights`."""
        return self._parameters

    def context(self) -> AbstractContextManager[object]:
        """Disable TF32."""
        return matmul_precision(exact_in_tf32=False)

    def bprop(self, out_SBC: Tensor) -> None:
        """Run one backward pass, without TF32 either."""
        with self.context():
            super().bprop(out_SBC)

    def project(self, x_SBC: Tensor) -> tuple[Tensor, ...]:
        """Return (qkv,) or (q, kv)."""
        if self.case.shape.projection is Projection.fused:
            return (self._linear("qkv", x_SBC),)
        return tuple(self._linear(name, self._norm(name, x_SBC)) for name in ("q", "kv"))

    def attend(self, q_SBHD: Tensor, k_SBHD: Tensor, v_SBHD: Tensor) -> Tensor:
        """Return softmax(scale Q K^T) V."""
        out: Tensor = _Attention.apply(  # type: ignore[no-untyped-call]  # torch leaves it untyped
            q_SBHD, k_SBHD, v_SBHD, self.case.softmax_scale, self.case.causal
        )
        return out.flatten(2)

    def output(self, attention_SBD: Tensor) -> Tensor:
        """Apply the last linear layer."""
        return self._linear("out", attention_SBD)

    def _linear(self, name: str, x: Tensor) -> Tensor:
        weights = self._parameters
        return functional.linear(x, weights[f"{name}_weight"], weights.get(f"{name}_bias"))

    def _norm(self, name: str, x: Tensor) -> Tensor:
        weight, bias = (self._parameters[f"{name}_norm_{part}"] for part in ("weight", "bias"))
        return functional.layer_norm(x, (x.shape[-1],), weight, bias, NORM_EPS)


def attention_NSD(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool) -> Tensor:
    """Compute attention by its definition, differentiable.

    Args:
        q: [n, s_q, d_qk].
        k: [n, s_kv, d_qk].
        v: [n, s_kv, d_v].
        scale: Softmax scale.
        causal: True if query i attends to keys 0 to i only.

    Returns:
        [n, s_q, d_v].
    """
    scores = torch.matmul(q, k.mT) * scale
    if causal:
        visible = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril_()
        scores = scores.masked_fill(~visible, -torch.inf)
    return torch.matmul(scores.softmax(dim=-1), v)


class _Context(Protocol):
    """The part of autograd's context that is used."""

    saved_tensors: tuple[Tensor, ...]
    scale: float
    causal: bool

    def save_for_backward(self, *tensors: Tensor) -> None: ...


class _Attention(torch.autograd.Function):
    """`attention_NSD` in head pieces, which autograd differentiates one by one in backward."""

    @staticmethod
    def forward(
        ctx: _Context, q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool
    ) -> Tensor:
        ctx.save_for_backward(q, k, v)
        ctx.scale, ctx.causal = scale, causal
        q_NSD, k_NSD, v_NSD = to_NSD(q), to_NSD(k), to_NSD(v)
        out_NSD = v_NSD.new_empty((*q_NSD.shape[:2], v_NSD.shape[2]))
        for piece in head_pieces(len(q_NSD), q.shape[0], k.shape[0], PLANES, q.device):
            inputs = (q_NSD[piece], k_NSD[piece], v_NSD[piece])
            out_NSD[piece] = attention_NSD(*inputs, scale, causal)
        return to_SBHD(out_NSD, q.shape[1]).contiguous()

    @staticmethod
    def backward(ctx: _Context, dout: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v = ctx.saved_tensors
        inputs_NSD = tuple(to_NSD(tensor) for tensor in (q, k, v))
        dout_NSD = to_NSD(dout)
        grads_NSD = tuple(torch.empty_like(tensor) for tensor in inputs_NSD)
        for piece in head_pieces(len(dout_NSD), q.shape[0], k.shape[0], PLANES, q.device):
            leaves = [tensor[piece].detach().requires_grad_() for tensor in inputs_NSD]
            with torch.enable_grad():
                out = attention_NSD(leaves[0], leaves[1], leaves[2], ctx.scale, ctx.causal)
            grads = torch.autograd.grad(out, leaves, dout_NSD[piece])
            for target, grad in zip(grads_NSD, grads, strict=True):
                target[piece] = grad
        return (*(to_SBHD(grad, q.shape[1]) for grad in grads_NSD), None, None)
