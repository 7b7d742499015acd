"""The attention layer that every implementation runs: its stages, and one training step.

    x [s, b, hidden] -> Linear(QKV) -> MLA RoPE -> attention -> Linear(out)

Axes: S tokens of a sequence, B batch, C hidden, H heads, D width of a head. Two projections:

    fused: one Linear, qkv = [q of all heads | k of all heads | v of all heads]; the shared rotary
           key is the last columns of head 0's k
    split: LayerNormLinear for q, LayerNormLinear for kv = [k_nope | v of each head | rotary key]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from conf.choices import Projection
from mxfp8_attention.case import Case
from mxfp8_attention.rope import mla_rope_k, mla_rope_kv, mla_rope_q

NORM_EPS = 1e-5


@dataclass(frozen=True)
class Activations:
    """Tensors of one forward pass, still attached to its graph.

    Attributes:
        projected: Result of `AttentionPath.project`.
        q_SBHD: Rotated queries, the input of attention.
        k_SBHD: Rotated keys.
        v_SBHD: Values.
        attention_SBD: Output of attention.
        out_SBC: Output of the layer.
    """

    projected: tuple[Tensor, ...]
    q_SBHD: Tensor
    k_SBHD: Tensor
    v_SBHD: Tensor
    attention_SBD: Tensor
    out_SBC: Tensor


class AttentionPath(ABC):
    """One implementation of the layer.

    Attributes:
        case: Inputs and weights.
        x_SBC: The input as a leaf of its own, so that two paths never share a gradient.
        name: Display name: mxfp8, bf16, fp32, ...
        precision: Precision of its linear layers.
        emulated: True if its time says nothing about hardware.
    """

    name: str
    precision: str
    emulated: bool = False

    def __init__(self, case: Case, dtype: torch.dtype = torch.bfloat16) -> None:
        self.case = case
        self.x_SBC = case.x_SBC.detach().to(dtype, copy=True).requires_grad_()

    @abstractmethod
    def project(self, x_SBC: Tensor) -> tuple[Tensor, ...]:
        """Return (qkv,) with the fused projection, (q, kv) with split; each [s, b, width]."""

    @abstractmethod
    def attend(self, q_SBHD: Tensor, k_SBHD: Tensor, v_SBHD: Tensor) -> Tensor:
        """Return attention over rotated queries and keys, [s, b, heads * head_dim_v]."""

    @abstractmethod
    def output(self, attention_SBD: Tensor) -> Tensor:
        """Apply the last linear layer; [s, b, hidden]."""

    @abstractmethod
    def parameters(self) -> dict[str, Tensor]:
        """Return leaves by the names of `Case.weights`; gradients arrive in their `.grad`."""

    def context(self) -> AbstractContextManager[object]:
        """Return the context of a whole forward pass: an autocast, for Transformer Engine."""
        return nullcontext()

    def rope(self, *projected: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Split the projection into heads and rotate; q, k and v [s, b, h, d]."""
        shape, tables = self.case.shape, self.case.tables
        heads, qk, rope_dim = shape.num_heads, shape.head_dim_qk, shape.head_dim_rope
        kernel = shape.rope_kernel.name
        if shape.projection is Projection.fused:
            (qkv,) = projected
            widths = [heads * qk, heads * qk, heads * shape.head_dim_v]
            q, k, v = (
                torch.unflatten(part, -1, (heads, -1))
                for part in qkv.split_with_sizes(widths, dim=-1)
            )
            k = mla_rope_k(k, tables, rope_dim=rope_dim, kernel=kernel)
        else:
            q, kv = projected
            q = torch.unflatten(q, -1, (heads, qk))
            k_pe = kv[..., -rope_dim:].unsqueeze(2)
            kv = torch.unflatten(kv[..., :-rope_dim], -1, (heads, -1))
            k, v = mla_rope_kv(kv, k_pe, tables, nope_dim=shape.head_dim_nope, kernel=kernel)
        return mla_rope_q(q, tables, rope_dim=rope_dim, kernel=kernel), k, v

    def forward(self) -> Activations:
        """Run one forward pass and keep the tensors between its stages."""
        with self.context():
            projected = self.project(self.x_SBC)
            q, k, v = self.rope(*projected)
            attention = self.attend(q, k, v)
            out = self.output(attention)
        return Activations(projected, q, k, v, attention, out)

    def fprop(self) -> Tensor:
        """Run one forward pass; [s, b, hidden]."""
        return self.forward().out_SBC

    def bprop(self, out_SBC: Tensor) -> None:
        """Run one backward pass with the case's upstream gradient; a graph is used once."""
        torch.autograd.backward(out_SBC, self.case.dout_SBC.to(out_SBC.dtype))

    def zero_grad(self) -> None:
        """Clear every gradient."""
        for leaf in (self.x_SBC, *self.parameters().values()):
            leaf.grad = None

    def step(self) -> dict[str, Tensor]:
        """Run one forward and one backward pass.

        Returns:
            Detached: q, k, v (the inputs of attention), attention, out, dx, and d<name> for each
            weight.
        """
        self.zero_grad()
        kept = self.forward()
        self.bprop(kept.out_SBC)
        tensors = {
            "q": kept.q_SBHD,
            "k": kept.k_SBHD,
            "v": kept.v_SBHD,
            "attention": kept.attention_SBD,
            "out": kept.out_SBC,
        }
        leaves = {"dx": self.x_SBC} | {f"d{n}": leaf for n, leaf in self.parameters().items()}
        for name, leaf in leaves.items():
            if leaf.grad is None:
                raise RuntimeError(f"no gradient for {name} after the backward pass")
            tensors[name] = leaf.grad
        self.zero_grad()
        return {name: tensor.detach() for name, tensor in tensors.items()}
