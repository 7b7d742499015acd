"""The attention job with Transformer Engine: an arm that ran something else does not pass.

Uses a stand-in for the library, which quantizes nothing and answers as the release does.
"""

from __future__ import annotations

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
from jobs.node.record_draft import Ending, RecordDraft, RefusedError
from jobs.node.telemetry import Telemetry
from jobs.record import Identity, Outcome
from mxfp8_attention.capability.checks import Check, Refusal
from mxfp8_attention.paths import build_path
from tests.jobs.node.points import point, point_file
from tests.mxfp8_attention.te import fake_transformer_engine

# Head dims that Hopper's FP8 attention accepts.
SHAPE = Shape(name="small", seq_len=128, hidden=64, num_heads=2, head_dim_nope=64, init_std=0.125)
F16 = (False, None, True, 1, True, [False, True, True])


def draft_of(tmp_path: Path, recipe: Recipe) -> RecordDraft:
    given = point(backend=Backend.te, recipe=recipe, shape=SHAPE, tolerance=NoTolerance())
    return RecordDraft(Identity(point_id="p-1"), point_file(tmp_path, given))


def run(draft: RecordDraft, tmp_path: Path) -> Ending:
    return run_attention(draft, tmp_path, build_path, Telemetry(None))


@pytest.fixture(autouse=True)
def _on_hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_transformer_engine.install(monkeypatch, compute_capability=(9, 0))


def test_each_arm_passes_with_the_kernel_that_it_ran(tmp_path: Path) -> None:
    """The library caches its choice, which must be made anew for each arm."""
    draft = draft_of(tmp_path, Fp8DelayedRecipe(fp8_dpa=True))
    assert run(draft, tmp_path).outcome is Outcome.PASSED
    assert draft.attention_backend == {
        "recipe": "fused attention, FP8 (sub-backend 2)",
        "bf16": "fused attention, F16 (sub-backend 1)",
    }


def test_fp8_attention_that_ran_as_bf16_fails_whatever_its_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with NVTE_DPA_FP8_RECIPE=F16: the library reports FP8 when queried, and runs BF16."""
    monkeypatch.setattr(fake_transformer_engine, "get_attention_backend", lambda params: F16)
    draft = draft_of(tmp_path, Fp8DelayedRecipe(fp8_dpa=True))
    assert run(draft, tmp_path).outcome is Outcome.FAILED
    assert draft.attention_backend["recipe"] == "fused attention, F16 (sub-backend 1)"
    assert draft.validation is not None
    assert draft.validation.failures == [], "the kernel alone is the failure"


@pytest.mark.parametrize("recipe", [Fp8CurrentRecipe(fp8_dpa=True), MxFp8Recipe()])
def test_no_kernel_is_a_refusal_before_anything_runs(tmp_path: Path, recipe: Recipe) -> None:
    draft = draft_of(tmp_path, recipe)
    with pytest.raises(RefusedError) as refused:
        run(draft, tmp_path)
    check = refused.value.check
    assert check.refusal is Refusal.unsupported
    for library_reason in ("UnfusedDotProductAttention for FP8 attention", "on arch < sm100"):
        assert library_reason in check.reason
    assert draft.attention_backend == {}


def test_conflicting_cudnns_are_the_reason_for_having_no_kernel(tmp_path: Path) -> None:
    draft = draft_of(tmp_path, Fp8CurrentRecipe(fp8_dpa=True))
    draft.checks.append(Check("cuDNN", False, "two different ones"))
    with pytest.raises(RefusedError) as refused:
        run(draft, tmp_path)
    check = refused.value.check
    assert check.refusal is Refusal.import_error
    assert "two different ones" in check.reason
    assert "CUDNN_HOME" in check.remedy


def test_a_weight_cache_that_was_not_reused_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = draft_of(tmp_path, Fp8CurrentRecipe(weights=Weights.cached))
    assert run(draft, tmp_path).outcome is Outcome.PASSED
    honest_forward = fake_transformer_engine.Linear.forward

    def forward(self: Any, x: Any, is_first_microbatch: bool | None = None) -> Any:  # noqa: ANN401
        return honest_forward(self, x, None)

    monkeypatch.setattr(fake_transformer_engine.Linear, "forward", forward)
    draft = draft_of(tmp_path, Fp8CurrentRecipe(weights=Weights.cached))
    assert run(draft, tmp_path).outcome is Outcome.FAILED
    assert {check.name: check.ok for check in draft.checks}["weight cache is reused"] is False


def test_bf16_against_itself_needs_no_cache(tmp_path: Path) -> None:
    draft = draft_of(tmp_path, Bf16Recipe())
    assert run(draft, tmp_path).outcome is Outcome.PASSED
    assert "weight cache is reused" not in [check.name for check in draft.checks]
