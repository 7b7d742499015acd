"""Head-sized pieces: they cover the heads, fit the budget, and the layouts are each other's."""

from __future__ import annotations

import pytest
import torch

from mxfp8_attention.head_pieces import head_pieces, piece_bytes, to_NSD, to_SBHD

CPU = torch.device("cpu")


@pytest.mark.parametrize("seq_len", [128, 1024, 4096, 65536])
def test_pieces_cover_every_head_once_and_fit_where_one_head_does(seq_len: int) -> None:
    pieces = list(head_pieces(130, seq_len, seq_len, 5, CPU))
    assert [head for piece in pieces for head in range(130)[piece]] == list(range(130))
    one = piece_bytes(seq_len, seq_len, 5)
    for piece in pieces:
        heads = piece.stop - piece.start
        assert heads * one <= max(one, 256 * 2**20)


def test_a_head_of_dsv3_needs_336_mb() -> None:
    assert piece_bytes(4096, 4096, 5) == 335_544_320


def test_the_two_layouts_are_each_others_inverse() -> None:
    x = torch.arange(5 * 2 * 3 * 4).view(5, 2, 3, 4)
    assert to_NSD(x).shape == (6, 5, 4)
    assert torch.equal(to_SBHD(to_NSD(x), batch=2), x)
    assert torch.equal(to_NSD(x)[1 * 3 + 2], x[:, 1, 2])
