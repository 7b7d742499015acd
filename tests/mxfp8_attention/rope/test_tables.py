"""Tables, positions and softmax scale are those of DeepSeek-V3."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from mxfp8_attention.rope import (
    YarnParameters,
    context_parallel_positions,
    rope_tables,
    softmax_scale,
)


def test_plain_tables_are_the_formula_rounded_once() -> None:
    tables = rope_tables(50, 12, base=500.0)
    assert tables.cos.shape == tables.sin.shape == (50, 12)
    assert tables.cos.dtype == tables.sin.dtype == torch.float32
    assert (tables.dim, len(tables)) == (12, 50)
    for position in (0, 1, 49):
        for pair in range(6):
            angle = position * 500.0 ** (-2 * pair / 12)
            for table, function in ((tables.cos, math.cos), (tables.sin, math.sin)):
                want = torch.tensor(function(angle), dtype=torch.float64).float()
                assert table[position, pair] == table[position, pair + 6]
                torch.testing.assert_close(table[position, pair], want, rtol=2e-7, atol=1e-9)


def test_far_positions_keep_full_precision() -> None:
    # An angle of a million radians has an error of 0.03 if it is multiplied in FP32.
    tables = rope_tables(torch.tensor([1_000_003]), 64)
    assert tables.cos[0, 0].item() == pytest.approx(math.cos(1_000_003), abs=1e-7)
    angle = 1_000_003 * 10000.0 ** (-10 / 64)
    assert tables.sin[0, 5].item() == pytest.approx(math.sin(angle), abs=1e-7)


def test_yarn_keeps_fast_frequencies_divides_slow_ones_and_ramps_from_10_to_23() -> None:
    plain, yarn = (rope_tables(2, 64, yarn=y) for y in (None, YarnParameters()))
    # At position 1 the sine's angle is the frequency itself, below pi / 2.
    frequency = plain.sin[1].double().asin()[:32]
    stretched = yarn.sin[1].double().asin()[:32]
    ratio = frequency / stretched
    torch.testing.assert_close(ratio[:11], torch.ones(11).double(), rtol=1e-5, atol=0)
    torch.testing.assert_close(ratio[23:], torch.full((9,), 40.0).double(), rtol=1e-4, atol=0)
    assert (ratio[10:24].diff() > 0).all()


def test_yarn_equals_transformers() -> None:
    from transformers import DeepseekV3Config
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    config = DeepseekV3Config(
        qk_rope_head_dim=64,
        max_position_embeddings=163840,
        rope_parameters={
            "rope_type": "yarn",
            "rope_theta": 10000.0,
            "factor": 40.0,
            "original_max_position_embeddings": 4096,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
        },
    )
    frequencies, factor = ROPE_INIT_FUNCTIONS["yarn"](config, torch.device("cpu"))
    assert factor == YarnParameters().table_factor == 1.0
    angles = torch.outer(torch.arange(7).double(), frequencies.double())
    tables = rope_tables(7, 64, yarn=YarnParameters())
    torch.testing.assert_close(tables.cos[:, :32], angles.cos().float(), rtol=0, atol=2e-6)
    torch.testing.assert_close(tables.sin[:, :32], angles.sin().float(), rtol=0, atol=2e-6)


def test_softmax_scale_grows_with_the_stretch() -> None:
    assert softmax_scale(192) == 192**-0.5
    assert softmax_scale(192, YarnParameters()) == pytest.approx(0.13523, abs=5e-6)
    assert softmax_scale(192, YarnParameters(factor=1.0)) == 192**-0.5
    assert softmax_scale(192, YarnParameters(mscale_all_dim=0.0)) == 192**-0.5


def test_table_factor_follows_the_two_weights() -> None:
    yarn = YarnParameters(mscale=1.0, mscale_all_dim=0.0)
    assert yarn.table_factor == pytest.approx(0.1 * math.log(40) + 1)
    scaled, plain = rope_tables(5, 8, yarn=yarn), rope_tables(5, 8, yarn=YarnParameters())
    torch.testing.assert_close(scaled.cos, plain.cos * yarn.table_factor)


@pytest.mark.parametrize("cp_size", [1, 2, 4])
def test_context_parallel_ranks_split_the_positions(cp_size: int) -> None:
    ranks = [context_parallel_positions(32, cp_size, rank) for rank in range(cp_size)]
    assert torch.equal(torch.cat(ranks).sort().values, torch.arange(32))
    # Equal work under a causal mask: a token at position p attends to p + 1 tokens.
    assert len({int(positions.sum()) for positions in ranks}) == 1
    if cp_size == 4:
        assert ranks[1].tolist() == [4, 5, 6, 7, 24, 25, 26, 27]


def test_tables_of_explicit_positions_are_rows_of_the_whole_table() -> None:
    positions = context_parallel_positions(16, 2, 1)
    whole, chunk = rope_tables(16, 8), rope_tables(positions, 8)
    assert torch.equal(chunk.cos, whole.cos[positions])
    assert torch.equal(chunk.sin, whole.sin[positions])


@pytest.mark.parametrize(
    ("positions", "dim", "argument"),
    [
        (4, 7, "dim"),
        (-3, 8, "positions"),
        (torch.zeros(3), 8, "positions"),
        (torch.tensor([True, False]), 8, "positions"),
        (torch.zeros(3, 1, dtype=torch.int64), 8, "positions"),
    ],
)
def test_positions_and_widths_of_no_table_are_refused(
    positions: int | Tensor, dim: int, argument: str
) -> None:
    with pytest.raises(ValueError, match=f"^{argument}"):
        rope_tables(positions, dim)


@pytest.mark.parametrize(
    ("cp_size", "cp_rank", "argument"), [(3, 0, "seq_len"), (2, 2, "cp_rank"), (0, 0, "cp_size")]
)
def test_a_rank_without_chunks_is_refused(cp_size: int, cp_rank: int, argument: str) -> None:
    with pytest.raises(ValueError, match=f"^{argument}"):
        context_parallel_positions(16, cp_size, cp_rank)
