"""TF32 only where it is exact and only where there is a GPU; always put back."""

from __future__ import annotations

import pytest
import torch

from mxfp8_attention.matmul_precision import matmul_precision


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("exact", [True, False])
def test_tf32_needs_exact_operands_and_a_gpu(
    there: bool, exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    before = torch.get_float32_matmul_precision()
    with matmul_precision(exact_in_tf32=exact):
        inside = torch.get_float32_matmul_precision()
    assert inside == ("high" if there and exact else "highest")
    assert torch.get_float32_matmul_precision() == before


def test_the_precision_is_put_back_after_an_error() -> None:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        with pytest.raises(RuntimeError, match="inside"), matmul_precision(exact_in_tf32=False):
            raise RuntimeError("inside")
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")
def test_tf32_is_exact_for_fp8_values_times_powers_of_two() -> None:
    generator = torch.Generator("cuda").manual_seed(1)
    a, b = (torch.randn(256, 512, generator=generator, device="cuda") for _ in range(2))
    a, b = a.to(torch.float8_e4m3fn).float() * 2**-5, b.to(torch.float8_e5m2).float() * 2**9
    with matmul_precision(exact_in_tf32=True):
        product = a @ b.T
    exact = a.double() @ b.double().T
    assert float((product - exact).norm() / exact.norm()) < 1e-5
