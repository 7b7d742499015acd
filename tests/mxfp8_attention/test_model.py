"""The layer's data and stages: drawn as promised, the same for every implementation."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from conf.choices import Projection, QkvFormat, RopeTable
from conf.schema import Bf16Recipe, Fp8CurrentRecipe, MxFp8Recipe
from mxfp8_attention.model import build_path, make_case, weight_shapes
from tests.mxfp8_attention.small_shapes import tiny


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


def test_weights_have_the_asked_standard_deviation_and_gradients_are_no_constant() -> None:
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


def test_a_layout_that_is_not_computed_is_refused_with_its_remedy() -> None:
    with pytest.raises(ValueError, match=r"qkv_format must be sbhd, got thd; set shape.qkv_f"):
        make_case(tiny(qkv_format=QkvFormat.thd), "cpu")


@pytest.mark.parametrize("projection", Projection)
@pytest.mark.parametrize("backend", ["reference", "emulated"])
def test_a_step_returns_every_promised_tensor(projection: Projection, backend: str) -> None:
    shape = tiny(projection=projection, batch=2)
    path = build_path(backend, MxFp8Recipe(), make_case(shape, "cpu"))
    tensors = path.step()
    forward = ["q", "k", "v", "attention", "out"]
    assert list(tensors) == [*forward, "dx", *(f"d{name}" for name in weight_shapes(shape))]
    assert tensors["q"].shape == tensors["k"].shape == (128, 2, 4, 96)
    assert tensors["v"].shape == (128, 2, 4, 64)
    assert tensors["attention"].shape == (128, 2, 256)
    assert tensors["out"].shape == tensors["dx"].shape == (128, 2, 256)
    for name, size in weight_shapes(shape).items():
        assert tensors[f"d{name}"].shape == size
    assert all(not tensor.requires_grad for tensor in tensors.values())


def test_a_step_can_be_repeated_and_leaves_no_gradient_behind() -> None:
    path = build_path("emulated", MxFp8Recipe(), make_case(tiny(), "cpu"))
    first, second = path.step(), path.step()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert all(leaf.grad is None for leaf in (path.x_SBC, *path.parameters().values()))


def test_paths_share_no_storage_with_the_case() -> None:
    case = make_case(tiny(), "cpu")
    for backend in ("reference", "emulated"):
        path = build_path(backend, Bf16Recipe(), case)
        with torch.no_grad():
            path.x_SBC.zero_()
            for leaf in path.parameters().values():
                leaf.zero_()
    assert case.x_SBC.any()
    assert all(weight.any() for weight in case.weights.values())


def test_what_no_arm_is_emulated_for_is_refused_and_so_is_an_unknown_backend() -> None:
    case = make_case(tiny(), "cpu")
    with pytest.raises(ValueError, match="mxfp8 or bf16 with backend=emulated, got fp8_current"):
        build_path("emulated", Fp8CurrentRecipe(), case)
    with pytest.raises(ValueError, match="one of reference, emulated, te, got jax"):
        build_path("jax", Bf16Recipe(), case)


def test_the_bias_is_added() -> None:
    case = make_case(tiny(), "cpu")
    without = dataclasses.replace(
        case, weights={name: w for name, w in case.weights.items() if name != "out_bias"}
    )
    for backend in ("reference", "emulated"):
        difference = (
            build_path(backend, Bf16Recipe(), case).fprop()
            - build_path(backend, Bf16Recipe(), without).fprop()
        )
        bias = case.weights["out_bias"].float().expand_as(difference)
        assert torch.allclose(difference.detach().float(), bias, atol=0.02)
