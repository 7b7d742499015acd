"""The layer through Transformer Engine; what needs the library runs on a CUDA GPU (`-m te`)."""

from __future__ import annotations

import importlib.util

import pytest
import torch

from conf.choices import Projection, Weights
from conf.schema import (
    Bf16Recipe,
    Fp8BlockRecipe,
    Fp8CurrentRecipe,
    Fp8DelayedRecipe,
    Recipe,
    Shape,
)
from mxfp8_attention.errors import step_errors
from mxfp8_attention.model import make_case
from mxfp8_attention.reference import ReferencePath
from mxfp8_attention.te import dequantized

on_te = [
    pytest.mark.te,
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here"),
    pytest.mark.skipif(
        importlib.util.find_spec("transformer_engine") is None,
        reason="Transformer Engine is not installed here",
    ),
]


def small(**changed: object) -> Shape:
    fields: dict[str, object] = {
        "name": "small",
        "seq_len": 256,
        "hidden": 512,
        "num_heads": 4,
        "init_std": 512**-0.5,
    }
    return Shape(**(fields | changed))  # type: ignore[arg-type]  # Shape checks nothing itself


class Quantized(torch.Tensor):
    """Stands for a quantized tensor of the library: a Tensor of another type."""

    def dequantize(self) -> torch.Tensor:  # type: ignore[override]  # as the library does
        return torch.full((2, 3), 7.0)


def test_a_quantized_projection_is_dequantized_before_it_is_split() -> None:
    quantized = torch.zeros(2, 3).as_subclass(Quantized)
    plain = dequantized(quantized)
    assert type(plain) is torch.Tensor
    assert torch.equal(plain, torch.full((2, 3), 7.0))


def test_a_plain_projection_is_left_alone() -> None:
    plain = torch.zeros(2, 3)
    assert dequantized(plain) is plain


class TestOnTransformerEngine:
    """On a CUDA GPU, with the real library."""

    pytestmark = on_te

    @pytest.mark.parametrize("projection", list(Projection))
    def test_bf16_agrees_with_fp32_to_bf16_rounding(self, projection: Projection) -> None:
        from mxfp8_attention.te import TransformerEnginePath

        case = make_case(small(projection=projection), "cuda")
        arm = TransformerEnginePath(Bf16Recipe(), case).step()
        errors = step_errors(arm, ReferencePath(case).step(), case.shape)
        assert set(errors) == {"q", "k", "v", "attention", "out", "dx"} | {
            f"d{name}" for name in case.weights
        }
        for name, error in errors.items():
            assert error.nonfinite_count == 0, name
            assert error.rel_l2 < 0.02, name

    @pytest.mark.parametrize("recipe", [Fp8CurrentRecipe(), Fp8DelayedRecipe(), Fp8BlockRecipe()])
    def test_fp8_errors_are_those_of_fp8(self, recipe: Recipe) -> None:
        from mxfp8_attention.te import TransformerEnginePath

        case = make_case(small(), "cuda")
        path = TransformerEnginePath(recipe, case)
        for _ in range(path.settling_steps):
            path.step()
        errors = step_errors(path.step(), ReferencePath(case).step(), case.shape)
        assert 0.01 < errors["q"].rel_l2 < 0.1
        assert 0.01 < errors["out"].rel_l2 < 0.2

    def test_both_projections_give_the_same_from_copied_weights(self) -> None:
        from mxfp8_attention.te import TransformerEnginePath

        shape = small()
        case = make_case(shape, "cuda")
        one = TransformerEnginePath(Bf16Recipe(), case).step()
        other = TransformerEnginePath(Bf16Recipe(), case).step()
        assert torch.equal(one["out"], other["out"])

    @pytest.mark.parametrize("recipe", [Fp8CurrentRecipe(), Fp8BlockRecipe(), Fp8DelayedRecipe()])
    def test_cached_weights_are_reused_and_requantized_ones_are_not_asked(
        self, recipe: Recipe
    ) -> None:
        from mxfp8_attention.te import TransformerEnginePath

        case = make_case(small(), "cuda")
        path = TransformerEnginePath(recipe, case)
        path.step()
        assert path.weight_cache_is_reused() is None
        recipe.weights = Weights.cached  # type: ignore[attr-defined]  # each of the three has it
        cached = TransformerEnginePath(recipe, case)
        cached.step()
        assert cached.weight_cache_is_reused() is True

    def test_the_check_notices_weights_that_are_quantized_anew(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from mxfp8_attention.te import TransformerEnginePath

        case = make_case(small(), "cuda")
        path = TransformerEnginePath(Fp8CurrentRecipe(weights=Weights.cached), case)
        path.step()
        for layer in path.layers.values():
            forward = layer.forward
            monkeypatch.setattr(
                layer, "forward", lambda x, is_first_microbatch, forward=forward: forward(x)
            )
        assert path.weight_cache_is_reused() is False

    def test_a_projection_with_fp8_output_gives_plain_heads(self) -> None:
        import transformer_engine.pytorch as te
        from transformer_engine.pytorch.quantized_tensor import QuantizedTensor

        from mxfp8_attention.te_recipes import transformer_engine_recipe

        layer = te.Linear(256, 512, params_dtype=torch.bfloat16)
        x = torch.randn(128, 1, 256, device="cuda", dtype=torch.bfloat16)
        recipe = transformer_engine_recipe(Fp8DelayedRecipe())
        with te.autocast(enabled=True, recipe=recipe):
            quantized = layer(x, fp8_output=True)
        assert isinstance(quantized, QuantizedTensor)
        plain = dequantized(quantized)
        assert type(plain) is torch.Tensor
        assert plain.unflatten(-1, (4, -1)).shape == (128, 1, 4, 128)
        plain.sum().backward()
        assert layer.weight.grad is not None
