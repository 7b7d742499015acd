"""A path runs the layer's stages on a case, the same for every implementation."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from conf.choices import Projection
from conf.schema import Bf16Recipe, Fp8CurrentRecipe, MxFp8Recipe
from mxfp8_attention.case import make_case, weight_shapes
from mxfp8_attention.paths import build_path
from tests.shapes import tiny


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


def test_recipes_without_emulation_and_unknown_backends_are_refused() -> None:
    case = make_case(tiny(), "cpu")
    with pytest.raises(ValueError, match=r"^recipe"):
        build_path("emulated", Fp8CurrentRecipe(), case)
    with pytest.raises(ValueError, match=r"^backend"):
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
