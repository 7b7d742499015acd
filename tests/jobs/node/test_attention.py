"""The attention job with Transformer Engine: no arm passes that ran something else than was asked.

Over a stand-in for the library, which quantizes nothing and answers as the release does.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conf.choices import Backend, Weights
from conf.schema import (
    Bf16Recipe,
    Fp8CurrentRecipe,
    Fp8DelayedRecipe,
    MxFp8Recipe,
    NoTolerance,
    Recipe,
    Shape,
)
from jobs.node.attention import run_attention
from jobs.node.draft import Draft
from jobs.node.outcome import End, RefusedError
from jobs.node.telemetry import Telemetry
from jobs.record import Identity, Outcome
from mxfp8_attention.capability.checks import Check, Refusal
from mxfp8_attention.paths import build_path
from tests.jobs.node.points import FEW, point, point_file
from tests.mxfp8_attention.te import fake_transformer_engine

# Heads as Hopper's FP8 attention takes them.
SHAPE = Shape(name="small", seq_len=128, hidden=64, num_heads=2, head_dim_nope=64, init_std=0.125)
F16 = (False, None, True, 1, True, [False, True, True])


def drafted(tmp_path: Path, recipe: Recipe) -> Draft:
    made = point(
        backend=Backend.te,
        recipe=recipe,
        shape=SHAPE,
        tolerance=NoTolerance(),
        benchmark=replace(FEW, enabled=False),
    )
    return Draft(Identity(point_id="p-1"), point_file(tmp_path, made))


def run(draft: Draft, tmp_path: Path) -> End:
    return run_attention(draft, tmp_path, build_path, Telemetry(None), lambda line: None)


@pytest.fixture(autouse=True)
def _on_hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_transformer_engine.install(monkeypatch, compute_capability=(9, 0))


def test_each_arm_passes_with_the_kernel_that_it_ran(tmp_path: Path) -> None:
    """The library keeps its choice: each arm must have it made anew."""
    draft = drafted(tmp_path, Fp8DelayedRecipe(fp8_dpa=True))
    assert run(draft, tmp_path).outcome is Outcome.PASSED
    assert draft.attention_backend == {
        "recipe": "fused attention, FP8 (sub-backend 2)",
        "bf16": "fused attention, F16 (sub-backend 1)",
    }


def test_fp8_attention_that_ran_as_bf16_is_a_failure_whatever_its_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with NVTE_DPA_FP8_RECIPE=F16: the library says FP8 when asked, and runs BF16."""
    monkeypatch.setattr(fake_transformer_engine, "get_attention_backend", lambda params: F16)
    ended = run(drafted(tmp_path, Fp8DelayedRecipe(fp8_dpa=True)), tmp_path)
    assert ended.outcome is Outcome.FAILED
    assert ended.reason == "requested FP8 attention, ran fused attention, F16 (sub-backend 1)"


@pytest.mark.parametrize("recipe", [Fp8CurrentRecipe(fp8_dpa=True), MxFp8Recipe()])
def test_no_kernel_is_a_refusal_before_anything_runs(tmp_path: Path, recipe: Recipe) -> None:
    draft = drafted(tmp_path, recipe)
    with pytest.raises(RefusedError) as refused:
        run(draft, tmp_path)
    assert refused.value.check.refusal is Refusal.unsupported
    assert "Disabling UnfusedDotProductAttention for FP8 attention" in refused.value.check.reason
    assert "on arch < sm100" in refused.value.check.reason
    assert draft.attention_backend == {}


def test_where_two_cudnns_disagree_that_is_the_reason(tmp_path: Path) -> None:
    draft = drafted(tmp_path, Fp8CurrentRecipe(fp8_dpa=True))
    draft.checks.append(Check("cuDNN", False, "two different ones"))
    with pytest.raises(RefusedError) as refused:
        run(draft, tmp_path)
    assert refused.value.check.refusal is Refusal.import_error
    assert refused.value.check.reason.endswith("cuDNN: two different ones")
    assert "CUDNN_HOME" in refused.value.check.remedy


def test_a_cache_of_weights_that_nothing_reused_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = drafted(tmp_path, Fp8CurrentRecipe(weights=Weights.cached))
    assert run(draft, tmp_path).outcome is Outcome.PASSED
    honest = fake_transformer_engine.Linear.forward

    def anew(self: Any, x: Any, is_first_microbatch: bool | None = None) -> Any:  # noqa: ANN401
        return honest(self, x, None)

    monkeypatch.setattr(fake_transformer_engine.Linear, "forward", anew)
    draft = drafted(tmp_path, Fp8CurrentRecipe(weights=Weights.cached))
    ended = run(draft, tmp_path)
    assert ended.outcome is Outcome.FAILED
    assert "recipe.weights=cached, but with its weights emptied" in ended.reason
    check = next(check for check in draft.checks if check.name == "weight cache is reused")
    assert check.ok is False


def test_bf16_against_itself_asks_for_no_cache(tmp_path: Path) -> None:
    draft = drafted(tmp_path, Bf16Recipe())
    assert run(draft, tmp_path).outcome is Outcome.PASSED
    assert "weight cache is reused" not in [check.name for check in draft.checks]
