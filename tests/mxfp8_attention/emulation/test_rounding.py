"""Roundings use the right grid and scale, and are exact in TF32."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from mxfp8_attention.emulation import rounding
from mxfp8_attention.emulation.mxfp8 import Fp8Format, quantize_colwise, quantize_rowwise

FORMATS = pytest.mark.parametrize("fmt", Fp8Format)


def gaussian(*size: int) -> Tensor:
    """bf16 values whose rows and columns differ in size."""
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(size, generator=generator)
    return (x * torch.linspace(0.01, 30, size[-1])).to(torch.bfloat16)


@FORMATS
def test_mx_rounding_is_quantize_and_dequantize_along_the_named_axis(fmt: Fp8Format) -> None:
    x = gaussian(64, 96)
    assert torch.equal(rounding.mx_row(fmt)(x), quantize_rowwise(x, fmt).dequantize())
    assert torch.equal(rounding.mx_col(fmt)(x), quantize_colwise(x, fmt).dequantize())


@pytest.mark.parametrize(
    "make",
    [
        rounding.mx_row,
        rounding.mx_col,
        lambda fmt: rounding.block_1x128(-1, fmt),
        lambda fmt: rounding.block_1x128(-2, fmt),
        rounding.block_128x128,
        lambda fmt: rounding.fixed_scale(16.0, fmt),
        lambda fmt: rounding.to_bf16,
    ],
)
@FORMATS
def test_power_of_two_scales_leave_values_that_tf32_keeps(
    make: Callable[[Fp8Format], rounding.Rounding], fmt: Fp8Format
) -> None:
    values = make(fmt)(gaussian(160, 192).float() / 7)
    beyond_tf32 = values.view(torch.int32) & 0x1FFF
    assert not beyond_tf32.any()


@FORMATS
def test_a_tensor_scale_uses_the_whole_range_and_leaves_the_margin(fmt: Fp8Format) -> None:
    amax = torch.tensor(3.7)
    assert float(rounding.tensor_scale(amax, fmt)) * 3.7 == pytest.approx(fmt.largest)
    assert float(rounding.tensor_scale(amax, fmt, 2)) * 3.7 == pytest.approx(fmt.largest / 4)
    assert float(rounding.tensor_scale(torch.tensor(0.0), fmt)) == 1


@FORMATS
def test_per_tensor_rounding_keeps_the_largest_value_and_stays_within_half_a_step(
    fmt: Fp8Format,
) -> None:
    x = gaussian(64, 96).float()
    values = rounding.per_tensor(fmt)(x)
    assert float(values.abs().max()) == pytest.approx(float(x.abs().max()))
    half_step = 2.0 ** -(4 if fmt is Fp8Format.E4M3 else 3)
    tiny = x.abs().max() / fmt.largest * (2**-9 if fmt is Fp8Format.E4M3 else 2**-16)
    assert ((values - x).abs() <= half_step * x.abs() + tiny).all()


def test_too_large_values_saturate_at_a_fixed_scale() -> None:
    x = torch.tensor([26.5, 28.0, 29.0, -1000.0])
    assert rounding.fixed_scale(16.0)(x).tolist() == [26.0, 28.0, 28.0, -28.0]


@pytest.mark.parametrize("size", [(256, 384), (200, 130)])
def test_128_wide_blocks_scale_each_block_by_its_own_power_of_two(size: tuple[int, int]) -> None:
    x = gaussian(*size).float()
    rows, square = rounding.block_1x128(-1)(x), rounding.block_128x128()(x)
    for i in range(0, size[0], 128):
        for j in range(0, size[1], 128):
            block = x[i : i + 128, j : j + 128]
            power = torch.exp2(torch.floor(torch.log2(448 / block.abs().max())))
            assert 224 < float(block.abs().max() * power) <= 448
            expected = (block * power).to(torch.float8_e4m3fn).float() / power
            assert torch.equal(square[i : i + 128, j : j + 128], expected)
    for i in range(size[0]):
        block = x[i, :128]
        power = torch.exp2(torch.floor(torch.log2(448 / block.abs().max())))
        assert torch.equal(rows[i, :128], (block * power).to(torch.float8_e4m3fn).float() / power)


def test_columns_in_128_blocks_are_rows_of_the_transpose() -> None:
    x = gaussian(200, 64).float()
    assert torch.equal(rounding.block_1x128(-2)(x), rounding.block_1x128(-1)(x.T).T)


def test_a_block_of_zeros_stays_zero() -> None:
    x = torch.zeros(128, 128)
    for make in (rounding.mx_row(), rounding.block_128x128(), rounding.per_tensor()):
        assert not make(x).any()
