"""The MXFP8 quantizer, bit for bit that of Transformer Engine, in plain PyTorch.

A block of 32 values along one axis shares a power-of-two scale, stored as E8M0 (the exponent
byte of an fp32 number); each value is stored as E4M3 or E5M2. The scale is rounded up, so no
finite value is clipped that rounding would keep; the OCP rule rounds down and clips about a sixth
of Gaussian blocks.

    amax  = largest |x| of the block, ignoring NaN
    scale = 2^(byte - 127), the smallest power of two >= amax / largest FP8 value
    data  = round_to_nearest_even(clamp(x / scale, -largest, largest))

Source: transformer_engine/common/util/ptx.cuh (float_to_e8m0, exp2f_rcp) and
common/cast/mxfp8/quantize_mxfp8.cuh, release 2.20; OCP Microscaling Formats v1.0 for the
format itself. Runs on any device that PyTorch casts to FP8 on. Nothing here is differentiable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

BLOCK_SIZE = 32

_INPUT_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
# Bounds each fp32 temporary to 64 MiB, whatever the size of the tensor.
_PIECE_ELEMENTS = 1 << 24

_FP32_MANTISSA_BITS = 23
_FP32_MANTISSA_MASK = 0x7FFFFF
_FP32_INFINITY = 0x7F800000
_FP32_NAN = 0x7FC00000
# 2^-127 lies below the smallest normal fp32: its exponent byte is 0, its mantissa 0.5.
_FP32_TWO_TO_MINUS_127 = 0x00400000
_E8M0_LARGEST = 0xFE
_E8M0_NAN = 0xFF


class Fp8Format(Enum):
    """The two FP8 element formats of the OCP specification."""

    E4M3 = "e4m3"
    E5M2 = "e5m2"

    @property
    def dtype(self) -> torch.dtype:
        """PyTorch's dtype of this format."""
        return torch.float8_e4m3fn if self is Fp8Format.E4M3 else torch.float8_e5m2

    @property
    def largest(self) -> float:
        """Largest finite magnitude: 448 or 57344."""
        return 448.0 if self is Fp8Format.E4M3 else 57344.0

    @property
    def largest_reciprocal(self) -> float:
        """1 / largest rounded to fp32, the constant that the scale is computed with."""
        return torch.tensor(1.0 / self.largest, dtype=torch.float32).item()


@dataclass(frozen=True)
class MxTensor:
    """A tensor quantized in blocks of 32 along one axis.

    Attributes:
        data: FP8 values, in the shape of the quantized tensor.
        scale_e8m0: uint8 exponent bytes, in the same shape with `axis` divided by 32.
        axis: Axis of the blocks, counted from the front.
    """

    data: Tensor
    scale_e8m0: Tensor
    axis: int

    def dequantize(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return data times scale, multiplied in fp32 and rounded once to `dtype`."""
        out = torch.empty(self.data.shape, dtype=dtype, device=self.data.device)
        pieces = _pieces(
            _blocked(self.data, self.axis),
            self.scale_e8m0.unsqueeze(self.axis + 1),
            _blocked(out, self.axis),
            block_axis=self.axis + 1,
        )
        for data, scale_e8m0, target in pieces:
            target.copy_(data.to(torch.float32).mul_(_power_of_two(scale_e8m0)))
        return out


@torch.no_grad()
def quantize(x: Tensor, axis: int, fmt: Fp8Format = Fp8Format.E4M3) -> MxTensor:
    """Quantize in blocks of 32 along `axis`.

    Args:
        x: bf16, fp16 or fp32 of any shape and strides.
        axis: Axis of the blocks; its size must be a multiple of 32.
        fmt: Element format.

    Returns:
        The quantized tensor; its data is contiguous.

    Raises:
        ValueError: The size along `axis` is not a multiple of 32, or the dtype is not supported.
    """
    axis = _checked_axis(x, axis)
    data = torch.empty(x.shape, dtype=fmt.dtype, device=x.device)
    scale_shape = (*x.shape[:axis], x.shape[axis] // BLOCK_SIZE, *x.shape[axis + 1 :])
    scale_e8m0 = torch.empty(scale_shape, dtype=torch.uint8, device=x.device)
    pieces = _pieces(
        _blocked(x, axis),
        _blocked(data, axis),
        scale_e8m0.unsqueeze(axis + 1),
        block_axis=axis + 1,
    )
    for values, data_piece, scale_piece in pieces:
        scale_piece.copy_(_scale_bytes(values, axis + 1, fmt))
        data_piece.copy_(_scaled(values, scale_piece, fmt))
    return MxTensor(data=data, scale_e8m0=scale_e8m0, axis=axis)


def quantize_rowwise(x: Tensor, fmt: Fp8Format = Fp8Format.E4M3) -> MxTensor:
    """Quantize in blocks of 32 along the last axis; see `quantize`."""
    return quantize(x, -1, fmt)


def quantize_colwise(x: Tensor, fmt: Fp8Format = Fp8Format.E4M3) -> MxTensor:
    """Quantize in blocks of 32 along the second-to-last axis; see `quantize`.

    `x` must be the high-precision tensor: quantizing a row-wise result adds a second error.
    """
    if x.dim() < 2:
        raise ValueError(f"x must have at least 2 axes, got shape {tuple(x.shape)}")
    return quantize(x, -2, fmt)


@torch.no_grad()
def fake_quantize(
    x: Tensor,
    axis: int,
    fmt: Fp8Format = Fp8Format.E4M3,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Quantize along `axis` and dequantize, without keeping the FP8 tensor.

    Args and Raises: As for `quantize`; `dtype` is that of the result.

    Returns:
        `quantize(x, axis, fmt).dequantize(dtype)`, contiguous.
    """
    axis = _checked_axis(x, axis)
    out = torch.empty(x.shape, dtype=dtype, device=x.device)
    pieces = _pieces(_blocked(x, axis), _blocked(out, axis), block_axis=axis + 1)
    for values, target in pieces:
        scale_e8m0 = _scale_bytes(values, axis + 1, fmt)
        rounded = _scaled(values, scale_e8m0, fmt).to(fmt.dtype)
        target.copy_(rounded.to(torch.float32).mul_(_power_of_two(scale_e8m0)))
    return out


def _checked_axis(x: Tensor, axis: int) -> int:
    """Return `axis` counted from the front."""
    if x.dtype not in _INPUT_DTYPES:
        raise ValueError(f"x must be bfloat16, float16 or float32 for MXFP8, got {x.dtype}")
    if not -x.dim() <= axis < x.dim():
        raise ValueError(f"axis must be one of the {x.dim()} axes of x, got {axis}")
    axis %= x.dim()
    if x.shape[axis] % BLOCK_SIZE:
        raise ValueError(
            f"x must have a multiple of {BLOCK_SIZE} values along axis {axis} for MXFP8, "
            f"got {x.shape[axis]} in shape {tuple(x.shape)}"
        )
    return axis


def _blocked(x: Tensor, axis: int) -> Tensor:
    """View `axis` as (blocks, 32)."""
    blocks = (x.shape[axis] // BLOCK_SIZE, BLOCK_SIZE)
    return torch.unflatten(x, axis, blocks)


def _pieces(*tensors: Tensor, block_axis: int) -> Iterator[tuple[Tensor, ...]]:
    """Cut tensors of one rank alike along their longest axis other than the block axis."""
    first = tensors[0]
    free_axes = [axis for axis in range(first.dim()) if axis != block_axis]
    longest = max(free_axes, key=lambda axis: first.shape[axis])
    length = first.shape[longest]
    if first.numel() == 0:
        return
    step = max(1, length * _PIECE_ELEMENTS // first.numel())
    for start in range(0, length, step):
        stop = min(start + step, length)
        yield tuple(tensor.narrow(longest, start, stop - start) for tensor in tensors)


def _scale_bytes(values: Tensor, block_axis: int, fmt: Fp8Format) -> Tensor:
    """Return the int32 E8M0 byte of each block; the block axis keeps size 1."""
    # -1 stands for NaN: it is below every magnitude, so only a block that is all NaN keeps it
    # (TE's fmax drops NaN in the same way).
    magnitude = values.abs().nan_to_num_(nan=-1.0, posinf=torch.inf)
    amax = magnitude.amax(dim=block_axis, keepdim=True).to(torch.float32)
    bits = (amax * fmt.largest_reciprocal).view(torch.int32)
    exponent = bits >> _FP32_MANTISSA_BITS
    mantissa = bits & _FP32_MANTISSA_MASK
    # Below 2^-126 the byte is 0, which means 2^-127: up to there nothing is rounded up.
    rounds_up = torch.where(exponent == 0, mantissa > _FP32_TWO_TO_MINUS_127, mantissa > 0)
    byte = exponent + rounds_up
    byte = torch.where(bits == _FP32_INFINITY, _E8M0_LARGEST, byte)
    return torch.where(amax < 0, _E8M0_NAN, byte)


def _scaled(values: Tensor, scale_e8m0: Tensor, fmt: Fp8Format) -> Tensor:
    """Divide by the scale and clamp, in fp32."""
    # Exact: multiplying by 2^(127 - byte) changes only the exponent.
    scaled = values.to(torch.float32, copy=True)
    scaled *= _power_of_two(_E8M0_LARGEST - scale_e8m0.to(torch.int32))
    scaled.clamp_(-fmt.largest, fmt.largest)
    # The conversion instruction drops the sign of a NaN.
    return scaled.masked_fill_(scaled.isnan(), torch.nan)


def _power_of_two(byte: Tensor) -> Tensor:
    """Return 2^(byte - 127) in fp32; NaN for 255 and for -1, its mirror image."""
    byte = byte.to(torch.int32)
    bits = byte << _FP32_MANTISSA_BITS
    bits = torch.where(byte == 0, _FP32_TWO_TO_MINUS_127, bits)
    bits = torch.where((byte < 0) | (byte == _E8M0_NAN), _FP32_NAN, bits)
    return bits.view(torch.float32)
