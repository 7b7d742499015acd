"""The emulated layer: marked as such, in every recipe, equal on a CPU and on a GPU."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from conf.choices import AttnMask, Fp8Format, Projection, RopeTable, Weights
from conf.schema import (
    Bf16Recipe,
    Fp8BlockRecipe,
    Fp8CurrentRecipe,
    Fp8DelayedRecipe,
    MxFp8Recipe,
    Recipe,
    Shape,
)
from mxfp8_attention.case import Case, make_case
from mxfp8_attention.emulation.layer import EmulatedPath
from mxfp8_attention.reference import ReferencePath
from tests.mxfp8_attention.distance import distance
from tests.shapes import tiny

ALL_RECIPES = (
    Bf16Recipe(),
    MxFp8Recipe(),
    MxFp8Recipe(fp8_dpa=False),
    MxFp8Recipe(format=Fp8Format.hybrid),
    Fp8CurrentRecipe(),
    Fp8CurrentRecipe(fp8_dpa=True),
    Fp8DelayedRecipe(fp8_dpa=True),
    Fp8BlockRecipe(),
)
SHAPES = (
    tiny(),
    tiny(attn_mask=AttnMask.none, projection=Projection.split),
    tiny(batch=2, bias=False, rope_table=RopeTable.yarn),
)


@pytest.mark.parametrize("recipe", ALL_RECIPES, ids=str)
def test_an_emulated_path_is_marked_and_named(recipe: Recipe) -> None:
    path = EmulatedPath(recipe, make_case(tiny(), "cpu"))
    assert path.emulated
    assert path.name == path.precision == recipe.name.name


@pytest.mark.parametrize("shape", SHAPES, ids=["fused", "split", "yarn"])
@pytest.mark.parametrize("recipe", ALL_RECIPES, ids=str)
def test_every_tensor_is_near_the_fp32_path(recipe: Recipe, shape: Shape) -> None:
    case = make_case(shape, "cpu")
    actual, expected = EmulatedPath(recipe, case).step(), ReferencePath(case).step()
    worst = max(distance(actual[name], expected[name]) for name in expected)
    assert worst < (0.03 if recipe.name.name == "bf16" else 0.25)
    assert all(tensor.dtype == torch.bfloat16 for tensor in actual.values())


@pytest.mark.parametrize("recipe", [Bf16Recipe(), MxFp8Recipe()], ids=str)
def test_rotary_columns_that_no_head_reads_have_a_gradient_of_exactly_zero(
    recipe: Recipe,
) -> None:
    shape = tiny()
    tensors = EmulatedPath(recipe, make_case(shape, "cpu")).step()
    start = shape.num_heads * shape.head_dim_qk
    for name in ("dqkv_weight", "dqkv_bias"):
        dk = torch.unflatten(tensors[name][start : 2 * start], 0, (shape.num_heads, -1))
        assert not dk[1:, shape.head_dim_nope :].any()
        assert dk[0, shape.head_dim_nope :].all()


def test_cached_weights_change_no_number_and_are_kept_over_steps() -> None:
    case = make_case(tiny(), "cpu")
    anew, cached = (
        EmulatedPath(MxFp8Recipe(weights=weights), case)
        for weights in (Weights.requantized, Weights.cached)
    )
    for _ in range(2):
        one, other = anew.step(), cached.step()
        assert all(torch.equal(one[name], other[name]) for name in one)
    with torch.no_grad():
        cached.parameters()["qkv_weight"].zero_()
    assert torch.equal(cached.step()["q"], one["q"])


def on_gpu(case: Case) -> Case:
    """The same numbers on a GPU, which would draw others."""
    tables = dataclasses.replace(
        case.tables, cos=case.tables.cos.cuda(), sin=case.tables.sin.cuda()
    )
    return dataclasses.replace(
        case,
        x_SBC=case.x_SBC.cuda(),
        dout_SBC=case.dout_SBC.cuda(),
        weights={name: weight.cuda() for name, weight in case.weights.items()},
        tables=tables,
    )


@pytest.mark.gpu
@pytest.mark.parametrize("shape", SHAPES, ids=["fused", "split", "yarn"])
@pytest.mark.parametrize("recipe", ALL_RECIPES, ids=str)
def test_a_gpu_emulates_the_same_numbers(recipe: Recipe, shape: Shape) -> None:
    case = make_case(shape, "cpu")
    on_cpu, there = EmulatedPath(recipe, case).step(), EmulatedPath(recipe, on_gpu(case)).step()
    for name, expected in on_cpu.items():
        # Sums in another order flip the rounding of a few values.
        assert distance(there[name].cpu(), expected) < 0.02, name


@pytest.mark.gpu
@pytest.mark.parametrize("shape", SHAPES, ids=["fused", "split", "yarn"])
def test_the_fp32_path_is_fp32_on_a_gpu(shape: Shape) -> None:
    case = make_case(shape, "cpu")
    on_cpu, there = ReferencePath(case).step(), ReferencePath(on_gpu(case)).step()
    for name, expected in on_cpu.items():
        assert distance(there[name].cpu(), expected) < 2e-5, name
