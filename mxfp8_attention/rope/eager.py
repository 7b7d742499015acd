"""MLA RoPE in plain PyTorch: the definition that the kernels are held to.

Axes: s sequence, b batch, h heads, d width of a head. Every tensor is [s, b, h, d] here, whatever
its strides; tables are [positions, rope_dim] with equal halves. Arithmetic is FP32 (FP64 for FP64
input) with one rounding at the end. The rotary slice is interleaved going in and half-split
coming out:

    x1, x2 = x[0::2], x[1::2];  out = [x1 cos - x2 sin | x2 cos + x1 sin]
"""

from __future__ import annotations

import torch
from torch import Tensor


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


def rows(table: Tensor, positions: Tensor | None, seq_len: int) -> Tensor:
    """Return the table's row of each token, [s, rope_dim]; without positions token i has row i.

    A position outside the table gives NaN and no error: reading positions on a GPU to check them
    would stall it.
    """
    if positions is None:
        return table[:seq_len]
    inside = (positions >= 0) & (positions < len(table))
    return torch.where(inside[:, None], table[positions.clamp(0, len(table) - 1)], torch.nan)


def q_into(
    out: Tensor,
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor | None,
    *,
    inverse: bool,
) -> None:
    """Write x with its last rope_dim columns rotated (back) to out, which may be x itself."""
    cos, sin = rows(cos, positions, len(x)), rows(sin, positions, len(x))
    nope_dim = x.shape[-1] - cos.shape[-1]
    turn = rotate_back if inverse else rotate
    rotated = turn(x[..., nope_dim:], cos, sin)
    if out is not x:
        out[..., :nope_dim] = x[..., :nope_dim]
    out[..., nope_dim:] = rotated


def k_fused_into(
    out: Tensor, k: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None
) -> None:
    """Copy k's nope columns; give every head the rotated rotary slice of head 0."""
    cos, sin = rows(cos, positions, len(k)), rows(sin, positions, len(k))
    nope_dim = k.shape[-1] - cos.shape[-1]
    out[..., :nope_dim] = k[..., :nope_dim]
    out[..., nope_dim:] = rotate(k[:, :, :1, nope_dim:], cos, sin)


def k_fused_backward_into(
    dk: Tensor, grad: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None
) -> None:
    """Send the rotary gradient, summed over heads, to head 0 and exact zeros to the others."""
    cos, sin = rows(cos, positions, len(dk)), rows(sin, positions, len(dk))
    nope_dim = grad.shape[-1] - cos.shape[-1]
    dk[..., :nope_dim] = grad[..., :nope_dim]
    dk[:, :, 1:, nope_dim:] = 0
    dk[:, :, :1, nope_dim:] = _shared_key_gradient(grad[..., nope_dim:], cos, sin)


def kv_split_into(
    k: Tensor,
    v: Tensor,
    kv: Tensor,
    k_pe: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor | None,
) -> None:
    """Part kv into k's nope columns and v; append the rotated shared key to every head of k."""
    cos, sin = rows(cos, positions, len(kv)), rows(sin, positions, len(kv))
    nope_dim = kv.shape[-1] - v.shape[-1]
    k[..., :nope_dim] = kv[..., :nope_dim]
    k[..., nope_dim:] = rotate(k_pe, cos, sin)
    v.copy_(kv[..., nope_dim:])


def kv_split_backward_into(
    dkv: Tensor,
    dk_pe: Tensor,
    grad_k: Tensor,
    grad_v: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor | None,
) -> None:
    """Join the gradients of k's nope columns and of v; sum the rotary one over heads."""
    cos, sin = rows(cos, positions, len(dkv)), rows(sin, positions, len(dkv))
    nope_dim = dkv.shape[-1] - grad_v.shape[-1]
    dkv[..., :nope_dim] = grad_k[..., :nope_dim]
    dkv[..., nope_dim:] = grad_v
    dk_pe.copy_(_shared_key_gradient(grad_k[..., nope_dim:], cos, sin))


def _shared_key_gradient(grad: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Sum over heads in FP32 (FP64 for FP64) before rotating back, [s, b, 1, rope_dim]."""
    wide = torch.float64 if grad.dtype == torch.float64 else torch.float32
    return rotate_back(grad.sum(dim=2, keepdim=True, dtype=wide), cos, sin)


def _widened(x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return x and half tables [s, 1, 1, rope_dim / 2] in the dtype to compute in."""
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    half = cos.shape[-1] // 2
    cos, sin = (table[:, None, None, :half].to(wide) for table in (cos, sin))
    return x.to(wide), cos, sin
