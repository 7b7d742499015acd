"""MLA RoPE as PyTorch operators: their results, their gradients, and the choice of kernel.

Every tensor is [s, b, h, d]. `batch_first` is True if b comes before s in memory, so that results
are dense in the caller's own axis order. `positions` holds the table row of each of the s tokens;
without it token i takes row i. RoPE is linear and each operator is the transpose of its partner:
the gradient of one is the other, to any order.

The operators are defined by schema, not with torch.library.custom_op, whose first call imports
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

from mxfp8_attention.rope.layouts import from_sbhd, overlaps_itself, to_sbhd
from mxfp8_attention.rope.tables import Rotation

KERNELS = ("auto", "eager", "triton")

# torch leaves its Library untyped.
_LIBRARY = torch.library.Library("mxfp8_attention", "FRAGMENT")  # type: ignore[no-untyped-call]
_Tables = tuple[Tensor, Tensor, Tensor | None]
_SplitArguments = tuple[Tensor, Tensor, Tensor | None, bool, int, str]


def resolve_kernel(kernel: str, device: torch.device) -> str:
    """Return the kernel, eager or triton, that runs for a tensor on `device`.

    Args:
        kernel: auto, eager or triton; auto is triton on a GPU and eager elsewhere.
        device: Device of the tensor.

    Raises:
        ValueError: The kernel is unknown, or Triton cannot run on this device.
        ImportError: Triton is needed and not installed. A GPU never falls back to eager.
    """
    if kernel not in KERNELS:
        raise ValueError(f"rope_kernel must be one of {', '.join(KERNELS)}, got {kernel}")
    if kernel == "auto":
        kernel = "triton" if device.type == "cuda" else "eager"
    if kernel == "eager":
        return kernel
    if find_spec("triton") is None:
        raise ImportError(
            f"rope_kernel=triton on {device.type} needs triton, which is not installed; "
            "install triton or set rope_kernel=eager"
        )
    if device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        raise ValueError(
            f"rope_kernel must be eager for a tensor on {device.type}, got triton; "
            "set rope_kernel=eager (or TRITON_INTERPRET=1 to interpret the kernels)"
        )
    return kernel


def _implementation(kernel: str, device: torch.device) -> ModuleType:
    """Return the module `eager` or `triton`, which have the same functions."""
    return import_module(f"mxfp8_attention.rope.{resolve_kernel(kernel, device)}")


def _dense(like: Tensor, heads: int, dim: int, batch_first: bool) -> Tensor:
    """Allocate [s, b, heads, dim], dense in the caller's axis order."""
    seq_len, batch = like.shape[:2]
    if batch_first:
        return like.new_empty((batch, seq_len, heads, dim)).transpose(0, 1)
    return like.new_empty((seq_len, batch, heads, dim))


def _same_shape(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor | None,
    batch_first: bool,
    *options: bool | str,
) -> Tensor:
    return _dense(x, x.shape[2], x.shape[3], batch_first)


def _kv_split_results(
    kv: Tensor, k_pe: Tensor, *arguments: *_SplitArguments
) -> tuple[Tensor, Tensor]:
    _cos, _sin, _positions, batch_first, nope_dim, _kernel = arguments
    k = _dense(kv, kv.shape[2], nope_dim + k_pe.shape[3], batch_first)
    return k, _dense(kv, kv.shape[2], kv.shape[3] - nope_dim, batch_first)


def _kv_split_backward_results(
    grad_k: Tensor, grad_v: Tensor, *arguments: *_SplitArguments
) -> tuple[Tensor, Tensor]:
    _cos, _sin, _positions, batch_first, nope_dim, _kernel = arguments
    dkv = _dense(grad_k, grad_k.shape[2], nope_dim + grad_v.shape[3], batch_first)
    return dkv, _dense(grad_k, 1, grad_k.shape[3] - nope_dim, batch_first)


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
    out = _same_shape(x, cos, sin, positions, batch_first)
    rotation = Rotation(cos, sin, positions)
    _implementation(kernel, x.device).q_into(out, x, rotation, inverse=inverse)
    return out


def _rope_q_(
    x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, inverse: bool, kernel: str
) -> None:
    """Rotate in place: only the rotary columns are read and written."""
    rotation = Rotation(cos, sin, positions)
    _implementation(kernel, x.device).q_into(x, x, rotation, inverse=inverse)
    torch.autograd.graph.increment_version(x)


def _rope_k_fused(
    k: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, batch_first: bool, kernel: str
) -> Tensor:
    """Copy the nope columns; give every head the rotated rotary slice of head 0."""
    out = _same_shape(k, cos, sin, positions, batch_first)
    _implementation(kernel, k.device).k_fused_into(out, k, Rotation(cos, sin, positions))
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
    dk = _same_shape(grad, cos, sin, positions, batch_first)
    rotation = Rotation(cos, sin, positions)
    _implementation(kernel, grad.device).k_fused_backward_into(dk, grad, rotation)
    return dk


def _rope_kv_split(
    kv: Tensor, k_pe: Tensor, *arguments: *_SplitArguments
) -> tuple[Tensor, Tensor]:
    """Split kv into k and v; append the rotated shared key to every head of k."""
    k, v = _kv_split_results(kv, k_pe, *arguments)
    cos, sin, positions, *_, kernel = arguments
    rotation = Rotation(cos, sin, positions)
    _implementation(kernel, kv.device).kv_split_into(k, v, kv, k_pe, rotation)
    return k, v


def _rope_kv_split_backward(
    grad_k: Tensor, grad_v: Tensor, *arguments: *_SplitArguments
) -> tuple[Tensor, Tensor]:
    """Apply the transpose of `rope_kv_split`."""
    dkv, dk_pe = _kv_split_backward_results(grad_k, grad_v, *arguments)
    cos, sin, positions, *_, kernel = arguments
    rotation = Rotation(cos, sin, positions)
    implementation = _implementation(kernel, grad_k.device)
    implementation.kv_split_backward_into(dkv, dk_pe, grad_k, grad_v, rotation)
    return dkv, dk_pe


def _define(
    signature: str, compute: Callable[..., object], results: Callable[..., object]
) -> OpOverload:
    """Define an operator: its schema, its computation, and its results for torch.compile."""
    name = signature.partition("(")[0]
    signature = signature.replace("TABLES", "Tensor cos, Tensor sin, Tensor? positions")
    tags = (torch.Tag.pt2_compliant_tag,)
    _LIBRARY.define(signature, tags=tags)  # type: ignore[no-untyped-call]  # untyped in torch
    _LIBRARY.impl(name, compute, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]  # so
    torch.library.register_fake(f"{_LIBRARY.ns}::{name}", results, lib=_LIBRARY)
    overload: OpOverload = getattr(torch.ops.mxfp8_attention, name).default
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
    _kv_split_results,
)
rope_kv_split_backward = _define(
    "rope_kv_split_backward(Tensor grad_k, Tensor grad_v, TABLES, bool batch_first, int nope_dim,"
    " str kernel) -> (Tensor, Tensor)",
    _rope_kv_split_backward,
    _kv_split_backward_results,
)


class _Context(Protocol):
    """The part of autograd's context that is used."""

    saved_tensors: _Tables
    options: tuple[bool | int | str, ...]

    def save_for_backward(self, *tensors: Tensor | None) -> None: ...
    def mark_dirty(self, *tensors: Tensor) -> None: ...


def _register_transpose(
    operator: OpOverload, transpose: Callable[..., Tensor | tuple[Tensor, Tensor]], data: int
) -> None:
    """Make `transpose` the gradient of `operator`, whose first `data` arguments have one."""

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
    q: Tensor, rotation: Rotation, qkv_format: str, inplace_grad: bool, kernel: str
) -> Tensor:
    """Rotate q's rotary columns in place and return q; autograd tracks the change.

    With `inplace_grad` backward rotates the incoming gradient in place too, unless its elements
    share memory (the expanded gradient of a sum).
    """
    rotated = _RotateInPlace.apply(  # type: ignore[no-untyped-call]  # torch leaves it untyped
        q, rotation.cos, rotation.sin, rotation.positions, qkv_format, inplace_grad, kernel
    )
    return cast("Tensor", rotated)


class _RotateInPlace(torch.autograd.Function):
    """The mutating operator with a gradient, which an operator cannot have by itself."""

    @staticmethod
    def forward(
        ctx: _Context,
        q: Tensor,
        cos: Tensor,
        sin: Tensor,
        positions: Tensor | None,
        *options: bool | str,
    ) -> Tensor:
        qkv_format, _, kernel = options
        rope_q_(to_sbhd(q, str(qkv_format)), cos, sin, positions, False, kernel)
        ctx.mark_dirty(q)
        ctx.save_for_backward(cos, sin, positions)
        ctx.options = options
        return q

    @staticmethod
    def backward(ctx: _Context, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        tables = ctx.saved_tensors
        qkv_format, inplace_grad, kernel = ctx.options
        qkv_format = str(qkv_format)
        grad_SBHD = to_sbhd(grad, qkv_format)
        if inplace_grad and not overlaps_itself(grad):
            rope_q_(grad_SBHD, *tables, True, kernel)
            return grad, *[None] * 6
        dq_SBHD = rope_q(grad_SBHD, *tables, qkv_format == "bshd", True, kernel)
        return from_sbhd(dq_SBHD, qkv_format), *[None] * 6
