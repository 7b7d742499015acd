"""Errors of a tensor as a whole and by head, for any values."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from conf.choices import Projection
from mxfp8_attention.accuracy import errors
from mxfp8_attention.accuracy.errors import head_views, step_errors, tensor_errors
from mxfp8_attention.accuracy.stages import staged_step
from mxfp8_attention.case import make_case
from mxfp8_attention.reference import ReferencePath
from tests.shapes import tiny

SHAPE = tiny()


def pair(*size: int) -> tuple[Tensor, Tensor]:
    """A reference and something near it."""
    generator = torch.Generator().manual_seed(5)
    reference = torch.randn(size, generator=generator)
    return reference + 0.1 * torch.randn(size, generator=generator), reference


def test_each_error_follows_its_definition() -> None:
    actual, reference = pair(128, 1, 256)
    result = tensor_errors("out", actual, reference, SHAPE, atol=0.1, rtol=0.05)
    difference = (actual - reference).double()
    assert result.rel_l2 == pytest.approx(float(difference.norm() / reference.double().norm()))
    assert result.max_abs == pytest.approx(float(difference.abs().max()))
    assert result.rmse == pytest.approx(float(difference.square().mean().sqrt()))
    cosine = torch.nn.functional.cosine_similarity(
        actual.double().flatten(), reference.double().flatten(), dim=0
    )
    assert result.cosine == pytest.approx(float(cosine))
    outside = difference.abs() > 0.1 + 0.05 * reference.double().abs()
    assert result.outside_share == pytest.approx(float(outside.double().mean()))
    assert result.nonfinite_count == 0
    assert result.worst_head is result.worst_head_rel_l2 is None


def test_the_worst_head_is_found_and_measured_by_itself() -> None:
    reference = pair(128, 2, 4, 96)[1]
    actual = reference.clone()
    actual[:, :, 2] *= 1.25
    result = tensor_errors("q", actual, reference, SHAPE)
    assert result.worst_head == 2
    assert result.worst_head_rel_l2 == pytest.approx(0.25)
    assert result.rel_l2 == pytest.approx(0.25 / 2, rel=0.05)


@pytest.mark.parametrize("projection", Projection)
def test_head_views_hold_every_element_once_and_know_their_heads(projection: Projection) -> None:
    shape = tiny(projection=projection, batch=2)
    tensors = staged_step(ReferencePath(make_case(shape, "cpu")))
    without_heads = {"out", "dx", "dout_bias", "x"} | {n for n in tensors if "norm" in n}
    for name, tensor in tensors.items():
        numbered = torch.arange(tensor.numel()).view(tensor.shape)
        by_head, shared = head_views(name, numbered, shape)
        held = torch.cat([part.flatten() for part in (*by_head, *shared)])
        assert torch.equal(held.sort().values, numbered.flatten()), name
        assert all(len(view) == shape.num_heads for view in by_head), name
        assert bool(by_head) == (name not in without_heads), name


def test_head_views_have_the_heads_of_the_layer() -> None:
    """A head whose value weights are zero has no gradient anywhere but in its own value."""
    shape = tiny(bias=False)
    case = make_case(shape, "cpu")
    rows = slice(2 * 4 * 96 + 64, 2 * 4 * 96 + 128)
    case.weights["qkv_weight"][rows] = 0
    tensors = staged_step(ReferencePath(case))
    for name in ("v", "attention", "dq", "dout_weight"):
        (view,), _ = head_views(name, tensors[name], shape)
        assert [head for head in range(4) if not view[head].any()] == [1], name
    (q, _, v), _ = head_views("dqkv_weight", tensors["dqkv_weight"], shape)
    assert [head for head in range(4) if not q[head].any()] == [1]
    assert v[1].any()


def test_the_shared_rotary_key_counts_as_one_head_more() -> None:
    shape = tiny(projection=Projection.split)
    reference = pair(4 * 128 + 32, 256)[1]
    actual = reference.clone()
    actual[-32:] = 0
    result = tensor_errors("dkv_weight", actual, reference, shape)
    assert (result.worst_head, result.worst_head_rel_l2) == (4, 1)


def test_pieces_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    actual, reference = pair(1024, 256)
    whole = tensor_errors("dqkv_weight", actual, reference, SHAPE, atol=0.1, rtol=0)
    monkeypatch.setattr(errors, "_PIECE_ELEMENTS", 1000)
    piecewise = tensor_errors("dqkv_weight", actual, reference, SHAPE, atol=0.1, rtol=0)
    assert piecewise.rel_l2 == pytest.approx(whole.rel_l2, rel=1e-6)
    assert piecewise.cosine == pytest.approx(whole.cosine, rel=1e-6)
    assert piecewise.worst_head_rel_l2 == pytest.approx(whole.worst_head_rel_l2, rel=1e-6)
    assert (piecewise.max_abs, piecewise.outside_share) == (whole.max_abs, whole.outside_share)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, -1])
def test_one_nonfinite_value_shows_in_every_error(value: float, place: int) -> None:
    actual, reference = pair(128, 1, 4, 64)
    actual[place, 0, 3, place] = value
    result = tensor_errors("v", actual, reference, SHAPE, atol=0.5, rtol=0.05)
    assert result.nonfinite_count == 1
    assert result.worst_head == 3
    assert not math.isfinite(result.rel_l2)
    assert not math.isfinite(result.max_abs)
    assert result.outside_share == pytest.approx(1 / actual.numel(), abs=0.01)
    assert result.outside_share is not None
    assert result.outside_share > 0


def test_two_zeros_have_no_error_and_a_zero_reference_an_infinite_one() -> None:
    zeros, ones = torch.zeros(128, 1, 256), torch.ones(128, 1, 256)
    same = tensor_errors("out", zeros, zeros, SHAPE)
    assert (same.rel_l2, same.cosine) == (0, 1)
    lost = tensor_errors("out", zeros, ones, SHAPE)
    assert (lost.rel_l2, lost.cosine) == (1, 0)
    added = tensor_errors("out", ones, zeros, SHAPE)
    assert (added.rel_l2, added.cosine) == (math.inf, 0)


def test_bf16_is_compared_in_fp32() -> None:
    actual = torch.full((128, 1, 256), 1.0, dtype=torch.bfloat16)
    result = tensor_errors("out", actual, torch.full((128, 1, 256), 1.001), SHAPE)
    assert result.rel_l2 == pytest.approx(0.001 / 1.001, rel=1e-3)


def test_tensors_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^out "):
        tensor_errors("out", torch.zeros(3, 2), torch.zeros(2, 3), SHAPE)
    with pytest.raises(ValueError, match="dx"):
        step_errors({"out": torch.zeros(1)}, {"out": torch.zeros(1), "dx": torch.zeros(1)}, SHAPE)


@pytest.mark.parametrize("scale", [1e-42, 1e-30, 1e30])
def test_an_error_does_not_depend_on_the_tensors_scale(scale: float) -> None:
    """Squared in FP32, these would vanish or overflow."""
    ones = torch.ones(4, 1, 64) * scale
    result = tensor_errors("out", ones * 2, ones, tiny())
    assert result.rel_l2 == pytest.approx(1.0, rel=1e-3)
    assert result.cosine == pytest.approx(1.0)
