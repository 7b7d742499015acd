"""MLA RoPE follows its formula, in every layout, format and type.

Axes: s sequence, b batch, t packed tokens, h heads, d width of a head.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mxfp8_attention.rope import (
    RopeTables,
    context_parallel_positions,
    mla_rope_k,
    mla_rope_kv,
    mla_rope_q,
    rope_tables,
)

# nope, rope and value widths: DeepSeek-V3's, and ones that are no powers of two.
WIDTHS = [(128, 64, 128), (10, 6, 12), (100, 20, 36)]
DTYPES = [torch.bfloat16, torch.float16, torch.float32, torch.float64]


def _rotation_matrices(tables: RopeTables) -> Tensor:
    """Write RoPE of each position as a matrix, FP64 [positions, rope, rope], entry by entry."""
    half = tables.dim // 2
    cos, sin = tables.cos.double(), tables.sin.double()
    matrices = torch.zeros(len(tables), tables.dim, tables.dim, dtype=torch.float64)
    for pair in range(half):
        matrices[:, pair, 2 * pair] = cos[:, pair]
        matrices[:, pair, 2 * pair + 1] = -sin[:, pair]
        matrices[:, half + pair, 2 * pair] = sin[:, pair]
        matrices[:, half + pair, 2 * pair + 1] = cos[:, pair]
    return matrices


def _rotated(x_SBHD: Tensor, tables: RopeTables) -> Tensor:
    return torch.einsum("sij,sbhj->sbhi", _rotation_matrices(tables), x_SBHD.double())


def _assert_rounded_once(got: Tensor, want: Tensor, size: float = 8.0) -> None:
    """Allow half a unit in the last place, and what FP32 arithmetic on |x| < size adds to it."""
    wide = torch.float64 if got.dtype == torch.float64 else torch.float32
    rounding = torch.finfo(got.dtype).eps / 2 * want.abs()
    error = (got.double() - want).abs()
    assert (error <= rounding + 4 * size * torch.finfo(wide).eps).all(), error.max()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("nope", "rope", "value"), WIDTHS)
def test_queries_are_rotated_and_the_rest_is_kept(
    nope: int, rope: int, value: int, dtype: torch.dtype
) -> None:
    tables = rope_tables(9, rope)
    q_SBHD = torch.randn(9, 2, 3, nope + rope).to(dtype)
    out = mla_rope_q(q_SBHD, tables, rope_dim=rope)
    assert out.dtype == dtype
    assert out.is_contiguous()
    assert torch.equal(out[..., :nope], q_SBHD[..., :nope])
    _assert_rounded_once(out[..., nope:], _rotated(q_SBHD[..., nope:], tables))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("nope", "rope", "value"), WIDTHS)
def test_both_layouts_give_every_head_the_same_rotated_key(
    nope: int, rope: int, value: int, dtype: torch.dtype
) -> None:
    tables = rope_tables(9, rope)
    kv_SBHD = torch.randn(9, 2, 3, nope + value).to(dtype)
    k_pe = torch.randn(9, 2, 1, rope).to(dtype)
    k, v = mla_rope_kv(kv_SBHD, k_pe, tables, nope_dim=nope)
    assert torch.equal(k[..., :nope], kv_SBHD[..., :nope])
    assert torch.equal(v, kv_SBHD[..., nope:])
    _assert_rounded_once(k[..., nope:], _rotated(k_pe, tables).expand(9, 2, 3, rope))

    fused = torch.randn(9, 2, 3, nope + rope).to(dtype)
    fused[..., :nope] = kv_SBHD[..., :nope]
    fused[:, :, :1, nope:] = k_pe
    assert torch.equal(mla_rope_k(fused, tables, rope_dim=rope), k)


def test_rotary_slices_of_other_heads_are_never_read() -> None:
    tables = rope_tables(4, 6)
    k = torch.randn(4, 2, 3, 16)
    poisoned = k.clone()
    poisoned[:, :, 1:, 10:] = torch.nan
    rotated = mla_rope_k(poisoned, tables, rope_dim=6)
    assert torch.equal(rotated, mla_rope_k(k, tables, rope_dim=6))


def test_queries_and_keys_equal_transformers_interleaved_rope() -> None:
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import (
        apply_rotary_pos_emb_interleave,
    )

    tables = rope_tables(16, 64)
    q_BHSD, k_BHSD = torch.randn(2, 3, 16, 64).double(), torch.randn(2, 1, 16, 64).double()
    want_q, want_k = apply_rotary_pos_emb_interleave(
        q_BHSD, k_BHSD, tables.cos.double()[None], tables.sin.double()[None]
    )
    q = mla_rope_q(q_BHSD.permute(2, 0, 1, 3), tables, rope_dim=64)
    k_pe = k_BHSD.permute(2, 0, 1, 3)
    k, _ = mla_rope_kv(torch.zeros(16, 2, 3, 8).double(), k_pe, tables, nope_dim=4)
    torch.testing.assert_close(q.permute(1, 2, 0, 3), want_q, rtol=0, atol=1e-14)
    for head in range(3):
        torch.testing.assert_close(
            k[:, :, head, 4:], want_k[:, 0].transpose(0, 1), rtol=0, atol=1e-14
        )


def test_scores_depend_on_the_distance_alone() -> None:
    tables = rope_tables(40, 16)
    q, k = torch.randn(16).double(), torch.randn(16).double()

    def score(q_position: int, k_position: int) -> Tensor:
        rotated_q, rotated_k = (
            mla_rope_q(x.view(1, 1, 1, 16), tables, rope_dim=16, positions=position)
            for x, position in ((q, q_position), (k, k_position))
        )
        return (rotated_q * rotated_k).sum()

    torch.testing.assert_close(score(5, 2), score(33, 30), rtol=1e-6, atol=1e-6)
    assert (score(5, 2) - score(5, 3)).abs() > 1e-3


def test_formats_differ_in_the_order_of_axes_alone() -> None:
    tables = rope_tables(6, 8)
    q_SBHD, k_pe = torch.randn(6, 3, 4, 20), torch.randn(6, 3, 1, 8)
    kv_SBHD = torch.randn(6, 3, 4, 22)
    q = mla_rope_q(q_SBHD, tables, rope_dim=8)
    fused = mla_rope_k(q_SBHD, tables, rope_dim=8)
    k, v = mla_rope_kv(kv_SBHD, k_pe, tables, nope_dim=12)

    def swapped(x: Tensor) -> Tensor:
        return x.transpose(0, 1).contiguous()

    batch_first = mla_rope_q(swapped(q_SBHD), tables, rope_dim=8, qkv_format="bshd")
    assert batch_first.is_contiguous()
    assert torch.equal(batch_first, swapped(q))
    assert torch.equal(
        mla_rope_k(swapped(q_SBHD), tables, rope_dim=8, qkv_format="bshd"), swapped(fused)
    )
    got = mla_rope_kv(swapped(kv_SBHD), swapped(k_pe), tables, nope_dim=12, qkv_format="bshd")
    assert all(x.is_contiguous() for x in got)
    assert torch.equal(got[0], swapped(k))
    assert torch.equal(got[1], swapped(v))


@pytest.mark.parametrize("lengths", [(5, 1, 7), (0, 4, 0, 3), (9,)])
def test_each_packed_sequence_starts_at_position_0(lengths: tuple[int, ...]) -> None:
    tables = rope_tables(9, 8)
    padding = 2
    cu_seqlens = torch.tensor((0, *lengths)).cumsum(0).to(torch.int32)
    q_THD = torch.randn(sum(lengths) + padding, 3, 20)
    k_pe_THD = torch.randn(sum(lengths) + padding, 1, 8)
    q = mla_rope_q(q_THD, tables, rope_dim=8, qkv_format="thd", cu_seqlens=cu_seqlens)
    k, v = mla_rope_kv(
        q_THD, k_pe_THD, tables, nope_dim=12, qkv_format="thd", cu_seqlens=cu_seqlens
    )
    fused = mla_rope_k(q_THD, tables, rope_dim=8, qkv_format="thd", cu_seqlens=cu_seqlens)
    for start, stop in zip(cu_seqlens[:-1].tolist(), cu_seqlens[1:].tolist(), strict=True):
        one = q_THD[start:stop, None]
        assert torch.equal(q[start:stop, None], mla_rope_q(one, tables, rope_dim=8))
        assert torch.equal(fused[start:stop, None], mla_rope_k(one, tables, rope_dim=8))
        one_k, one_v = mla_rope_kv(one, k_pe_THD[start:stop, None], tables, nope_dim=12)
        assert torch.equal(k[start:stop, None], one_k)
        assert torch.equal(v[start:stop, None], one_v)
    # Padding takes position 0, whose rotation only reorders.
    pairs = q_THD[-padding:, :, 12:]
    reordered = torch.cat((pairs[..., 0::2], pairs[..., 1::2]), dim=-1)
    assert torch.equal(q[-padding:, :, 12:], reordered)


def test_queries_and_keys_may_have_lengths_of_their_own() -> None:
    tables = rope_tables(8, 8)
    q_lengths, k_lengths = torch.tensor([0, 1, 2]), torch.tensor([0, 8, 13])
    q = mla_rope_q(
        torch.randn(2, 3, 20), tables, rope_dim=8, qkv_format="thd", cu_seqlens=q_lengths
    )
    k = mla_rope_k(
        torch.randn(13, 3, 20), tables, rope_dim=8, qkv_format="thd", cu_seqlens=k_lengths
    )
    assert (q.shape[0], k.shape[0]) == (2, 13)


def test_an_offset_and_explicit_positions_pick_rows_of_the_tables() -> None:
    tables = rope_tables(32, 8)
    x = torch.randn(32, 2, 3, 20)
    whole = mla_rope_q(x, tables, rope_dim=8)
    later = mla_rope_q(x[20:], tables, rope_dim=8, positions=20)
    assert torch.equal(later, whole[20:])
    for rank in range(2):
        positions = context_parallel_positions(32, 2, rank)
        chunk = x[positions]
        assert torch.equal(
            mla_rope_q(chunk, tables, rope_dim=8, positions=positions), whole[positions]
        )
        by_tables = mla_rope_q(chunk, rope_tables(positions, 8), rope_dim=8)
        assert torch.equal(by_tables, whole[positions])
    packed = mla_rope_q(
        x[:, 0], tables, rope_dim=8, qkv_format="thd", positions=torch.arange(32).flip(0)
    )
    want = mla_rope_q(x[:, :1].flip(0), tables, rope_dim=8).flip(0)
    assert torch.equal(packed, want[:, 0])


def test_an_offset_applies_to_each_packed_sequence() -> None:
    """A rank of context parallelism, or a decoder, may hold the second part of each sequence."""
    tables = rope_tables(12, 8)
    cu_seqlens = torch.tensor([0, 3, 3, 7])
    x = torch.randn(9, 2, 20)
    options = {"rope_dim": 8, "qkv_format": "thd", "cu_seqlens": cu_seqlens}
    later = mla_rope_q(x, tables, **options, positions=5)  # type: ignore[arg-type]  # of both kinds
    rows = torch.tensor([5, 6, 7, 5, 6, 7, 8, 0, 0])  # padding stays at 0
    want = mla_rope_q(x, tables, rope_dim=8, qkv_format="thd", positions=rows)
    assert torch.equal(later, want)
    assert not torch.equal(later, mla_rope_q(x, tables, **options))  # type: ignore[arg-type]  # so
    by_rows = mla_rope_q(x, tables, **options, positions=rows)  # type: ignore[arg-type]  # so
    assert torch.equal(by_rows, want)


def test_a_position_outside_the_tables_gives_nan() -> None:
    out = mla_rope_q(
        torch.ones(3, 1, 2, 10),
        rope_tables(4, 6),
        rope_dim=6,
        positions=torch.tensor([3, 4, -1]),
    )
    assert out[0].isfinite().all()
    assert out[1:, ..., 4:].isnan().all()
    assert out[1:, ..., :4].isfinite().all()


@pytest.mark.parametrize("shape", [(0, 2, 3), (4, 0, 3)])
def test_empty_tensors_stay_empty(shape: tuple[int, int, int]) -> None:
    tables = rope_tables(4, 6)
    assert mla_rope_q(torch.ones(*shape, 10), tables, rope_dim=6).shape == (*shape, 10)
    k, v = mla_rope_kv(torch.ones(*shape, 9), torch.ones(*shape[:2], 1, 6), tables, nope_dim=4)
    assert (k.shape, v.shape) == ((*shape, 10), (*shape, 5))


def test_a_head_may_be_all_rotary() -> None:
    tables = rope_tables(4, 6)
    q = torch.randn(4, 2, 3, 6)
    _assert_rounded_once(mla_rope_q(q, tables, rope_dim=6), _rotated(q, tables))
    k, v = mla_rope_kv(torch.randn(4, 2, 3, 5), q[:, :, :1], tables, nope_dim=0)
    assert (k.shape, v.shape) == ((4, 2, 3, 6), (4, 2, 3, 5))


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"rope_dim": 5}, "rope_dim"),
        ({"rope_dim": 12}, "rope_dim"),
        ({"rope_dim": 8}, "tables"),
        ({"qkv_format": "bhsd"}, "qkv_format"),
        ({"qkv_format": "thd"}, "q"),
        ({"cu_seqlens": torch.tensor([0, 4])}, "cu_seqlens"),
        ({"positions": 0, "cu_seqlens": torch.tensor([0, 4])}, "cu_seqlens"),
        ({"kernel": "cuda"}, "rope_kernel"),
        ({"inplace_grad": True}, "inplace_grad"),
        *(
            ({"positions": positions}, "positions")
            for positions in (
                *(1, -1, 1.0, True, [0, 1, 2, 3]),
                *(torch.arange(3), torch.zeros(4), torch.ones(4).bool()),
            )
        ),
    ],
)
def test_queries_that_do_not_fit_are_refused(changes: dict[str, object], argument: str) -> None:
    arguments = {"rope_dim": 6} | changes
    with pytest.raises(ValueError, match=rf"^{argument}\b"):
        mla_rope_q(torch.zeros(4, 2, 3, 10), rope_tables(4, 6), **arguments)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize(
    "cu_seqlens",
    [
        None,
        torch.tensor([[0, 4]]),
        torch.tensor(4),
        torch.tensor([], dtype=torch.int32),
        torch.tensor([0.0, 4.0]),
    ],
)
def test_cu_seqlens_that_are_no_bounds_are_refused(cu_seqlens: Tensor | None) -> None:
    q, tables = torch.zeros(4, 3, 10), rope_tables(4, 6)
    with pytest.raises(ValueError, match="cu_seqlens"):
        mla_rope_q(q, tables, rope_dim=6, qkv_format="thd", cu_seqlens=cu_seqlens)


def test_packed_tokens_past_the_tables_are_refused() -> None:
    q, tables, bounds = torch.zeros(4, 3, 10), rope_tables(4, 6), torch.tensor([0, 4])
    with pytest.raises(ValueError, match=r"^positions"):
        mla_rope_q(q, tables, rope_dim=6, qkv_format="thd", cu_seqlens=bounds, positions=4)


@pytest.mark.parametrize(
    ("k_pe", "nope_dim", "argument"),
    [
        (torch.zeros(4, 2, 3, 6), 4, "k_pe"),
        (torch.zeros(4, 2, 1, 6).double(), 4, "k_pe"),
        (torch.zeros(4, 2, 1, 6), 9, "nope_dim"),
    ],
)
def test_keys_and_values_that_do_not_fit_are_refused(
    k_pe: Tensor, nope_dim: int, argument: str
) -> None:
    with pytest.raises(ValueError, match=f"^{argument}"):
        mla_rope_kv(torch.zeros(4, 2, 3, 9), k_pe, rope_tables(4, 6), nope_dim=nope_dim)


@pytest.mark.parametrize(
    ("k", "argument"),
    [
        (torch.zeros(4, 2, 3, 4), "rope_dim"),
        (torch.zeros(4, 2, 3, 10, dtype=torch.int32), "k"),
        (torch.zeros(4, 2, 3, 10, device="meta"), "tables"),
        (torch.zeros(5, 2, 3, 10), "positions"),
    ],
)
def test_keys_that_do_not_fit_are_refused(k: Tensor, argument: str) -> None:
    with pytest.raises(ValueError, match=rf"^{argument}\b"):
        mla_rope_k(k, rope_tables(4, 6), rope_dim=6)
