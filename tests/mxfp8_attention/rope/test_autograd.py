"""Gradients of MLA RoPE: the transpose exactly, in place only when requested.

Axes: s sequence, b batch, h heads, d width of a head.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from mxfp8_attention.rope import mla_rope_k, mla_rope_kv, mla_rope_q, rope_tables

TABLES = rope_tables(5, 6)


def _q(x: Tensor) -> Tensor:
    return mla_rope_q(x, TABLES, rope_dim=6)


def _q_in_place(x: Tensor) -> Tensor:
    return mla_rope_q(x * 1, TABLES, rope_dim=6, inplace=True)


def _q_in_place_and_its_gradient(x: Tensor) -> Tensor:
    rotated = mla_rope_q(x * 1, TABLES, rope_dim=6, inplace=True, inplace_grad=True)
    return rotated * 1  # its backward makes a gradient that nobody else reads


def _k(x: Tensor) -> Tensor:
    return mla_rope_k(x, TABLES, rope_dim=6)


def _k_batch_first(x: Tensor) -> Tensor:
    return mla_rope_k(x.transpose(0, 1), TABLES, rope_dim=6, qkv_format="bshd")


def _q_packed(x: Tensor) -> Tensor:
    lengths = torch.tensor([0, 3, 5])
    return mla_rope_q(x[:, 0], TABLES, rope_dim=6, qkv_format="thd", cu_seqlens=lengths)


@pytest.mark.parametrize(
    "rope", [_q, _q_in_place, _q_in_place_and_its_gradient, _k, _k_batch_first, _q_packed]
)
def test_gradients_of_one_tensor_are_exact(rope: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(5, 2, 3, 10, dtype=torch.float64, requires_grad=True)
    assert gradcheck(rope, x)
    assert rope is _q_in_place_and_its_gradient or gradgradcheck(rope, x)


def test_gradients_of_the_split_layout_are_exact() -> None:
    kv = torch.randn(5, 2, 3, 9, dtype=torch.float64, requires_grad=True)
    k_pe = torch.randn(5, 2, 1, 6, dtype=torch.float64, requires_grad=True)

    def rope(kv: Tensor, k_pe: Tensor) -> tuple[Tensor, Tensor]:
        return mla_rope_kv(kv, k_pe, TABLES, nope_dim=4)

    assert gradcheck(rope, (kv, k_pe))
    assert gradgradcheck(rope, (kv, k_pe))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("rope", [_q, _q_in_place, _k])
def test_backward_is_the_transpose_of_forward(
    rope: Callable[[Tensor], Tensor], dtype: torch.dtype
) -> None:
    x = torch.randn(5, 2, 7, 10, dtype=dtype, requires_grad=True)
    y = torch.randn(5, 2, 7, 10, dtype=dtype)
    out = rope(x)
    (grad,) = torch.autograd.grad(out, x, y)
    # Up to what rounding leaves of a sum of 700 products.
    bound = 700 * torch.finfo(dtype).eps
    assert abs((out * y).sum().item() - (x * grad).sum().item()) < bound


def test_the_keys_gradient_is_summed_over_heads_before_it_is_rounded() -> None:
    # A running sum in bf16 that starts from 512 never moves when ones are added.
    grad = torch.ones(5, 2, 300, 10).to(torch.bfloat16)
    grad[:, :, 0] = 512
    k = torch.zeros_like(grad, requires_grad=True)
    (dk,) = torch.autograd.grad(_k(k), k, grad)
    summed = grad[..., 4:].double().sum(2, keepdim=True)
    left, right = summed.chunk(2, dim=-1)
    cos, sin = (table.double()[:, None, None, :3] for table in (TABLES.cos, TABLES.sin))
    want = torch.stack((left * cos + right * sin, right * cos - left * sin), -1).flatten(-2)
    torch.testing.assert_close(dk[:, :, :1, 4:].double(), want, rtol=2**-8, atol=1e-3)


def test_other_heads_rotary_columns_get_exactly_zero() -> None:
    k = torch.randn(5, 2, 3, 10, requires_grad=True)
    grad = torch.randn(5, 2, 3, 10)
    (dk,) = torch.autograd.grad(_k(k), k, grad)
    assert torch.equal(dk[:, :, 1:, 4:], torch.zeros(5, 2, 2, 6))
    assert torch.equal(dk[..., :4], grad[..., :4])
    kv = torch.randn(5, 2, 3, 9, requires_grad=True)
    k_pe = torch.randn(5, 2, 1, 6, requires_grad=True)
    k_out, _ = mla_rope_kv(kv, k_pe, TABLES, nope_dim=4)
    (dk_pe,) = torch.autograd.grad(k_out, k_pe, grad)
    assert torch.equal(dk_pe, dk[:, :, :1, 4:])


def test_inputs_and_incoming_gradients_stay_as_they_are() -> None:
    q, kv, k_pe = (torch.randn(5, 2, h, d) for h, d in ((3, 10), (3, 9), (1, 6)))
    grads = torch.randn(5, 2, 3, 10), torch.randn(5, 2, 3, 10), torch.randn(5, 2, 3, 5)
    before = [x.clone() for x in (q, kv, k_pe, *grads)]
    leaves = [x.requires_grad_() for x in (q, kv, k_pe)]
    for rope in (_q, _k, _q_in_place):
        torch.autograd.grad(rope(q), q, grads[0])
    k, v = mla_rope_kv(kv, k_pe, TABLES, nope_dim=4)
    torch.autograd.grad((k, v), (kv, k_pe), grads[1:])
    assert all(map(torch.equal, (*leaves, *grads), before))


@pytest.mark.parametrize("rope", [_q, _k, _q_in_place, _q_in_place_and_its_gradient])
def test_the_expanded_gradient_of_a_sum_is_accepted(rope: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(5, 2, 3, 10, requires_grad=True)
    (of_sum,) = torch.autograd.grad(rope(x).sum(), x)
    (of_ones,) = torch.autograd.grad(rope(x), x, torch.ones(5, 2, 3, 10))
    assert torch.equal(of_sum, of_ones)


def test_one_result_may_stay_unused() -> None:
    kv = torch.randn(5, 2, 3, 9, requires_grad=True)
    k_pe = torch.randn(5, 2, 1, 6, requires_grad=True)
    _, v = mla_rope_kv(kv, k_pe, TABLES, nope_dim=4)
    dkv, dk_pe = torch.autograd.grad(v.sum(), (kv, k_pe))
    assert torch.equal(dkv, torch.tensor([0.0] * 4 + [1.0] * 5).expand(5, 2, 3, 9))
    assert torch.equal(dk_pe, torch.zeros(5, 2, 1, 6))


@pytest.mark.parametrize("qkv_format", ["sbhd", "bshd"])
def test_in_place_returns_the_tensor_it_changed(qkv_format: str) -> None:
    q = torch.randn(5, 5, 3, 10)
    want = mla_rope_q(q, TABLES, rope_dim=6, qkv_format=qkv_format)
    version = q._version
    got = mla_rope_q(q, TABLES, rope_dim=6, qkv_format=qkv_format, inplace=True)
    assert got is q
    assert q._version > version
    assert torch.equal(q, want)


def test_in_place_changes_the_rotary_columns_of_a_view_alone() -> None:
    buffer = torch.randn(5, 2, 6, 20)
    before = buffer.clone()
    view = buffer[:, :, 1:4, 3:13]
    want = _q(view)
    mla_rope_q(view, TABLES, rope_dim=6, inplace=True)
    assert torch.equal(view, want)
    buffer[:, :, 1:4, 7:13] = before[:, :, 1:4, 7:13]
    assert torch.equal(buffer, before)


def test_autograd_tracks_a_change_in_place() -> None:
    x = torch.randn(5, 2, 3, 10, requires_grad=True)
    saved = x.exp()  # exp keeps its result for backward
    mla_rope_q(saved, TABLES, rope_dim=6, inplace=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(saved.sum(), x)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        mla_rope_q(x, TABLES, rope_dim=6, inplace=True)


def test_in_place_on_a_slice_of_a_projection_sends_the_gradient_through() -> None:
    x = torch.randn(5, 2, 60, requires_grad=True)
    grad = torch.randn(5, 2, 3, 10)

    def rotated(inplace: bool) -> Tensor:
        qkv = x * 2
        q = qkv[..., :30].view(5, 2, 3, 10)
        return mla_rope_q(q, TABLES, rope_dim=6, inplace=inplace)

    (want,), (got,) = (torch.autograd.grad(rotated(flag), x, grad) for flag in (False, True))
    assert torch.equal(got, want)


def test_the_incoming_gradient_is_overwritten_only_when_allowed() -> None:
    x = torch.randn(5, 2, 3, 10, requires_grad=True)
    for allowed in (False, True):
        grad = torch.randn(5, 2, 3, 10)
        before = grad.clone()
        out = mla_rope_q(x * 1, TABLES, rope_dim=6, inplace=True, inplace_grad=allowed)
        (dx,) = torch.autograd.grad(out, x, grad)
        assert torch.equal(grad, before) is not allowed
        (want,) = torch.autograd.grad(_q(x), x, before)
        assert torch.equal(dx, want)


def test_elements_that_share_memory_cannot_be_rotated_in_place() -> None:
    q = torch.randn(5, 2, 1, 10).expand(5, 2, 3, 10)
    with pytest.raises(ValueError, match=r"^q "):
        mla_rope_q(q, TABLES, rope_dim=6, inplace=True)


@pytest.mark.parametrize(
    ("axis", "step"), [(0, slice(None, None, 3)), (1, slice(None, None, 2)), (3, slice(0, 20, 2))]
)
def test_strided_views_do_not_overlap(axis: int, step: slice) -> None:
    """A view may end before its last stride does."""
    buffer = torch.randn(5, 5, 7, 20)
    index = [slice(None), slice(None), slice(1, None, 3), slice(0, 10)]
    index[axis] = step
    view = buffer[tuple(index)]
    want = mla_rope_q(view, TABLES, rope_dim=6)
    mla_rope_q(view, TABLES, rope_dim=6, inplace=True)
    assert torch.equal(view, want)


def test_windows_that_slide_over_each_other_overlap() -> None:
    windows = torch.randn(5, 2, 40).unfold(-1, 10, 9)
    with pytest.raises(ValueError, match=r"^q "):
        mla_rope_q(windows, TABLES, rope_dim=6, inplace=True)
    apart = torch.randn(5, 2, 40).unfold(-1, 10, 10)
    mla_rope_q(apart, TABLES, rope_dim=6, inplace=True)
