"""A case is drawn from its seed, tensor by tensor, with the shape's parameters."""

from __future__ import annotations

import pytest
import torch

from conf.choices import Projection, QkvFormat, RopeTable
from mxfp8_attention.case import make_case, weight_shapes
from tests.shapes import tiny


def test_equal_seeds_draw_equal_cases_and_others_do_not() -> None:
    first, again, other = (make_case(tiny(), "cpu", seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.x_SBC, again.x_SBC)
    assert torch.equal(first.weights["qkv_weight"], again.weights["qkv_weight"])
    assert not torch.equal(first.x_SBC, other.x_SBC)
    assert not torch.equal(first.weights["qkv_weight"], other.weights["qkv_weight"])


def test_the_shapes_own_seed_is_the_default() -> None:
    given = make_case(tiny(), "cpu", seed=42)
    assert torch.equal(make_case(tiny(seed=42), "cpu").x_SBC, given.x_SBC)


def test_a_bias_left_out_changes_no_other_tensor() -> None:
    with_bias, without = (make_case(tiny(bias=bias), "cpu") for bias in (True, False))
    assert set(with_bias.weights) - set(without.weights) == {"qkv_bias", "out_bias"}
    for name, weight in without.weights.items():
        assert torch.equal(weight, with_bias.weights[name])


def test_tensors_of_one_seed_are_independent() -> None:
    """Equal draws would correlate x with its gradient: errors would add up, not average."""
    case = make_case(tiny(projection=Projection.split), "cpu", seed=1)
    drawn = [case.x_SBC, case.dout_SBC, *case.weights.values()]
    flat = [(t.float().flatten() - t.float().mean())[:256] for t in drawn]
    for i, one in enumerate(flat):
        for other in flat[:i]:
            correlation = (one * other).sum() / (one.norm() * other.norm())
            assert correlation.abs() < 0.35  # five standard deviations


def test_weights_have_the_requested_deviation_and_gradients_are_random() -> None:
    case = make_case(tiny(init_std=0.05), "cpu")
    assert case.weights["qkv_weight"].float().std().item() == pytest.approx(0.05, rel=0.01)
    assert case.dout_SBC.float().std().item() == pytest.approx(1, rel=0.02)
    assert case.dout_SBC.dtype == case.x_SBC.dtype == torch.bfloat16


def test_the_fused_projection_of_dsv3_is_65536_wide_and_the_split_one_57408() -> None:
    heads = {"hidden": 16384, "num_heads": 128, "head_dim_nope": 128, "head_dim_rope": 64}
    fused = weight_shapes(tiny(**heads, head_dim_v=128))
    split = weight_shapes(tiny(**heads, head_dim_v=128, projection=Projection.split))
    assert fused["qkv_weight"] == (65536, 16384)
    assert (split["q_weight"][0], split["kv_weight"][0]) == (24576, 32832)
    assert split["q_norm_weight"] == split["kv_norm_bias"] == (16384,)


def test_yarn_changes_tables_and_softmax_scale() -> None:
    plain = make_case(tiny(head_dim_nope=128, head_dim_rope=64), "cpu")
    yarn = make_case(tiny(head_dim_nope=128, head_dim_rope=64, rope_table=RopeTable.yarn), "cpu")
    assert plain.softmax_scale == pytest.approx(192**-0.5)
    assert yarn.softmax_scale == pytest.approx(0.13523, rel=1e-4)
    assert not torch.equal(plain.tables.cos, yarn.tables.cos)


def test_an_unsupported_format_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^shape.qkv_format"):
        make_case(tiny(qkv_format=QkvFormat.thd), "cpu")
