"""The rounding of an operand before a matrix product, as functions from tensor to FP32 tensor.

A rounding takes bf16 or FP32 of any shape and returns the FP32 values that enter the product.
`row` blocks run along the last axis, `col` blocks along the one before it. Values pass through
TF32 unchanged, except with per-tensor scales, which are no powers of two.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mxfp8_attention.emulation.mxfp8 import Fp8Format, fake_quantize

Rounding = Callable[[Tensor], Tensor]

BLOCK_128 = 128
_FP32_SIGN_AND_EXPONENT = -(1 << 23)


def to_fp32(x: Tensor) -> Tensor:
    """Return the values unchanged."""
    return x.to(torch.float32)


def to_bf16(x: Tensor) -> Tensor:
    """Round to bf16."""
    return x.to(torch.bfloat16).to(torch.float32)


def mx_row(fmt: Fp8Format = Fp8Format.E4M3) -> Rounding:
    """Return MXFP8 rounding, in blocks of 32 along the last axis."""
    return lambda x: fake_quantize(x, -1, fmt)


def mx_col(fmt: Fp8Format = Fp8Format.E4M3) -> Rounding:
    """Return MXFP8 rounding, in blocks of 32 along the second-to-last axis."""
    return lambda x: fake_quantize(x, -2, fmt)


def fixed_scale(scale: float | Tensor, fmt: Fp8Format = Fp8Format.E4M3) -> Rounding:
    """Return FP8 rounding after multiplication by a constant; values that are too large saturate.

    The scale must be a power of two for the product that follows to be exact in TF32.
    """
    return lambda x: _fp8(x.to(torch.float32) * scale, fmt).div_(scale)


def tensor_scale(amax: Tensor, fmt: Fp8Format, margin: int = 0) -> Tensor:
    """Return the scale of a whole tensor: largest FP8 value / amax / 2^margin, 1 for zeros.

    `margin` is the number of powers of two left free above the largest |x|.
    """
    return _scale(amax.to(torch.float32), fmt) / float(2**margin)


def per_tensor(fmt: Fp8Format = Fp8Format.E4M3, margin: int = 0) -> Rounding:
    """Return FP8 rounding with one scale for the whole tensor, taken from the tensor itself.

    This is current scaling; delayed scaling is equal once its history holds the same tensor.
    """
    return lambda x: fixed_scale(tensor_scale(x.abs().amax(), fmt, margin), fmt)(x)


def block_1x128(axis: int, fmt: Fp8Format = Fp8Format.E4M3) -> Rounding:
    """Return FP8 rounding with one power-of-two scale for 128 values along `axis`."""
    return lambda x: _blockwise(x.to(torch.float32), (axis,), fmt)


def block_128x128(fmt: Fp8Format = Fp8Format.E4M3) -> Rounding:
    """Return FP8 rounding with one power-of-two scale for each 128 x 128 block."""
    return lambda x: _blockwise(x.to(torch.float32), (-2, -1), fmt)


def _blockwise(x: Tensor, axes: tuple[int, ...], fmt: Fp8Format) -> Tensor:
    amax = x.abs()
    for axis in axes:
        pieces = torch.split(amax, BLOCK_128, dim=axis)
        amax = torch.cat([piece.amax(dim=axis, keepdim=True) for piece in pieces], dim=axis)
    # Without its mantissa the scale is a power of two, and no larger: nothing saturates.
    scale = (_scale(amax, fmt).view(torch.int32) & _FP32_SIGN_AND_EXPONENT).view(torch.float32)
    for axis in axes:
        scale = scale.repeat_interleave(BLOCK_128, dim=axis).narrow(axis, 0, x.shape[axis])
    return _fp8(x * scale, fmt).div_(scale)


def _scale(amax: Tensor, fmt: Fp8Format) -> Tensor:
    """Return largest / amax, 1 for zeros."""
    return torch.where(amax > 0, fmt.largest / amax, 1.0)


def _fp8(scaled: Tensor, fmt: Fp8Format) -> Tensor:
    # Versions of torch differ in how the cast treats overflow.
    return scaled.clamp_(-fmt.largest, fmt.largest).to(fmt.dtype).to(torch.float32)
