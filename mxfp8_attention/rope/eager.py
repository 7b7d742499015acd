"""MLA RoPE in plain PyTorch: the definition that the Triton kernels must match.

Axes: S sequence, B batch, H heads, D width of a head. Every tensor is [s, b, h, d], with any
strides. Arithmetic is FP32 (FP64 for FP64 input) with one rounding at the end. The rotary slice is
interleaved going in and half-split coming out:

    x1, x2 = x[0::2], x[1::2];  out = [x1 cos - x2 sin | x2 cos + x1 sin]
"""

from __future__ import annotations

import torch
from torch import Tensor

from mxfp8_attention.rope.tables import Rotation


def rotate(x_SBHD: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate a rotary slice; the result is FP32 (or FP64), half-split."""
    x, cos, sin = _widened(x_SBHD, cos, sin)
    x1, x2 = x[..., 0::2], x[..., 1::2]
    return torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1)


def rotate_back(grad_SBHD: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply the transpose of `rotate`: half-split in, interleaved out."""
    grad, cos, sin = _widened(grad_SBHD, cos, sin)
    left, right = grad.chunk(2, dim=-1)
    pairs = (left * cos + right * sin, right * cos - left * sin)
    return torch.stack(pairs, dim=-1).flatten(-2)


def q_into(out: Tensor, x: Tensor, rotation: Rotation, *, inverse: bool) -> None:
    """Write x with its last rope_dim columns rotated (back) to out, which may be x itself."""
    cos, sin = rotation.rows(len(x))
    nope_dim = x.shape[-1] - rotation.dim
    turn = rotate_back if inverse else rotate
    rotated = turn(x[..., nope_dim:], cos, sin)
    if out is not x:
        out[..., :nope_dim] = x[..., :nope_dim]
    out[..., nope_dim:] = rotated


def k_fused_into(out: Tensor, k: Tensor, rotation: Rotation) -> None:
    """Copy k's nope columns; give every head the rotated rotary slice of head 0."""
    nope_dim = k.shape[-1] - rotation.dim
    out[..., :nope_dim] = k[..., :nope_dim]
    out[..., nope_dim:] = rotate(k[:, :, :1, nope_dim:], *rotation.rows(len(k)))


def k_fused_backward_into(dk: Tensor, grad: Tensor, rotation: Rotation) -> None:
    """Send the rotary gradient, summed over heads, to head 0 and exact zeros to the others."""
    nope_dim = grad.shape[-1] - rotation.dim
    dk[..., :nope_dim] = grad[..., :nope_dim]
    dk[:, :, 1:, nope_dim:] = 0
    dk[:, :, :1, nope_dim:] = _shared_key_gradient(grad[..., nope_dim:], rotation)


def kv_split_into(k: Tensor, v: Tensor, kv: Tensor, k_pe: Tensor, rotation: Rotation) -> None:
    """Split kv into k's nope columns and v; append the rotated shared key to every head of k."""
    nope_dim = kv.shape[-1] - v.shape[-1]
    k[..., :nope_dim] = kv[..., :nope_dim]
    k[..., nope_dim:] = rotate(k_pe, *rotation.rows(len(kv)))
    v.copy_(kv[..., nope_dim:])


def kv_split_backward_into(
    dkv: Tensor, dk_pe: Tensor, grad_k: Tensor, grad_v: Tensor, rotation: Rotation
) -> None:
    """Join the gradients of k's nope columns and of v; sum the rotary one over heads."""
    nope_dim = dkv.shape[-1] - grad_v.shape[-1]
    dkv[..., :nope_dim] = grad_k[..., :nope_dim]
    dkv[..., nope_dim:] = grad_v
    dk_pe.copy_(_shared_key_gradient(grad_k[..., nope_dim:], rotation))


def _shared_key_gradient(grad: Tensor, rotation: Rotation) -> Tensor:
    """Sum over heads in FP32 (FP64 for FP64) before rotating back, [s, b, 1, rope_dim]."""
    wide = torch.float64 if grad.dtype == torch.float64 else torch.float32
    summed = grad.sum(dim=2, keepdim=True, dtype=wide)
    return rotate_back(summed, *rotation.rows(len(grad)))


def _widened(x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return x and half tables [s, 1, 1, rope_dim / 2] in the dtype to compute in."""
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    half = cos.shape[-1] // 2
    cos, sin = (table[:, None, None, :half].to(wide) for table in (cos, sin))
    return x.to(wide), cos, sin
