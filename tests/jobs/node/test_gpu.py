"""Whole attempts on a CUDA GPU with the real Transformer Engine (`python -m pytest -m te`)."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from conf.choices import Backend, Job, Projection
from conf.schema import (
    Bf16Recipe,
    Fp8BlockRecipe,
    Fp8CurrentRecipe,
    Fp8DelayedRecipe,
    Gpu,
    MxFp8Recipe,
    NoTolerance,
    Recipe,
    Shape,
)
from jobs.node.run import run_attempt
from jobs.record import Cause, Outcome, Record
from mxfp8_attention.flops import STAGES
from tests.jobs.node.points import FEW, H200, point, point_file

pytestmark = [
    pytest.mark.te,
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here"),
    pytest.mark.skipif(
        importlib.util.find_spec("transformer_engine") is None,
        reason="Transformer Engine is not installed here",
    ),
]
ANY = Gpu(name="any", any=True)
SMALL = Shape(name="small", seq_len=512, hidden=1024, num_heads=8, init_std=1024**-0.5)
TIMED = replace(FEW, blocks=5, stages=True)


@pytest.fixture(autouse=True)
def _fresh_library() -> Iterator[None]:
    yield
    from transformer_engine.pytorch.quantization import FP8GlobalStateManager

    FP8GlobalStateManager.reset()


def on_hopper() -> bool:
    return torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)


def run(tmp_path: Path, **fields: Any) -> Record:  # noqa: ANN401 - the fields of Point
    attempt = tmp_path / "attempt-1"
    attempt.mkdir()
    given = replace(
        point(gpu=ANY, shape=SMALL, backend=Backend.te, benchmark=TIMED, recipe=Bf16Recipe()),
        **fields,
    )
    return run_attempt(point_file(tmp_path, given), attempt)


@pytest.mark.parametrize("projection", list(Projection))
@pytest.mark.parametrize("recipe", [Bf16Recipe(), Fp8CurrentRecipe(), Fp8BlockRecipe()])
def test_a_point_passes_and_names_the_attention_that_ran(
    tmp_path: Path, recipe: Recipe, projection: Projection
) -> None:
    record = run(tmp_path, recipe=recipe, shape=replace(SMALL, projection=projection))
    assert record.outcome is Outcome.PASSED, record.reason
    assert record.capability.attention_backend == {
        "recipe": "fused attention, F16 (sub-backend 1)",
        "bf16": "fused attention, F16 (sub-backend 1)",
    }
    assert record.environment.cudnn_transformer_engine
    assert record.probe is not None
    assert record.probe.copy_gb_per_s is not None
    assert record.benchmark is not None
    for arm in record.benchmark.arms:
        assert arm.peak_memory_gib is not None
        assert arm.fprop.tflops is not None
    assert {stage.stage for stage in record.benchmark.stages} == set(STAGES)
    claim = "noise" if isinstance(recipe, Bf16Recipe) else "speedup"
    assert record.benchmark.fprop_speedup is not None
    assert record.benchmark.fprop_speedup.claim == claim


@pytest.mark.skipif(not on_hopper(), reason="this is what Hopper refuses")
def test_hopper_refuses_mxfp8_in_the_librarys_sentence(tmp_path: Path) -> None:
    record = run(tmp_path, recipe=MxFp8Recipe())
    assert record.outcome is Outcome.UNSUPPORTED
    assert record.reason == (
        "Device compute capability 10.0 or higher required for MXFP8 execution."
    )


@pytest.mark.skipif(not on_hopper(), reason="this is what Hopper refuses")
def test_hopper_refuses_attention_with_current_scaling_with_every_reason(tmp_path: Path) -> None:
    record = run(tmp_path, recipe=Fp8CurrentRecipe(fp8_dpa=True))
    assert record.outcome is Outcome.UNSUPPORTED
    assert "Disabling FusedAttention for FP8 current scaling on arch < sm100" in record.reason
    assert "Disabling UnfusedDotProductAttention for FP8 attention" in record.reason


@pytest.mark.skipif(not on_hopper(), reason="Hopper's one FP8 attention")
def test_fp8_attention_runs_on_hopper_at_128_wide_heads(tmp_path: Path) -> None:
    shape = replace(SMALL, head_dim_nope=64)
    record = run(tmp_path, recipe=Fp8DelayedRecipe(fp8_dpa=True), shape=shape)
    assert record.capability.attention_backend["recipe"] == "fused attention, FP8 (sub-backend 2)"
    assert record.outcome is Outcome.PASSED, record.reason


@pytest.mark.skipif(not on_hopper(), reason="on Blackwell the fused kernel takes it")
def test_attention_that_fell_back_from_fp8_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NVTE_UnfusedDPA_Emulate_FP8", "1")
    shape = replace(SMALL, head_dim_nope=64)
    record = run(
        tmp_path,
        recipe=Fp8CurrentRecipe(fp8_dpa=True),
        shape=shape,
        tolerance=NoTolerance(),
        benchmark=replace(FEW, enabled=False),
    )
    assert record.outcome is Outcome.FAILED
    assert record.reason == "requested FP8 attention, ran unfused attention"
    assert any("NVTE_UnfusedDPA_Emulate_FP8=1" in flag for flag in record.capability.flags)


def test_a_captured_graph_computes_the_same_and_is_noted(tmp_path: Path) -> None:
    record = run(tmp_path, recipe=Fp8CurrentRecipe(), benchmark=replace(TIMED, cuda_graph=True))
    assert record.outcome is Outcome.PASSED, record.reason
    assert record.benchmark is not None
    assert any("CUDA graphs" in note for note in record.benchmark.notes)


def test_the_emulation_runs_on_a_gpu_and_stays_an_emulation(tmp_path: Path) -> None:
    record = run(tmp_path, recipe=MxFp8Recipe(), backend=Backend.emulated)
    assert record.outcome is Outcome.PASSED, record.reason
    assert record.benchmark is not None
    assert record.benchmark.fprop_speedup is not None
    assert record.benchmark.fprop_speedup.claim == "emulated"


def test_another_gpu_than_the_one_named_is_an_error(tmp_path: Path) -> None:
    record = run(tmp_path, gpu=replace(H200, matches=["no such GPU"]))
    assert record.outcome is Outcome.ERROR
    assert record.cause is Cause.launch_failed
    assert "no such GPU" in record.reason


def test_too_large_a_shape_is_out_of_gpu_memory(tmp_path: Path) -> None:
    record = run(
        tmp_path,
        shape=replace(SMALL, seq_len=8192, batch=1024, hidden=16384, num_heads=128),
        tolerance=NoTolerance(),
    )
    assert record.outcome is Outcome.ERROR
    assert record.cause is Cause.out_of_memory_gpu


def test_a_probe_fingerprints_the_node(tmp_path: Path) -> None:
    record = run(tmp_path, job=Job.probe)
    assert record.outcome is Outcome.PASSED
    assert record.probe is not None
    assert record.probe.bf16_matmul_tflops is not None
    assert record.probe.bf16_matmul_tflops > 0
    assert record.telemetry
