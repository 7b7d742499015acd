"""The quantizer agrees with torchao's RCEIL mode, an implementation by others of the same rule.

The two differ in three places, which are left out here and decided by the exact oracle in
test_mxfp8: data under scale byte 0, fp32 maxima just above 448 x 2^k, and blocks with a NaN.
"""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor

from mxfp8_attention.emulation.mxfp8 import Fp8Format, quantize_rowwise


def _to_mx(x: Tensor, fmt: Fp8Format) -> tuple[Tensor, Tensor]:
    """Return torchao's E8M0 bytes and FP8 data."""
    with warnings.catch_warnings():
        # What torchao's import says about its own CUDA libraries and enums.
        warnings.simplefilter("ignore")
        from torchao.prototype.mx_formats.config import ScaleCalculationMode
        from torchao.prototype.mx_formats.mx_tensor import to_mx
    scale, data = to_mx(x, fmt.dtype, 32, ScaleCalculationMode.RCEIL)
    return scale.view(torch.uint8), data


@pytest.mark.parametrize("fmt", Fp8Format)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_scale_and_data_equal_torchaos(fmt: Fp8Format, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    spread = torch.logspace(-20, 20, 512)[:, None]
    outlier = torch.randn(512, 32)
    outlier[:, 5] *= 1e4
    infinite = torch.randn(4, 32)
    infinite[:, 7] = torch.inf
    kinds = (torch.randn(512, 32) * spread, torch.rand(512, 32) - 0.5, outlier, infinite)
    x = torch.cat((*kinds, torch.zeros(1, 32))).to(dtype)
    ours = quantize_rowwise(x, fmt)
    scale, data = _to_mx(x, fmt)
    assert torch.equal(ours.scale_e8m0, scale.view_as(ours.scale_e8m0))
    assert torch.equal(ours.data.view(torch.uint8), data.view(torch.uint8))
    assert len(set(ours.scale_e8m0.flatten().tolist())) > 100


@pytest.mark.parametrize("fmt", Fp8Format)
def test_every_finite_bf16_value_above_scale_byte_0_equals_torchaos(fmt: Fp8Format) -> None:
    x = torch.arange(2**16).to(torch.int16).view(torch.bfloat16).view(-1, 32)
    x = x[x.isfinite().all(dim=1)]
    ours = quantize_rowwise(x, fmt)
    scale, data = _to_mx(x, fmt)
    assert torch.equal(ours.scale_e8m0, scale.view_as(ours.scale_e8m0))
    compared = ours.scale_e8m0.flatten() > 0
    assert compared.sum() > 1800
    assert torch.equal(ours.data.view(torch.uint8)[compared], data.view(torch.uint8)[compared])
