"""Emulated attention: against plain loops over blocks, in pieces, and within stated memory."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch import Tensor

from conf.choices import Fp8Format as FormatChoice
from conf.schema import (
    Bf16Recipe,
    Fp8BlockRecipe,
    Fp8CurrentRecipe,
    Fp8DelayedRecipe,
    MxFp8Recipe,
    Recipe,
)
from mxfp8_attention import matmul
from mxfp8_attention.emulation import rounding
from mxfp8_attention.emulation.attention import (
    PLANES,
    AttentionMask,
    AttentionRules,
    emulated_attention,
    forward_NSD,
)
from mxfp8_attention.emulation.attention_numerics import BF16_NUMERICS, attention_numerics
from mxfp8_attention.emulation.mxfp8 import Fp8Format, quantize_colwise, quantize_rowwise
from mxfp8_attention.matmul import piece_bytes
from mxfp8_attention.reference import attention_NSD
from tests.mxfp8_attention.distance import distance
from tests.mxfp8_attention.emulation import plain_loops
from tests.mxfp8_attention.live_memory import LiveMemory

FP8_RECIPES = (
    MxFp8Recipe(),
    MxFp8Recipe(format=FormatChoice.hybrid),
    Fp8DelayedRecipe(fp8_dpa=True),
    Fp8CurrentRecipe(fp8_dpa=True),
)
CAUSAL, FULL = AttentionMask(0), AttentionMask()


def inputs(
    seq_len: int = 256, batch: int = 2, heads: int = 2, qk: int = 96, v: int = 64
) -> list[Tensor]:
    """bf16 q, k, v and dout, [s, b, h, d]; scores of standard deviation 4."""
    generator = torch.Generator().manual_seed(11)
    widths = (qk, qk, v, v)
    tensors = [torch.randn(seq_len, batch, heads, w, generator=generator) for w in widths]
    return [(x * size).to(torch.bfloat16) for x, size in zip(tensors, (2, 2, 1, 1), strict=True)]


def rules(recipe: Recipe, mask: AttentionMask = CAUSAL, qk: int = 96) -> AttentionRules:
    """A recipe's rules with the usual softmax scale."""
    return AttentionRules(qk**-0.5, mask, attention_numerics(recipe))


def run(tensors: list[Tensor], by: AttentionRules) -> list[Tensor]:
    """Output, dq, dk, dv."""
    *leaves, dout = tensors
    leaves = [leaf.clone().requires_grad_() for leaf in leaves]
    out = emulated_attention(leaves[0], leaves[1], leaves[2], by)
    torch.autograd.backward(out, dout)
    return [out.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]


def exact(tensors: list[Tensor], mask: AttentionMask) -> list[Tensor]:
    """The same in FP64 by the definition."""
    *leaves, dout = (tensor.permute(1, 2, 0, 3).double() for tensor in tensors)
    q, k, v = (leaf.flatten(0, 1).requires_grad_() for leaf in leaves)
    out = attention_NSD(q, k, v, q.shape[-1] ** -0.5, causal=mask.diagonal == 0)
    grads = torch.autograd.grad(out, (q, k, v), dout.flatten(0, 1))
    batch = tensors[0].shape[1]
    return [torch.unflatten(x, 0, (batch, -1)).permute(2, 0, 1, 3) for x in (out.detach(), *grads)]


def distinct(tensors: list[Tensor]) -> int:
    """Number of different values in all of them."""
    return len({value for tensor in tensors for value in tensor.flatten().tolist()})


@pytest.mark.parametrize("mask", [CAUSAL, FULL], ids=["causal", "full"])
def test_mxfp8_agrees_with_plain_loops_over_blocks(mask: AttentionMask) -> None:
    tensors = inputs(batch=1)
    causal = mask.diagonal == 0
    actual = run(tensors, rules(MxFp8Recipe(), mask))
    q, k, v, dout = (tensor[:, 0, 1] for tensor in tensors)
    out, log_sum = plain_loops.attention_forward(q, k, v, 96**-0.5, causal)
    gradients = plain_loops.attention_backward(q, k, v, out, log_sum, dout, 96**-0.5, causal)
    # The order of FP32 sums flips the rounding of a few values of P and dS.
    for value, expected in zip(actual, (out, *gradients), strict=True):
        assert distance(value[:, 0, 1], expected) < 3e-3


def test_the_running_maximum_is_raised_only_beyond_the_threshold() -> None:
    # One query; the second tile's key scores 4 bits more than the first's, or a little more.
    for nats, expected in ((4 * math.log(2) * 0.99, 0.0), (4 * math.log(2) * 1.01, None)):
        tiles: list[Tensor] = []

        def keep(p: Tensor, tiles: list[Tensor] = tiles) -> Tensor:
            tiles.append(p.clone())
            return p

        q, k = torch.ones(1, 1, 1), torch.full((1, 256, 1), -100.0)
        k[0, 0], k[0, 128] = 0.0, nats
        numerics = dataclasses.replace(
            attention_numerics(MxFp8Recipe()),
            **dict.fromkeys(("q_score", "k_score", "v_out"), rounding.to_fp32),  # type: ignore[arg-type]  # roundings
            p_forward=keep,
        )
        forward_NSD(q, k, torch.ones(1, 256, 1), AttentionRules(1.0, FULL, numerics))
        largest = float(tiles[1].max().log())
        assert largest == pytest.approx(nats if expected == 0.0 else 0.0, abs=1e-5)
        assert 16 * tiles[1].max() < 448


@pytest.mark.parametrize("mask", [CAUSAL, FULL], ids=["causal", "full"])
def test_bf16_attention_is_exact_but_for_bf16_roundings(mask: AttentionMask) -> None:
    tensors = inputs()
    by = rules(Bf16Recipe(), mask)
    for value, expected in zip(run(tensors, by), exact(tensors, mask), strict=True):
        assert 1e-3 < distance(value, expected) < 6e-3
        assert value.dtype == torch.bfloat16


@pytest.mark.parametrize("recipe", FP8_RECIPES, ids=str)
def test_fp8_attention_is_near_the_exact_one_and_no_nearer_than_fp8_can(recipe: Recipe) -> None:
    tensors = inputs()
    errors = [
        distance(*pair)
        for pair in zip(run(tensors, rules(recipe)), exact(tensors, CAUSAL), strict=True)
    ]
    assert all(0.03 < error < 0.35 for error in errors), errors


@pytest.mark.parametrize(
    "recipe",
    [MxFp8Recipe(fp8_dpa=False), Fp8CurrentRecipe(), Fp8DelayedRecipe(), Fp8BlockRecipe()],
    ids=lambda recipe: recipe.name.name,
)
def test_without_fp8_dpa_attention_is_bf16(recipe: Recipe) -> None:
    assert attention_numerics(recipe) is BF16_NUMERICS


def test_mxfp8_operands_have_their_blocks_along_the_axis_that_is_summed_over() -> None:
    numerics = attention_numerics(MxFp8Recipe())
    x = inputs()[0][:, 0].transpose(0, 1).float() * torch.logspace(-4, 4, 96)
    row, col = quantize_rowwise(x).dequantize(), quantize_colwise(x).dequantize()
    for name in ("q_score", "k_score", "dout_dp", "v_dp", "ds_dq"):
        assert torch.equal(getattr(numerics, name)(x), row), name
    for name in ("v_out", "dout_dv", "k_dq", "q_dk", "ds_dk"):
        assert torch.equal(getattr(numerics, name)(x), col), name
    p = torch.rand(1, 32, 32)
    assert torch.equal(numerics.p_forward(p), rounding.fixed_scale(16)(p))
    assert torch.equal(numerics.p_backward(p), rounding.fixed_scale(256)(p))


def test_per_tensor_scales_come_from_whole_tensors_and_are_shared_by_q_k_v() -> None:
    q, k, v, dout = inputs()
    numerics = attention_numerics(Fp8DelayedRecipe(fp8_dpa=True)).for_inputs(q, k, v)
    largest = max(float(x.abs().max()) for x in (q, k, v))
    assert torch.equal(numerics.v_out(v), rounding.fixed_scale(torch.tensor(448 / largest))(v))
    backward = numerics.for_gradient(dout, lambda: torch.tensor(2.0))
    scale = torch.tensor(57344 / float(dout.abs().max()))
    assert torch.equal(
        backward.dout_delta(dout), rounding.fixed_scale(scale, Fp8Format.E5M2)(dout)
    )
    ds = torch.linspace(-2, 2, 64)
    assert torch.equal(backward.ds_dq(ds), rounding.fixed_scale(28672.0, Fp8Format.E5M2)(ds))


def test_delayed_scaling_stores_fp8_and_current_scaling_bf16() -> None:
    tensors = inputs()
    delayed, current = (
        run(tensors, rules(recipe))
        for recipe in (Fp8DelayedRecipe(fp8_dpa=True), Fp8CurrentRecipe(fp8_dpa=True))
    )
    # E4M3 has at most 2 x 127 values, E5M2 2 x 124, once the scale is divided out.
    assert distinct(delayed[:1]) <= 254 < distinct(current[:1])
    assert distinct(delayed[1:]) <= 248 < distinct(current[1:])


@pytest.mark.parametrize("recipe", [Bf16Recipe(), *FP8_RECIPES], ids=str)
def test_the_pieces_that_heads_run_in_change_nothing(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = inputs()
    whole = run(tensors, rules(recipe))
    monkeypatch.setattr(matmul, "_CPU_BUDGET_BYTES", 1)
    piecewise = run(tensors, rules(recipe))
    for one, other in zip(whole, piecewise, strict=True):
        assert distance(one, other) < 1e-3


def test_strides_do_not_matter() -> None:
    tensors = inputs()
    strided = [torch.stack((x, -x), dim=-1)[..., 0] for x in tensors]
    assert not strided[0].is_contiguous()
    for one, other in zip(
        run(tensors, rules(MxFp8Recipe())), run(strided, rules(MxFp8Recipe())), strict=True
    ):
        assert torch.equal(one, other)


@pytest.mark.parametrize("recipe", [Bf16Recipe(), *FP8_RECIPES], ids=str)
def test_a_piece_needs_no_more_memory_than_stated(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    seq_len, heads = 384, 4
    monkeypatch.setattr(matmul, "_CPU_BUDGET_BYTES", piece_bytes(seq_len, seq_len, PLANES))
    tensors = inputs(seq_len, 1, heads)
    with LiveMemory() as memory:
        run(tensors, rules(recipe))
    piece = piece_bytes(seq_len, seq_len, PLANES)
    whole_tensors = 4 * seq_len * heads * (5 * 96 + 5 * 64)
    assert piece / 2 < memory.peak_bytes < piece + whole_tensors
