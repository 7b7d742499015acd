"""FP32 matrix products: exact TF32 on a GPU alone, and head-sized pieces that fit into memory."""

from __future__ import annotations

import pytest
import torch

from mxfp8_attention.matmul import head_pieces, matmul_precision, piece_bytes, to_NSD, to_SBHD

CPU = torch.device("cpu")


@pytest.mark.parametrize("seq_len", [128, 1024, 4096, 65536])
def test_pieces_cover_every_head_once_and_fit_if_one_head_fits(seq_len: int) -> None:
    pieces = list(head_pieces(130, seq_len, seq_len, 5, CPU))
    assert [head for piece in pieces for head in range(130)[piece]] == list(range(130))
    one = piece_bytes(seq_len, seq_len, 5)
    for piece in pieces:
        heads = piece.stop - piece.start
        assert heads * one <= max(one, 256 * 2**20)


def test_a_head_of_dsv3_needs_336_mb() -> None:
    assert piece_bytes(4096, 4096, 5) == 335_544_320


def test_the_two_layouts_are_inverse() -> None:
    x = torch.arange(5 * 2 * 3 * 4).view(5, 2, 3, 4)
    assert to_NSD(x).shape == (6, 5, 4)
    assert torch.equal(to_SBHD(to_NSD(x), batch=2), x)
    assert torch.equal(to_NSD(x)[1 * 3 + 2], x[:, 1, 2])


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


def test_the_precision_is_restored_after_an_error() -> None:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        with pytest.raises(RuntimeError, match="inside"), matmul_precision(exact_in_tf32=False):
            raise RuntimeError("inside")
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.gpu
def test_tf32_is_exact_for_fp8_values_times_powers_of_two() -> None:
    generator = torch.Generator("cuda").manual_seed(1)
    a, b = (torch.randn(256, 512, generator=generator, device="cuda") for _ in range(2))
    a, b = a.to(torch.float8_e4m3fn).float() * 2**-5, b.to(torch.float8_e5m2).float() * 2**9
    with matmul_precision(exact_in_tf32=True):
        product = a @ b.T
    exact = a.double() @ b.double().T
    assert float((product - exact).norm() / exact.norm()) < 1e-5
