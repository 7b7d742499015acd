"""Every way in which a point can end becomes one honest record."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch
from torch import Tensor

from conf.choices import Backend, Job, Profiler
from conf.schema import (
    Bf16Recipe,
    CalibratedTolerance,
    Fp8BlockRecipe,
    Fp8CurrentRecipe,
    Fp8DelayedRecipe,
    NoTolerance,
    Recipe,
    SeedTolerance,
)
from jobs.node.run import run_attempt
from jobs.perf import EMULATED_NOTE
from jobs.record import DIRECTIONS, Cause, Outcome, Record, json_schema, read_record
from mxfp8_attention.accuracy.gates import NO_REFERENCE
from mxfp8_attention.accuracy.prediction import PREDICTED_HERE
from mxfp8_attention.emulation import linear as emulation_linear
from mxfp8_attention.flops import STAGES
from tests.jobs.node.points import (
    FEW,
    H200,
    planting,
    point,
    point_file,
    raising,
    with_nan,
    zeroed,
)
from tests.mxfp8_attention.mutants import plant_no_quantizer, plant_zeroed_dx
from tests.shapes import TINY


def run(tmp_path: Path, *, build: Any = None, **fields: Any) -> Record:  # noqa: ANN401
    attempt = tmp_path / "attempt-1"
    attempt.mkdir()
    options = {} if build is None else {"build": build}
    returned = run_attempt(
        point_file(tmp_path, point(**fields), command="python launch.py"), attempt, **options
    )
    written = read_record(attempt / "record.json")
    assert written == returned or written.model_dump_json() == returned.model_dump_json()
    jsonschema.validate(
        json.loads((attempt / "record.json").read_text()), json.loads(json_schema())
    )
    return written


def missed_gates(record: Record, arm: str = "recipe") -> set[str]:
    """Return the tensors of an arm that missed their gate against FP32."""
    assert record.validation is not None
    assert record.validation.passed is False
    wanted = (arm, "fp32", False)
    tensors = record.validation.tensors
    return {t.tensor for t in tensors if (t.arm, t.reference, t.passed) == wanted}


def test_an_honest_point_passes_and_claims_no_speedup(tmp_path: Path) -> None:
    record = run(tmp_path, benchmark=FEW)
    assert record.outcome is Outcome.PASSED
    assert record.cause is None
    assert EMULATED_NOTE in record.reason
    assert record.validation is not None
    assert record.validation.passed is True
    assert record.validation.prediction == "stored"
    assert record.benchmark is not None
    assert [arm.arm for arm in record.benchmark.arms] == ["recipe", "bf16"]
    assert record.benchmark.fprop_speedup is not None
    assert record.benchmark.fprop_speedup.claim == "emulated"


def test_each_tensor_is_compared_with_fp32_and_with_bf16(tmp_path: Path) -> None:
    record = run(tmp_path)
    assert record.validation is not None
    tensors = {"q", "k", "v", "attention", "out", "dx", "dqkv_weight", "dout_weight"}
    tensors |= {"dqkv_bias", "dout_bias"}
    for arm, reference in (("recipe", "fp32"), ("recipe", "bf16"), ("bf16", "fp32")):
        rows = [t for t in record.validation.tensors if (t.arm, t.reference) == (arm, reference)]
        assert {row.tensor for row in rows} == tensors


@pytest.mark.parametrize("name", ["q", "v", "attention", "out", "dx", "dqkv_weight"])
def test_a_zeroed_tensor_fails(tmp_path: Path, name: str) -> None:
    record = run(tmp_path, build=planting(zeroed(name)))
    assert record.outcome is Outcome.FAILED
    assert name in missed_gates(record)


@pytest.mark.parametrize(
    "tolerance", [CalibratedTolerance(), SeedTolerance(), NoTolerance()], ids=lambda t: t.name.name
)
def test_one_nan_in_a_gradient_fails_under_every_tolerance(
    tmp_path: Path, tolerance: CalibratedTolerance
) -> None:
    record = run(tmp_path, build=planting(with_nan("dx")), tolerance=tolerance)
    assert record.outcome is Outcome.FAILED
    assert record.validation is not None
    assert record.validation.failures
    assert {t.nonfinite_count for t in record.validation.tensors if t.tensor == "dx"} >= {1}


def test_a_missed_tolerance_fails(tmp_path: Path) -> None:
    record = run(tmp_path, tolerance=SeedTolerance(atol=1e-6, rtol=0.0))
    assert record.outcome is Outcome.FAILED
    assert record.validation is not None
    assert any((t.outside_share or 0) > 0 for t in record.validation.tensors)


def test_steps_in_which_scales_settle_are_not_validated(tmp_path: Path) -> None:
    steps: list[str] = []

    def unsettled(tensors: dict[str, Tensor]) -> None:
        steps.append("out")
        if len(steps) <= 2:
            tensors["out"].zero_()

    def build(backend: str, recipe: Recipe, case: Any) -> Any:  # noqa: ANN401 - Case, Path
        path = planting(unsettled)(backend, recipe, case)
        path.settling_steps = 2  # type: ignore[attr-defined]  # as Transformer Engine's path has
        return path

    assert run(tmp_path, build=build).outcome is Outcome.PASSED
    assert len(steps) == 3


def test_an_arm_that_never_quantized_fails(tmp_path: Path) -> None:
    def build(backend: str, recipe: Recipe, case: Any) -> Any:  # noqa: ANN401 - Case, Path
        from mxfp8_attention.paths import build_path

        return build_path(backend, Bf16Recipe(), case)

    record = run(tmp_path, build=build)
    assert record.outcome is Outcome.FAILED
    assert record.validation is not None
    missed = [t for t in record.validation.tensors if t.passed is False and t.reference == "fp32"]
    assert all(t.rel_l2 < (t.gate_low or 0) for t in missed), "too close to FP32"
    assert missed


def test_the_bf16_arm_is_validated_too(tmp_path: Path) -> None:
    def scale(tensors: dict[str, Tensor]) -> None:
        tensors["out"].mul_(1.1)

    record = run(tmp_path, build=planting(scale, "bf16"))
    assert record.outcome is Outcome.FAILED
    assert "out" in missed_gates(record, "bf16")


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (RuntimeError("something else"), Cause.exception),
        (OSError("libcudnn.so.9: cannot open shared object file"), Cause.import_error),
        (OSError(28, "No space left on device"), Cause.storage),
        (ImportError("libcudnn.so.9: cannot open shared object file"), Cause.import_error),
        (OSError("libcudnn_heuristic.so.9: undefined symbol: x"), Cause.import_error),
        (torch.OutOfMemoryError("CUDA out of memory. Tried 2 GiB"), Cause.out_of_memory_gpu),
        (RuntimeError("CUDA error: out of memory"), Cause.out_of_memory_gpu),
        (MemoryError("no more"), Cause.out_of_memory_host),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: 9 bytes"),
            Cause.out_of_memory_host,
        ),
    ],
)
def test_an_exception_becomes_an_error_with_its_cause(
    tmp_path: Path, error: Exception, cause: Cause
) -> None:
    record = run(tmp_path, build=raising(error))
    assert record.outcome is Outcome.ERROR
    assert record.cause is cause
    assert str(error) in record.reason
    assert any(str(error) in line for line in record.evidence[0].lines)
    assert record.environment.host, "known before the exception"


def test_no_attention_kernel_is_unsupported_and_not_an_error(tmp_path: Path) -> None:
    text = "No dot product attention backend is available for the provided inputs."
    record = run(tmp_path, build=raising(ValueError(text)))
    assert record.outcome is Outcome.UNSUPPORTED
    assert text in record.reason


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        *(
            ({"recipe": recipe}, recipe.name.name)
            for recipe in (Fp8CurrentRecipe(), Fp8DelayedRecipe(), Fp8BlockRecipe())
        ),
        ({"backend": Backend.te}, "backend=te"),
        pytest.param(
            {"backend": Backend.te, "gpu": H200}, "CUDA",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here"),
        ),
        ({"shape": replace(TINY, seq_len=96)}, "seq_len"),
    ],
)  # fmt: skip
def test_what_cannot_run_here_is_unsupported(
    tmp_path: Path, fields: dict[str, Any], named: str
) -> None:
    record = run(tmp_path, **fields)
    assert record.outcome is Outcome.UNSUPPORTED
    assert named in record.reason
    assert record.validation is None


def test_no_speed_gate_applies_to_bf16_against_itself(tmp_path: Path) -> None:
    record = run(tmp_path, recipe=Bf16Recipe(), benchmark=replace(FEW, min_fprop_speedup=100.0))
    assert record.outcome is Outcome.PASSED
    assert record.benchmark is not None
    assert record.benchmark.fprop_speedup is not None
    assert record.benchmark.fprop_speedup.claim == "emulated"
    assert any("recipe=bf16" in note for note in record.benchmark.notes)


def test_a_probe_on_a_cpu_describes_the_node_and_measures_nothing(tmp_path: Path) -> None:
    record = run(tmp_path, job=Job.probe)
    assert record.outcome is Outcome.PASSED
    assert record.probe is None
    assert record.environment.torch == torch.__version__
    assert "MXFP8 available" in [check.name for check in record.capability.checks]


def test_a_cpu_ignores_what_needs_a_gpu_and_notes_it(tmp_path: Path) -> None:
    record = run(tmp_path, benchmark=replace(FEW, cuda_graph=True, profile=Profiler.ncu))
    assert record.outcome is Outcome.PASSED
    assert record.benchmark is not None
    assert any("benchmark.cuda_graph" in note for note in record.benchmark.notes)
    checks = {check.name: check.ok for check in record.capability.checks}
    assert checks["profile ncu"] is False


def test_variables_that_change_the_meaning_of_a_run_are_recorded_and_flagged(
    tmp_path: Path,
) -> None:
    variables = {"NVTE_FP8_DPA_BWD": "0", "NVTE_FUSED_ATTN": "1", "HOME": "/home/me"}
    record = run_attempt(point_file(tmp_path, point(job=Job.probe)), tmp_path, variables=variables)
    (flag,) = [flag for flag in record.capability.flags if flag.startswith("NVTE_")]
    assert flag.startswith("NVTE_FP8_DPA_BWD=0: ")
    assert record.environment.variables == {"NVTE_FP8_DPA_BWD": "0", "NVTE_FUSED_ATTN": "1"}


@pytest.mark.parametrize("job", list(Job))
def test_each_job_takes_a_fingerprint_and_a_probe_a_long_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: Job
) -> None:
    taken: list[bool] = []
    monkeypatch.setattr("jobs.node.run.fingerprint", lambda *_, long: taken.append(long))
    run(tmp_path, job=job)
    assert taken == [job is Job.probe]


def test_stages_are_timed_in_both_directions(tmp_path: Path) -> None:
    record = run(tmp_path, benchmark=replace(FEW, stages=True))
    assert record.benchmark is not None
    timed = {(s.arm, s.stage, s.direction) for s in record.benchmark.stages}
    assert timed == {
        (arm, stage, direction)
        for arm in ("recipe", "bf16")
        for stage in STAGES
        for direction in DIRECTIONS
    }
    # An emulated arm claims no rate.
    assert all(s.tflops is None and s.share_of_roofline is None for s in record.benchmark.stages)


@pytest.mark.parametrize("plant", [plant_zeroed_dx, plant_no_quantizer])
def test_a_fault_that_the_prediction_shares_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    """Nothing is stored for this shape, so that the faulty emulation predicts itself."""
    plant(monkeypatch)
    record = run(tmp_path, shape=replace(TINY, seq_len=256))
    assert record.outcome is Outcome.FAILED
    assert record.validation is not None
    assert record.validation.passed is False
    assert record.validation.prediction == PREDICTED_HERE
    assert "implausible" in record.reason


def test_an_honest_point_without_a_stored_prediction_passes(tmp_path: Path) -> None:
    record = run(tmp_path, shape=replace(TINY, seq_len=256))
    assert record.outcome is Outcome.PASSED
    assert record.validation is not None
    assert record.validation.prediction == PREDICTED_HERE


def test_one_nan_fails_if_the_prediction_is_made_on_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the emulation itself makes the NaN, so that it is predicted."""
    honest = emulation_linear._Linear.backward

    def faulty(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        dx, dw, dbias, none = honest(ctx, dy)
        assert dw is not None
        dw[0, 0] = torch.nan
        return dx, dw, dbias, none

    monkeypatch.setattr(emulation_linear._Linear, "backward", staticmethod(faulty))
    assert run(tmp_path, shape=replace(TINY, seq_len=256)).outcome is Outcome.FAILED


def test_one_token_has_no_query_gradient_to_gate(tmp_path: Path) -> None:
    """Softmax of one score is constant: dq and dk are zero in FP32."""
    record = run(tmp_path, shape=replace(TINY, seq_len=1), recipe=Bf16Recipe())
    assert record.outcome is Outcome.PASSED
    assert record.validation is not None
    ungated = [t for t in record.validation.tensors if t.gate == NO_REFERENCE]
    assert {t.tensor for t in ungated} == {"dq", "dk"}
    assert {t.passed for t in ungated} == {None}
