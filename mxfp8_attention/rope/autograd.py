"""Gradients of the RoPE operators, and rotation in place.

RoPE is linear and each operator is the transpose of its partner, so that the gradient of the one
is the other, to any order. Axes as in rope_eager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast

import torch
from torch import Tensor
from torch._ops import OpOverload

from mxfp8_attention.rope import ops as rope_ops

_Tables = tuple[Tensor, Tensor, Tensor | None]


class _Context(Protocol):
    """What is used of autograd's context."""

    saved_tensors: _Tables
    options: tuple[bool | int | str, ...]

    def save_for_backward(self, *tensors: Tensor | None) -> None: ...


class _InPlaceContext(Protocol):
    """The same for rotation in place."""

    saved_tensors: _Tables
    qkv_format: str
    inplace_grad: bool
    kernel: str

    def save_for_backward(self, *tensors: Tensor | None) -> None: ...
    def mark_dirty(self, *tensors: Tensor) -> None: ...


def _register_transpose(
    operator: OpOverload, transpose: Callable[..., Tensor | tuple[Tensor, Tensor]], data: int
) -> None:
    """Let `transpose` be the gradient of `operator`, whose first `data` arguments carry one."""

    def setup_context(ctx: _Context, inputs: tuple[object, ...], output: object) -> None:
        ctx.save_for_backward(*cast("_Tables", inputs[data : data + 3]))
        ctx.options = cast("tuple[bool | int | str, ...]", inputs[data + 3 :])

    def backward(ctx: _Context, *grads: Tensor) -> tuple[Tensor | None, ...]:
        result = transpose(*grads, *ctx.saved_tensors, *ctx.options)
        results = result if isinstance(result, tuple) else (result,)
        return *results, None, None, None, *(None for _ in ctx.options)

    torch.library.register_autograd(operator, backward, setup_context=setup_context)


def _rope_q_transposed(
    grad: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor | None,
    batch_first: bool,
    inverse: bool,
    kernel: str,
) -> Tensor:
    rotated: Tensor = rope_ops.rope_q(grad, cos, sin, positions, batch_first, not inverse, kernel)
    return rotated


_register_transpose(rope_ops.rope_q, _rope_q_transposed, data=1)
_register_transpose(rope_ops.rope_k_fused, rope_ops.rope_k_fused_backward, data=1)
_register_transpose(rope_ops.rope_k_fused_backward, rope_ops.rope_k_fused, data=1)
_register_transpose(rope_ops.rope_kv_split, rope_ops.rope_kv_split_backward, data=2)
_register_transpose(rope_ops.rope_kv_split_backward, rope_ops.rope_kv_split, data=2)


def rotate_in_place(
    q: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor | None,
    qkv_format: str,
    inplace_grad: bool,
    kernel: str,
) -> Tensor:
    """Rotate q's rotary columns where they lie and return q; autograd is told.

    With `inplace_grad` backward rotates the incoming gradient where it lies too, unless its
    elements share memory (the expanded gradient of a sum).
    """
    rotated = _RotateInPlace.apply(  # type: ignore[no-untyped-call]  # torch leaves it untyped
        q, cos, sin, positions, qkv_format, inplace_grad, kernel
    )
    return cast("Tensor", rotated)


class _RotateInPlace(torch.autograd.Function):
    """The mutating operator with a gradient, which an operator cannot carry by itself."""

    @staticmethod
    def forward(
        ctx: _InPlaceContext,
        q: Tensor,
        cos: Tensor,
        sin: Tensor,
        positions: Tensor | None,
        qkv_format: str,
        inplace_grad: bool,
        kernel: str,
    ) -> Tensor:
        rope_ops.rope_q_(canonical(q, qkv_format), cos, sin, positions, False, kernel)
        ctx.mark_dirty(q)
        ctx.save_for_backward(cos, sin, positions)
        ctx.qkv_format, ctx.inplace_grad, ctx.kernel = qkv_format, inplace_grad, kernel
        return q

    @staticmethod
    def backward(ctx: _InPlaceContext, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        cos, sin, positions = ctx.saved_tensors
        grad_SBHD = canonical(grad, ctx.qkv_format)
        if ctx.inplace_grad and not overlaps_itself(grad):
            rope_ops.rope_q_(grad_SBHD, cos, sin, positions, True, ctx.kernel)
            return grad, None, None, None, None, None, None
        dq_SBHD = rope_ops.rope_q(
            grad_SBHD, cos, sin, positions, ctx.qkv_format == "bshd", True, ctx.kernel
        )
        return restored(dq_SBHD, ctx.qkv_format), None, None, None, None, None, None


def canonical(x: Tensor, qkv_format: str) -> Tensor:
    """View a tensor of the given format as [s, b, h, d]."""
    if qkv_format == "bshd":
        return x.transpose(0, 1)
    return x.unsqueeze(1) if qkv_format == "thd" else x


def restored(x_SBHD: Tensor, qkv_format: str) -> Tensor:
    """View [s, b, h, d] in the given format again."""
    if qkv_format == "bshd":
        return x_SBHD.transpose(0, 1)
    return x_SBHD.squeeze(1) if qkv_format == "thd" else x_SBHD


def overlaps_itself(x: Tensor) -> bool:
    """Say whether two elements may share memory, as in the expanded gradient of a sum."""
    extent = 1  # of the axes so far, from their first element to behind their last
    for stride, size in sorted(zip(x.stride(), x.shape, strict=True)):
        if size > 1:
            if stride < extent:
                return True
            extent += stride * (size - 1)
    return False
