"""The quantizer equals exact integer arithmetic on every kind of number, bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mxfp8_attention.emulation import mxfp8
from mxfp8_attention.emulation.mxfp8 import (
    Fp8Format,
    fake_quantize,
    quantize,
    quantize_colwise,
    quantize_rowwise,
)
from tests.mxfp8_attention import oracle

FORMATS = {Fp8Format.E4M3: oracle.E4M3, Fp8Format.E5M2: oracle.E5M2}
SOURCES = {
    torch.bfloat16: (oracle.BF16, torch.int16),
    torch.float16: (oracle.FP16, torch.int16),
    torch.float32: (oracle.FP32, torch.int32),
}
BLOCKS = 48


def _bits(x: Tensor) -> list[list[int]]:
    """Return the bit patterns of blocks of 32, without sign extension."""
    _, integer = SOURCES[x.dtype]
    unsigned = x.reshape(-1, 32).view(integer).to(torch.int64) & (2 ** (8 * x.itemsize) - 1)
    patterns: list[list[int]] = unsigned.tolist()
    return patterns


def _assert_equals_oracle(x: Tensor, fmt: Fp8Format) -> None:
    quantized = quantize_rowwise(x, fmt)
    source, _ = SOURCES[x.dtype]
    expected = [oracle.quantize_block(source, block, FORMATS[fmt]) for block in _bits(x)]
    assert quantized.scale_e8m0.flatten().tolist() == [byte for byte, _ in expected]
    data = quantized.data.view(torch.uint8).reshape(-1, 32).tolist()
    assert data == [codes for _, codes in expected]


def _gaussian(dtype: torch.dtype) -> Tensor:
    scales = torch.logspace(-4, 4, BLOCKS)[:, None]
    return (torch.randn(BLOCKS, 32) * scales).to(dtype)


def _uniform(dtype: torch.dtype) -> Tensor:
    return (torch.rand(BLOCKS, 32) * 2 - 1).to(dtype)


def _one_outlier(dtype: torch.dtype) -> Tensor:
    x = torch.randn(BLOCKS, 32)
    x[torch.arange(BLOCKS), torch.randint(32, (BLOCKS,))] *= 1000
    return x.to(dtype)


def _powers_of_two_and_neighbours(dtype: torch.dtype) -> Tensor:
    """Put 2^k, 448 x 2^k and 57344 x 2^k, and the numbers beside them, at the head of a block."""
    tiny = torch.finfo(dtype).smallest_normal
    exponents = torch.arange(-20, 20)
    if dtype != torch.float16:
        exponents = torch.cat(
            (exponents, torch.tensor([-127, -126, -125, -118, -117, 100, 112, 119]))
        )
    powers = torch.ldexp(torch.ones(len(exponents)), exponents)
    heads = torch.outer(torch.tensor([1.0, 448.0, 57344.0]), powers).flatten()
    heads = heads[(heads >= tiny) & (heads <= torch.finfo(dtype).max)].to(dtype)
    heads = torch.cat((heads, *(torch.nextafter(heads, heads * factor) for factor in (2, 0))))
    rest = heads[:, None].float() * torch.rand(len(heads), 31)
    return torch.cat((heads[:, None], rest.to(dtype)), dim=1)


def _halfway_between_codes(dtype: torch.dtype) -> Tensor:
    """Put numbers exactly between two FP8 values, and those values, into blocks of scale 1."""
    steps = torch.arange(0, 256).view(8, 32) / 16.0
    return torch.cat((torch.full((8, 1), 448.0), steps[:, 1:]), dim=1).to(dtype)


def _zeros_and_subnormals(dtype: torch.dtype) -> Tensor:
    smallest = torch.finfo(dtype).smallest_normal
    x = torch.rand(BLOCKS, 32) * smallest * torch.logspace(-7, 2, BLOCKS)[:, None]
    x[::4, 1:] = 0
    x[::8] = 0
    return x.to(dtype)


def _infinities_and_nan(dtype: torch.dtype) -> Tensor:
    x = torch.randn(16, 32)
    x[0, 3], x[1, 3], x[2, 3] = torch.inf, -torch.inf, torch.nan
    x[3, 3], x[3, 4] = torch.nan, torch.inf
    x[4], x[5] = torch.nan, torch.inf
    x[6, :31], x[6, 31] = torch.nan, 1e-3
    x[7, :31], x[7, 31] = -torch.nan, 0
    return x.to(dtype)


def _shuffled(dtype: torch.dtype) -> Tensor:
    """Take bit patterns at random: mostly far apart, some NaN."""
    _, integer = SOURCES[dtype]
    low, high = torch.iinfo(integer).min, torch.iinfo(integer).max
    return torch.randint(low, high, (BLOCKS, 32), dtype=integer).view(dtype)


KINDS = (
    _gaussian,
    _uniform,
    _one_outlier,
    _powers_of_two_and_neighbours,
    _halfway_between_codes,
    _zeros_and_subnormals,
    _infinities_and_nan,
    _shuffled,
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", SOURCES)
@pytest.mark.parametrize("fmt", FORMATS)
def test_scale_and_data_equal_exact_arithmetic(
    kind: Callable[[torch.dtype], Tensor], dtype: torch.dtype, fmt: Fp8Format
) -> None:
    _assert_equals_oracle(kind(dtype), fmt)


@pytest.mark.parametrize("fmt", FORMATS)
def test_every_bf16_value_quantizes_as_in_exact_arithmetic(fmt: Fp8Format) -> None:
    # In order: each block holds neighbours, so that every value meets the scale of its own size.
    _assert_equals_oracle(torch.arange(2**16).to(torch.int16).view(torch.bfloat16), fmt)


@settings(max_examples=50, deadline=None, database=None, derandomize=True)
@given(st.lists(st.integers(0, 2**32 - 1), min_size=32, max_size=32))
def test_any_fp32_block_quantizes_as_in_exact_arithmetic(bits: list[int]) -> None:
    x = torch.tensor(bits, dtype=torch.int64).to(torch.int32).view(torch.float32)
    _assert_equals_oracle(x, Fp8Format.E4M3)


def test_known_blocks() -> None:
    block = torch.zeros(6, 32)
    block[0, 0] = 448.0  # fits exactly: scale 1
    block[1, 0] = 449.0  # would be clipped at scale 1: scale 2
    block[2, 0] = 2.0**-140  # subnormal: the smallest scale, 2^-127
    block[3, 0] = torch.inf
    block[4] = torch.nan
    quantized = quantize_rowwise(block)
    assert quantized.scale_e8m0.flatten().tolist() == [127, 128, 0, 254, 255, 0]
    assert quantized.data[:4, 0].float().tolist() == [448.0, 224.0, 0.0, 448.0]
    assert quantized.dequantize()[4].isnan().all()
    assert torch.equal(quantized.dequantize()[5], torch.zeros(32))


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("shape", [(64,), (3, 64), (2, 96, 5, 32), (32, 1, 160)])
def test_blocks_run_along_any_axis_of_any_shape(fmt: Fp8Format, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape).to(torch.bfloat16)
    for axis, size in enumerate(shape):
        if size % 32:
            continue
        moved = quantize_rowwise(x.movedim(axis, -1).contiguous(), fmt)
        along = quantize(x, axis, fmt)
        assert along.axis == axis
        assert along.data.is_contiguous()
        assert _same(along.data.movedim(axis, -1), moved.data)
        assert torch.equal(along.scale_e8m0.movedim(axis, -1), moved.scale_e8m0)
        assert torch.equal(along.dequantize().movedim(axis, -1), moved.dequantize())
        assert torch.equal(fake_quantize(x, axis, fmt), along.dequantize())


def _same(x: Tensor, y: Tensor) -> bool:
    return torch.equal(x.contiguous().view(torch.uint8), y.contiguous().view(torch.uint8))


def test_columns_are_quantized_from_the_given_tensor_not_from_its_rows() -> None:
    x = torch.randn(64, 64) * torch.logspace(-3, 3, 64)
    columns = quantize_colwise(x)
    assert columns.axis == 0
    assert torch.equal(columns.dequantize(), quantize_rowwise(x.T).dequantize().T)
    twice = quantize_colwise(quantize_rowwise(x).dequantize())
    assert not torch.equal(columns.dequantize(), twice.dequantize())


def test_strides_do_not_matter_and_the_input_stays_as_it_is() -> None:
    buffer = torch.randn(6, 80, 100).to(torch.float16)
    before = buffer.clone()
    for view in (buffer[1::2, 8:72, 3:67], buffer.mT[:, :64, :64], buffer[:1].expand(5, 80, 100)):
        view = view[..., :64, :64]
        for axis in (-1, -2):
            strided, dense = (quantize(x, axis) for x in (view, view.contiguous()))
            assert _same(strided.data, dense.data)
            assert torch.equal(strided.scale_e8m0, dense.scale_e8m0)
    assert torch.equal(buffer, before)


@pytest.mark.parametrize("shape", [(7, 3, 64), (1, 64, 5), (64,)])
def test_work_in_pieces_gives_the_same(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(shape)
    axis = shape.index(64)
    whole = quantize(x, axis)
    monkeypatch.setattr(mxfp8, "_PIECE_ELEMENTS", 64)
    pieces = quantize(x, axis)
    assert _same(pieces.data, whole.data)
    assert torch.equal(pieces.scale_e8m0, whole.scale_e8m0)
    assert torch.equal(pieces.dequantize(), whole.dequantize())
    assert torch.equal(fake_quantize(x, axis), whole.dequantize())


def test_dequantized_values_are_rounded_once_to_the_requested_type() -> None:
    x = torch.randn(4, 64)
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        assert torch.equal(quantize_rowwise(x).dequantize(dtype), fake_quantize(x, -1).to(dtype))
        assert fake_quantize(x, -1, dtype=dtype).dtype == dtype


def test_quantized_values_quantize_to_themselves() -> None:
    once = fake_quantize(torch.randn(16, 64), -1)
    assert torch.equal(fake_quantize(once, -1), once)


def test_empty_tensors_stay_empty() -> None:
    quantized = quantize_rowwise(torch.empty(0, 64))
    assert quantized.data.shape == (0, 64)
    assert quantized.scale_e8m0.shape == (0, 2)
    assert quantized.dequantize().shape == (0, 64)


def test_no_gradient_flows_through_the_quantizer() -> None:
    x = torch.randn(32, requires_grad=True)
    assert not fake_quantize(x, 0).requires_grad


@pytest.mark.parametrize(
    ("x", "axis", "argument"),
    [
        (torch.zeros(32, 33), -1, "x"),
        (torch.zeros(33, 32), -2, "x"),
        (torch.zeros(32).double(), -1, "x"),
        (torch.zeros(32), 1, "axis"),
    ],
)
def test_a_tensor_that_cannot_be_quantized_is_refused(x: Tensor, axis: int, argument: str) -> None:
    for quantizer in (quantize, fake_quantize):
        with pytest.raises(ValueError, match=rf"^{argument}\b"):
            quantizer(x, axis)


def test_one_axis_has_no_columns() -> None:
    with pytest.raises(ValueError, match=r"^x must have at least 2 axes"):
        quantize_colwise(torch.zeros(32))


@pytest.mark.gpu
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fmt", FORMATS)
def test_a_gpu_gives_the_same_bits(kind: Callable[[torch.dtype], Tensor], fmt: Fp8Format) -> None:
    for dtype in SOURCES:
        x = kind(dtype)
        here, there = quantize_rowwise(x, fmt), quantize_rowwise(x.cuda(), fmt)
        assert _same(there.data.cpu(), here.data)
        assert torch.equal(there.scale_e8m0.cpu(), here.scale_e8m0)
        columns = x[:, :32].T if x.shape[0] % 32 == 0 else x.T
        assert _same(quantize_colwise(columns.cuda(), fmt).data.cpu().T, here.data)
