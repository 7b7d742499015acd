"""An emulated linear layer: operands, block directions, output types, and the weight cache."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from conf.choices import Fp8Format as FormatChoice
from conf.choices import Weights
from conf.schema import (
    Bf16Recipe,
    Fp8BlockRecipe,
    Fp8CurrentRecipe,
    Fp8DelayedRecipe,
    MxFp8Recipe,
    Recipe,
)
from mxfp8_attention.emulation.linear import EmulatedLinear, linear_numerics
from mxfp8_attention.emulation.mxfp8 import Fp8Format, quantize_colwise, quantize_rowwise
from mxfp8_attention.emulation.rounding import Rounding
from tests.mxfp8_attention.emulation import plain_loops

RECIPES = (
    Bf16Recipe(),
    MxFp8Recipe(),
    MxFp8Recipe(format=FormatChoice.hybrid),
    Fp8CurrentRecipe(),
    Fp8DelayedRecipe(margin=1),
    Fp8BlockRecipe(),
)


def tensors(tokens: int = 64, inputs: int = 96, outputs: int = 128) -> tuple[Tensor, ...]:
    """Draw x [s, b, c], weight [o, c], bias [o], dy [s, b, o] in bf16."""
    generator = torch.Generator().manual_seed(3)
    sizes = ((tokens // 2, 2, inputs), (outputs, inputs), (outputs,), (tokens // 2, 2, outputs))
    return tuple(torch.randn(s, generator=generator).to(torch.bfloat16) for s in sizes)


def run(recipe: Recipe, weights: Weights = Weights.requantized) -> dict[str, Tensor]:
    """One forward and one backward pass."""
    x, weight, bias, dy = tensors()
    for leaf in (x, weight, bias):
        leaf.requires_grad_()
    layer = EmulatedLinear(weight, bias, linear_numerics(recipe), weights)
    y = layer(x)
    torch.autograd.backward(y, dy)
    assert x.grad is not None
    assert weight.grad is not None
    assert bias.grad is not None
    return {"y": y.detach(), "dx": x.grad, "dw": weight.grad, "db": bias.grad}


def test_mxfp8_agrees_with_plain_loops_over_blocks() -> None:
    x, weight, bias, dy = tensors()
    actual = run(MxFp8Recipe())
    y, dx, dw = plain_loops.linear(x.flatten(0, 1), weight, dy.flatten(0, 1))
    # One rounding to bf16 is all that may differ, and ties by one step.
    for value, expected in (
        (actual["y"].flatten(0, 1), y + bias.double()),
        (actual["dx"].flatten(0, 1), dx),
        (actual["dw"], dw),
    ):
        assert torch.allclose(value.double(), expected, rtol=2**-8, atol=1e-4)


def test_mxfp8_operands_have_their_blocks_along_the_axis_that_is_summed_over() -> None:
    """On Gaussian data any axis gives the same numbers: here columns differ by 10^8."""
    numerics = linear_numerics(MxFp8Recipe())
    x = torch.randn(64, 96, generator=torch.Generator().manual_seed(4)) * torch.logspace(-4, 4, 96)
    row, col = quantize_rowwise(x).dequantize(), quantize_colwise(x).dequantize()
    assert not torch.equal(row, col)
    for name in ("x_fprop", "w_fprop", "dy_dgrad"):
        assert torch.equal(getattr(numerics, name)(x), row), name
    for name in ("w_dgrad", "dy_wgrad", "x_wgrad"):
        assert torch.equal(getattr(numerics, name)(x), col), name


def test_hybrid_takes_e5m2_for_gradients_and_e4m3_for_the_rest() -> None:
    x, weight, _, dy = tensors()
    numerics = linear_numerics(MxFp8Recipe(format=FormatChoice.hybrid))
    dy_row, dy_col = (
        quantize_rowwise(dy[:, 0], Fp8Format.E5M2),
        quantize_colwise(dy[:, 0], Fp8Format.E5M2),
    )
    assert torch.equal(numerics.dy_dgrad(dy[:, 0]), dy_row.dequantize())
    assert torch.equal(numerics.dy_wgrad(dy[:, 0]), dy_col.dequantize())
    assert torch.equal(numerics.x_fprop(x[:, 0]), quantize_rowwise(x[:, 0]).dequantize())
    assert torch.equal(numerics.w_dgrad(weight), quantize_colwise(weight).dequantize())


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda r: f"{r.name.name}")
def test_results_are_bf16_and_near_the_exact_ones(recipe: Recipe) -> None:
    x, weight, bias, dy = (t.double() for t in tensors())
    exact = {
        "y": x @ weight.T + bias,
        "dx": dy @ weight,
        "dw": dy.flatten(0, 1).T @ x.flatten(0, 1),
        "db": dy.flatten(0, 1).sum(0),
    }
    # Two operands of 2.7 % each (E5M2: 5.3 %), or of bf16's 0.17 %.
    limits = {"y": 0.042, "dx": 0.065, "dw": 0.065, "db": 0.003}
    for name, value in run(recipe).items():
        error = float((value.double() - exact[name]).norm() / exact[name].norm())
        assert value.dtype == torch.bfloat16
        assert error < (0.003 if recipe.name.name == "bf16" else limits[name]), name
        if recipe.name.name != "bf16" and name != "db":
            assert error > 0.03, name


@pytest.mark.parametrize("recipe", RECIPES[1:], ids=lambda r: f"{r.name.name}")
def test_cached_weights_give_the_same_numbers(recipe: Recipe) -> None:
    anew, cached = run(recipe), run(recipe, Weights.cached)
    assert all(torch.equal(anew[name], cached[name]) for name in anew)


def test_a_cached_weight_is_rounded_once_in_each_direction() -> None:
    x, weight, bias, dy = tensors()
    counts: list[str] = []
    numerics = linear_numerics(MxFp8Recipe())

    def counting(name: str) -> Rounding:
        inner = getattr(numerics, name)

        def rounding(w: Tensor) -> Tensor:
            counts.append(name)
            rounded: Tensor = inner(w)
            return rounded

        return rounding

    counted = dataclasses.replace(
        numerics,
        w_fprop=counting("w_fprop"),
        w_dgrad=counting("w_dgrad"),
    )
    for weights, expected in ((Weights.requantized, 3), (Weights.cached, 1)):
        counts.clear()
        layer = EmulatedLinear(weight.requires_grad_(), bias, counted, weights)
        for _ in range(3):
            torch.autograd.backward(layer(x), dy)
        assert counts.count("w_fprop") == counts.count("w_dgrad") == expected


def test_no_bias_is_no_gradient() -> None:
    x, weight, _, dy = tensors()
    numerics = linear_numerics(MxFp8Recipe())
    layer = EmulatedLinear(weight.requires_grad_(), None, numerics, Weights.requantized)
    torch.autograd.backward(layer(x), dy)
    assert weight.grad is not None


def test_delayed_scaling_without_margin_is_current_scaling() -> None:
    delayed, current = run(Fp8DelayedRecipe()), run(Fp8CurrentRecipe())
    assert all(torch.equal(delayed[name], current[name]) for name in delayed)
