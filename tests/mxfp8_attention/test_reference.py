"""The FP32 path matches the layer in FP64, written from its definition, in both layouts."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from conf.choices import AttnMask, Projection
from mxfp8_attention import matmul, reference
from mxfp8_attention.case import Case, make_case
from mxfp8_attention.layer import NORM_EPS
from mxfp8_attention.reference import ReferencePath
from tests.mxfp8_attention.distance import distance
from tests.mxfp8_attention.live_memory import LiveMemory
from tests.shapes import tiny


def rotated(x: Tensor, case: Case) -> Tensor:
    """RoPE by complex numbers: each pair is a number that is turned by the token's angle."""
    half = case.tables.dim // 2
    turn = torch.complex(case.tables.cos[:, :half].double(), case.tables.sin[:, :half].double())
    pairs = torch.view_as_complex(torch.unflatten(x, -1, (half, 2)).contiguous())
    turned = pairs * turn[:, None, None]
    return torch.cat((turned.real, turned.imag), dim=-1)


def layer_in_fp64(case: Case) -> dict[str, Tensor]:
    """The fused layer by its definition, differentiated by autograd in FP64."""
    shape = case.shape
    h, qk, nope, v_dim = shape.num_heads, shape.head_dim_qk, shape.head_dim_nope, shape.head_dim_v
    w = {name: t.double().requires_grad_() for name, t in case.weights.items()}
    x = case.x_SBC.double().requires_grad_()
    qkv = functional.linear(x, w["qkv_weight"], w["qkv_bias"])
    q, k, v = qkv.split_with_sizes([h * qk, h * qk, h * v_dim], dim=-1)
    q, k, v = (torch.unflatten(t, -1, (h, -1)) for t in (q, k, v))
    q = torch.cat((q[..., :nope], rotated(q[..., nope:], case)), dim=-1)
    key = rotated(k[:, :, :1, nope:], case).expand(-1, -1, h, -1)
    k = torch.cat((k[..., :nope], key), dim=-1)
    q_BHSD, k_BHSD, v_BHSD = (t.permute(1, 2, 0, 3) for t in (q, k, v))
    attention = functional.scaled_dot_product_attention(
        q_BHSD, k_BHSD, v_BHSD, is_causal=case.causal, scale=case.softmax_scale
    )
    attention = attention.permute(2, 0, 1, 3).flatten(2)
    out = functional.linear(attention, w["out_weight"], w["out_bias"])
    torch.autograd.backward(out, case.dout_SBC.double())
    tensors = {"q": q, "k": k, "v": v, "attention": attention, "out": out}
    leaves = {"dx": x} | {f"d{name}": leaf for name, leaf in w.items()}
    gradients = {name: leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}
    return {name: tensor.detach() for name, tensor in (tensors | gradients).items()}


@pytest.mark.parametrize("attn_mask", AttnMask)
def test_the_fp32_path_is_the_layer_in_fp64(attn_mask: AttnMask) -> None:
    case = make_case(tiny(attn_mask=attn_mask, batch=2), "cpu")
    actual, expected = ReferencePath(case).step(), layer_in_fp64(case)
    assert set(actual) == set(expected)
    for name, tensor in expected.items():
        assert distance(actual[name], tensor) < 2e-6, name


def fused_twin(split: Case) -> Case:
    """The fused layer with the split one's weights, fed with its normalized input."""
    shape = split.shape
    h, nope, rope = shape.num_heads, shape.head_dim_nope, shape.head_dim_rope
    ones = {f"{n}_norm_weight": torch.ones(shape.hidden) for n in ("q", "kv")}
    zeros = {f"{n}_norm_bias": torch.zeros(shape.hidden) for n in ("q", "kv")}
    split.weights.update(ones | zeros)

    def fused(kind: str) -> Tensor:
        q, kv = split.weights[f"q_{kind}"], split.weights[f"kv_{kind}"]
        nope_v, key = torch.unflatten(kv[:-rope], 0, (h, -1)), kv[-rope:]
        k = torch.full((h, nope + rope, *key.shape[1:]), 7.0, dtype=key.dtype)  # 7 is never read
        k[:, :nope] = nope_v[:, :nope]
        k[0, nope:] = key
        return torch.cat((q, k.flatten(0, 1), nope_v[:, nope:].flatten(0, 1)))

    weights = {f"qkv_{kind}": fused(kind) for kind in ("weight", "bias")}
    weights |= {n: w for n, w in split.weights.items() if n.startswith("out_")}
    x = functional.layer_norm(split.x_SBC.float(), (shape.hidden,), eps=NORM_EPS)
    shape = dataclasses.replace(shape, projection=Projection.fused)
    return dataclasses.replace(split, shape=shape, weights=weights, x_SBC=x)


def test_fused_and_split_give_the_same_result_on_copied_weights() -> None:
    split = make_case(tiny(projection=Projection.split), "cpu")
    one, other = ReferencePath(fused_twin(split)).step(), ReferencePath(split).step()
    for name in ("q", "k", "v", "attention", "out", "dout_weight"):
        assert distance(one[name], other[name]) < 2e-6, name
    heads, qk, nope = 4, 96, 64
    dq, dk, dv = one["dqkv_weight"].split_with_sizes([heads * qk, heads * qk, heads * 64])
    dkv = torch.unflatten(other["dkv_weight"][:-32], 0, (heads, -1))
    dk = torch.unflatten(dk, 0, (heads, -1))
    assert distance(dq, other["dq_weight"]) < 2e-6
    assert distance(dk[:, :nope], dkv[:, :nope]) < 2e-6
    assert distance(dk[0, nope:], other["dkv_weight"][-32:]) < 2e-6
    assert distance(torch.unflatten(dv, 0, (heads, -1)), dkv[:, nope:]) < 2e-6
    assert not dk[1:, nope:].any()


def test_the_pieces_that_heads_run_in_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case(tiny(batch=2), "cpu")
    whole = ReferencePath(case).step()
    monkeypatch.setattr(matmul, "_CPU_BUDGET_BYTES", 1)
    piecewise = ReferencePath(case).step()
    for name, tensor in whole.items():
        assert distance(piecewise[name], tensor) < 1e-6, name


def test_a_precision_set_outside_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        ReferencePath(make_case(tiny(), "cpu")).step()
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)


def test_a_piece_of_attention_needs_no_more_memory_than_stated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shape = tiny(seq_len=512, num_heads=2)
    piece = matmul.piece_bytes(512, 512, reference.PLANES)
    monkeypatch.setattr(matmul, "_CPU_BUDGET_BYTES", piece)
    case = make_case(shape, "cpu")
    path = ReferencePath(case)
    with LiveMemory() as memory:
        q, k, v = path.rope(*path.project(path.x_SBC))
        out = path.attend(q, k, v)
        torch.autograd.backward(out, torch.ones_like(out))
    tokens_by_width = 512 * 4 * (6 * 1024 + 4 * shape.hidden)
    assert piece / 2 < memory.peak_bytes < piece + tokens_by_width
