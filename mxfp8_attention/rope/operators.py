"""MLA RoPE as PyTorch operators: what they return, and the choice of kernel.

Axes as in rope_eager: every tensor is [s, b, h, d]. `batch_first` says that memory holds b before
s, so that what is allocated here is dense in the caller's own axis order. `positions` picks a row
of the tables for each of the s tokens; without it token i takes row i.

The operators are defined by schema and not with torch.library.custom_op, whose first call imports
torch._dynamo (seconds) and whose every call costs several times as much.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Protocol, cast

import torch
from torch import Tensor
from torch._ops import OpOverload

from mxfp8_attention.rope import eager as rope_eager

KERNELS = ("auto", "eager", "triton")

# torch leaves its Library untyped.
_LIBRARY = torch.library.Library("mxfp8_attention", "FRAGMENT")  # type: ignore[no-untyped-call]
_SplitArguments = tuple[Tensor, Tensor, Tensor | None, bool, int, str]


def resolve_kernel(kernel: str, device: torch.device) -> str:
    """Return the kernel, 'eager' or 'triton', that runs for a tensor on `device`.

    Args:
        kernel: auto, eager or triton; auto is triton on a GPU and eager elsewhere.
        device: where the tensor is.

    Raises:
        ValueError: there is no such kernel, or Triton is asked for where it cannot run.
        ImportError: Triton is needed and not installed. A GPU never gets eager unasked.
    """
    if kernel not in KERNELS:
        raise ValueError(f"rope_kernel must be one of {', '.join(KERNELS)}, got {kernel}")
    if kernel == "auto":
        kernel = "triton" if device.type == "cuda" else "eager"
    if kernel == "eager":
        return kernel
    if find_spec("triton") is None:
        raise ImportError(
            f"rope_kernel must be eager for a tensor on {device.type} without triton, "
            "got triton; install triton or set rope_kernel=eager"
        )
    if device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        raise ValueError(
            f"rope_kernel must be eager for a tensor on {device.type}, got triton; "
            "set rope_kernel=eager (or TRITON_INTERPRET=1 to have the kernels interpreted)"
        )
    return kernel


def _implementation(kernel: str, device: torch.device) -> ModuleType:
    """Return the module that computes: both have the same functions."""
    if resolve_kernel(kernel, device) == "triton":
        return import_module("mxfp8_attention.rope.triton")
    return rope_eager


def _dense(like: Tensor, heads: int, dim: int, batch_first: bool) -> Tensor:
    """Allocate [s, b, heads, dim], dense in the caller's axis order."""
    seq_len, batch = like.shape[:2]
    if batch_first:
        return like.new_empty((batch, seq_len, heads, dim)).transpose(0, 1)
    return like.new_empty((seq_len, batch, heads, dim))


def _rope_q(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor | None,
    batch_first: bool,
    inverse: bool,
    kernel: str,
) -> Tensor:
    """Rotate the last columns of each head, or rotate them back; the others are copied."""
    out = _dense(x, x.shape[2], x.shape[3], batch_first)
    _implementation(kernel, x.device).q_into(out, x, cos, sin, positions, inverse=inverse)
    return out


def _rope_q_(
    x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, inverse: bool, kernel: str
) -> None:
    """As `rope_q`, in place: only the rotary columns are read and written."""
    _implementation(kernel, x.device).q_into(x, x, cos, sin, positions, inverse=inverse)
    torch.autograd.graph.increment_version(x)


def _rope_k_fused(
    k: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, batch_first: bool, kernel: str
) -> Tensor:
    """Copy the nope columns; give every head the rotated rotary slice of head 0."""
    out = _dense(k, k.shape[2], k.shape[3], batch_first)
    _implementation(kernel, k.device).k_fused_into(out, k, cos, sin, positions)
    return out


def _rope_k_fused_backward(
    grad: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor | None,
    batch_first: bool,
    kernel: str,
) -> Tensor:
    """Apply the transpose of `rope_k_fused`."""
    dk = _dense(grad, grad.shape[2], grad.shape[3], batch_first)
    implementation = _implementation(kernel, grad.device)
    implementation.k_fused_backward_into(dk, grad, cos, sin, positions)
    return dk


def _rope_kv_split(
    kv: Tensor,
    k_pe: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor | None,
    batch_first: bool,
    nope_dim: int,
    kernel: str,
) -> tuple[Tensor, Tensor]:
    """Part kv into k and v; append the rotated shared key to every head of k."""
    k = _dense(kv, kv.shape[2], nope_dim + k_pe.shape[3], batch_first)
    v = _dense(kv, kv.shape[2], kv.shape[3] - nope_dim, batch_first)
    _implementation(kernel, kv.device).kv_split_into(k, v, kv, k_pe, cos, sin, positions)
    return k, v


def _rope_kv_split_backward(
    grad_k: Tensor,
    grad_v: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor | None,
    batch_first: bool,
    nope_dim: int,
    kernel: str,
) -> tuple[Tensor, Tensor]:
    """Apply the transpose of `rope_kv_split`."""
    dkv = _dense(grad_k, grad_k.shape[2], nope_dim + grad_v.shape[3], batch_first)
    dk_pe = _dense(grad_k, 1, grad_k.shape[3] - nope_dim, batch_first)
    implementation = _implementation(kernel, grad_k.device)
    implementation.kv_split_backward_into(dkv, dk_pe, grad_k, grad_v, cos, sin, positions)
    return dkv, dk_pe


# What torch.compile needs to know: shapes and strides of the results.


def _same_shape(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor | None,
    batch_first: bool,
    *options: bool | str,
) -> Tensor:
    return _dense(x, x.shape[2], x.shape[3], batch_first)


def _kv_split_shapes(
    kv: Tensor, k_pe: Tensor, *arguments: *_SplitArguments
) -> tuple[Tensor, Tensor]:
    _cos, _sin, _positions, batch_first, nope_dim, _kernel = arguments
    k = _dense(kv, kv.shape[2], nope_dim + k_pe.shape[3], batch_first)
    return k, _dense(kv, kv.shape[2], kv.shape[3] - nope_dim, batch_first)


def _kv_split_backward_shapes(
    grad_k: Tensor, grad_v: Tensor, *arguments: *_SplitArguments
) -> tuple[Tensor, Tensor]:
    _cos, _sin, _positions, batch_first, nope_dim, _kernel = arguments
    dkv = _dense(grad_k, grad_k.shape[2], nope_dim + grad_v.shape[3], batch_first)
    return dkv, _dense(grad_k, 1, grad_k.shape[3] - nope_dim, batch_first)


def _define(
    signature: str, compute: Callable[..., object], shapes: Callable[..., object]
) -> torch._ops.OpOverload:
    """Make an operator: its schema, what it computes, and the shapes of its results."""
    name = signature.partition("(")[0]
    signature = signature.replace("TABLES", "Tensor cos, Tensor sin, Tensor? positions")
    tags = (torch.Tag.pt2_compliant_tag,)
    _LIBRARY.define(signature, tags=tags)  # type: ignore[no-untyped-call]  # untyped in torch
    _LIBRARY.impl(name, compute, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]  # so
    torch.library.register_fake(f"{_LIBRARY.ns}::{name}", shapes, lib=_LIBRARY)
    overload: torch._ops.OpOverload = getattr(torch.ops.mxfp8_attention, name).default
    return overload


rope_q = _define(
    "rope_q(Tensor x, TABLES, bool batch_first, bool inverse, str kernel) -> Tensor",
    _rope_q,
    _same_shape,
)
rope_q_ = _define(
    "rope_q_(Tensor(a!) x, TABLES, bool inverse, str kernel) -> ()", _rope_q_, lambda *_: None
)
rope_k_fused = _define(
    "rope_k_fused(Tensor k, TABLES, bool batch_first, str kernel) -> Tensor",
    _rope_k_fused,
    _same_shape,
)
rope_k_fused_backward = _define(
    "rope_k_fused_backward(Tensor grad, TABLES, bool batch_first, str kernel) -> Tensor",
    _rope_k_fused_backward,
    _same_shape,
)
rope_kv_split = _define(
    "rope_kv_split(Tensor kv, Tensor k_pe, TABLES, bool batch_first, int nope_dim, str kernel)"
    " -> (Tensor, Tensor)",
    _rope_kv_split,
    _kv_split_shapes,
)
rope_kv_split_backward = _define(
    "rope_kv_split_backward(Tensor grad_k, Tensor grad_v, TABLES, bool batch_first, int nope_dim,"
    " str kernel) -> (Tensor, Tensor)",
    _rope_kv_split_backward,
    _kv_split_backward_shapes,
)


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
    rotated: Tensor = rope_q(grad, cos, sin, positions, batch_first, not inverse, kernel)
    return rotated


_register_transpose(rope_q, _rope_q_transposed, data=1)
_register_transpose(rope_k_fused, rope_k_fused_backward, data=1)
_register_transpose(rope_k_fused_backward, rope_k_fused, data=1)
_register_transpose(rope_kv_split, rope_kv_split_backward, data=2)
_register_transpose(rope_kv_split_backward, rope_kv_split, data=2)


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
        rope_q_(canonical(q, qkv_format), cos, sin, positions, False, kernel)
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
            rope_q_(grad_SBHD, cos, sin, positions, True, ctx.kernel)
            return grad, None, None, None, None, None, None
        dq_SBHD = rope_q(
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
