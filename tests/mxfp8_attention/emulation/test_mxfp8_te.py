"""The quantizer gives the same bytes as Transformer Engine's, on a GPU."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch

from mxfp8_attention.emulation.mxfp8 import Fp8Format, quantize_colwise, quantize_rowwise

pytestmark = [pytest.mark.te, pytest.mark.gpu]


@pytest.mark.parametrize("fmt", Fp8Format)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_bytes_equal_transformer_engines(fmt: Fp8Format, dtype: torch.dtype) -> None:
    import transformer_engine.pytorch as te
    from transformer_engine.pytorch.tensor.mxfp8_tensor import MXFP8Quantizer

    ok, reason = te.is_mxfp8_available(return_reason=True)
    if not ok:
        pytest.skip(reason)
    torch.manual_seed(0)
    rows, columns = 256, 512
    x = torch.randn(rows, columns, device="cuda") * torch.logspace(-8, 4, columns, device="cuda")
    x[::7] = 0
    x[3, 5], x[40, 70] = torch.inf, torch.nan
    x = x.to(dtype)
    types = import_module("transformer_engine_torch").DType
    kind = types.kFloat8E4M3 if fmt is Fp8Format.E4M3 else types.kFloat8E5M2
    theirs = MXFP8Quantizer(fp8_dtype=kind, rowwise=True, columnwise=True)(x)

    ours = quantize_rowwise(x, fmt)
    assert torch.equal(ours.data.view(torch.uint8), theirs._rowwise_data)
    # Their scales are padded for the matrix units.
    scale = theirs._rowwise_scale_inv[:rows, : columns // 32]
    assert torch.equal(ours.scale_e8m0, scale)

    ours = quantize_colwise(x, fmt)
    assert torch.equal(ours.data.view(torch.uint8), theirs._columnwise_data)
    scale = theirs._columnwise_scale_inv[: rows // 32, :columns]
    assert torch.equal(ours.scale_e8m0, scale)
