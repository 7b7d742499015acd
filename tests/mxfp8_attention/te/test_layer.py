"""The layer through Transformer Engine; tests of the library itself need a CUDA GPU (`-m te`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from conf.choices import AttnMask, Projection, RopeTable, Weights
from conf.schema import (
    Bf16Recipe,
    Fp8BlockRecipe,
    Fp8CurrentRecipe,
    Fp8DelayedRecipe,
    Recipe,
    Shape,
)
from mxfp8_attention.accuracy.errors import step_errors
from mxfp8_attention.case import Case, make_case
from mxfp8_attention.paths import build_path
from mxfp8_attention.reference import ReferencePath
from mxfp8_attention.te.layer import TransformerEnginePath, dequantized
from tests.mxfp8_attention.te.fake_transformer_engine import install


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
    """Stand-in for a quantized tensor of the library: a Tensor of another type."""

    def dequantize(self) -> torch.Tensor:
        return torch.full((2, 3), 7.0)


def plant_requantization(path: TransformerEnginePath, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every layer quantize its weight in every pass, whatever was cached."""
    for layer in path.layers.values():
        forward = layer.forward
        monkeypatch.setattr(
            layer, "forward", lambda x, is_first_microbatch, forward=forward: forward(x)
        )


def test_a_quantized_projection_is_dequantized_before_it_is_split() -> None:
    quantized = torch.zeros(2, 3).as_subclass(Quantized)
    plain = dequantized(quantized)
    assert type(plain) is torch.Tensor
    assert torch.equal(plain, torch.full((2, 3), 7.0))


def test_a_plain_projection_is_returned_as_it_is() -> None:
    plain = torch.zeros(2, 3)
    assert dequantized(plain) is plain


class TestOnAStandIn:
    """The path's own logic, over modules that quantize nothing."""

    @pytest.fixture(autouse=True)
    def _stand_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        install(monkeypatch)

    @pytest.fixture
    def case(self) -> Case:
        return make_case(small(seq_len=32, hidden=64, num_heads=1), "cpu")

    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize("projection", list(Projection))
    @pytest.mark.parametrize("attn_mask", list(AttnMask))
    def test_it_computes_what_the_reference_computes(
        self, projection: Projection, attn_mask: AttnMask, bias: bool
    ) -> None:
        shape = small(seq_len=64, hidden=64, num_heads=2, head_dim_nope=32, head_dim_rope=32)
        shape = replace(shape, projection=projection, attn_mask=attn_mask, bias=bias)
        # YaRN, whose softmax scale is not the one that a library would take by itself.
        shape = replace(shape, head_dim_v=32, init_std=0.125, rope_table=RopeTable.yarn)
        case = make_case(shape, "cpu")
        path = build_path("te", Bf16Recipe(), case)
        errors = step_errors(path.step(), ReferencePath(case).step(), shape)
        for name, error in errors.items():
            assert error.rel_l2 < 0.03, name

    def test_cached_weights_are_quantized_once(self, case: Case) -> None:
        path = TransformerEnginePath(Fp8CurrentRecipe(weights=Weights.cached), case)
        path.step()
        assert path.weight_cache_is_reused() is True
        for layer in path.layers.values():
            assert bool(layer.weight.any()), "the check must put the weights back"

    @pytest.mark.parametrize(
        "recipe",
        [
            Fp8CurrentRecipe(weights=Weights.cached),
            Fp8DelayedRecipe(weights=Weights.cached),
        ],
    )
    def test_cached_weights_are_those_of_the_step_that_is_validated(
        self, recipe: Recipe, case: Case
    ) -> None:
        """Delayed scaling quantizes its first step with a scale from before any weight."""
        path = TransformerEnginePath(recipe, case)
        layer = path.layers["out"]

        def step_with(value: float) -> float:
            with torch.no_grad():
                layer.weight.fill_(value)
            path.step()
            return float(layer.cache.mean())

        assert [step_with(float(n)) for n in range(path.settling_steps)] == list(
            range(path.settling_steps)
        )
        assert step_with(8.0) == 8.0
        assert step_with(9.0) == 8.0
        assert path.weight_cache_is_reused() is True

    def test_the_cache_check_detects_a_pass_that_requantizes(
        self, case: Case, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = TransformerEnginePath(Fp8CurrentRecipe(weights=Weights.cached), case)
        path.step()
        plant_requantization(path, monkeypatch)
        assert path.weight_cache_is_reused() is False

    def test_the_cache_check_does_not_apply_to_requantized_weights(self, case: Case) -> None:
        path = TransformerEnginePath(Fp8CurrentRecipe(), case)
        path.step()
        assert path.weight_cache_is_reused() is None

    @pytest.mark.parametrize("projection", list(Projection))
    def test_heads_are_cut_from_a_dequantized_projection(
        self, projection: Projection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        case = make_case(small(seq_len=32, hidden=64, num_heads=1, projection=projection), "cpu")
        path = TransformerEnginePath(Fp8CurrentRecipe(), case)
        for name, layer in path.layers.items():
            if name != "out":
                quantized = torch.zeros(2, 3).as_subclass(Quantized)
                monkeypatch.setattr(layer, "forward", lambda *_, q=quantized, **__: q)
        for projected in path.project(path.x_SBC):
            assert type(projected) is torch.Tensor
            assert torch.equal(projected, torch.full((2, 3), 7.0))

    def test_only_delayed_scaling_needs_steps_to_settle(self, case: Case) -> None:
        assert TransformerEnginePath(Fp8DelayedRecipe(), case).settling_steps > 0
        assert TransformerEnginePath(Fp8CurrentRecipe(), case).settling_steps == 0


@pytest.mark.te
@pytest.mark.gpu
class TestOnTransformerEngine:
    """On a CUDA GPU, with the real library."""

    @pytest.fixture(autouse=True)
    def _fresh_library(self) -> Iterator[None]:
        yield
        from transformer_engine.pytorch.quantization import FP8GlobalStateManager

        FP8GlobalStateManager.reset()

    @pytest.fixture
    def case(self) -> Case:
        return make_case(small(), "cuda")

    @pytest.mark.parametrize("projection", list(Projection))
    def test_bf16_agrees_with_fp32_to_bf16_rounding(self, projection: Projection) -> None:
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
    def test_fp8_errors_are_those_of_fp8(self, recipe: Recipe, case: Case) -> None:
        path = TransformerEnginePath(recipe, case)
        for _ in range(path.settling_steps):
            path.step()
        errors = step_errors(path.step(), ReferencePath(case).step(), case.shape)
        assert 0.01 < errors["q"].rel_l2 < 0.1
        assert 0.01 < errors["out"].rel_l2 < 0.2

    def test_two_arms_of_one_case_have_the_same_weights(self, case: Case) -> None:
        one = TransformerEnginePath(Bf16Recipe(), case).step()
        other = TransformerEnginePath(Bf16Recipe(), case).step()
        assert torch.equal(one["out"], other["out"])

    @pytest.mark.parametrize("recipe", [Fp8CurrentRecipe(), Fp8BlockRecipe(), Fp8DelayedRecipe()])
    def test_cached_weights_are_reused(self, recipe: Recipe, case: Case) -> None:
        path = TransformerEnginePath(recipe, case)
        path.step()
        assert path.weight_cache_is_reused() is None
        recipe.weights = Weights.cached  # type: ignore[attr-defined]  # each of the three has it
        cached = TransformerEnginePath(recipe, case)
        for _ in range(cached.settling_steps + 1):
            cached.step()
        assert cached.weight_cache_is_reused() is True

    def test_the_cache_check_detects_requantized_weights(
        self, case: Case, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = TransformerEnginePath(Fp8CurrentRecipe(weights=Weights.cached), case)
        path.step()
        plant_requantization(path, monkeypatch)
        assert path.weight_cache_is_reused() is False

    def test_a_projection_with_fp8_output_gives_plain_heads(self) -> None:
        import transformer_engine.pytorch as te
        from transformer_engine.pytorch.quantized_tensor import QuantizedTensor

        from mxfp8_attention.te.recipes import transformer_engine_recipe

        layer = te.Linear(256, 512, params_dtype=torch.bfloat16)
        x = torch.randn(128, 1, 256, device="cuda", dtype=torch.bfloat16)
        recipe = transformer_engine_recipe(Fp8DelayedRecipe())
        with te.autocast(enabled=True, recipe=recipe):
            quantized = layer(x, fp8_output=True)
        assert isinstance(quantized, QuantizedTensor)
        plain = dequantized(quantized)
        assert type(plain) is torch.Tensor
        assert plain.shape == (128, 1, 512)
        torch.autograd.backward([plain], [torch.ones_like(plain)])
        assert layer.weight.grad is not None
