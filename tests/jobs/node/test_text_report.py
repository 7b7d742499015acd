"""The report block has what reviewers need, and claims only what was measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from conf.choices import Backend, Job
from conf.plain import to_plain
from conf.schema import Fp8CurrentRecipe, MxFp8Recipe, Point
from jobs.node.text_report import check_line, text_report
from jobs.record import (
    Capability,
    Cause,
    Check,
    Environment,
    Identity,
    Outcome,
    Probe,
    Record,
    TensorError,
    Validation,
)
from tests.builders.benchmarks import benchmark
from tests.jobs.node.points import GB300, point
from tests.shapes import DSV3

ON_GB300 = point(gpu=GB300, shape=DSV3, recipe=MxFp8Recipe(), backend=Backend.te)


def record(given: Point = ON_GB300, **fields: Any) -> Record:  # noqa: ANN401 - Record's fields
    return Record(
        identity=Identity(point_id="p-1", job_id="14_2"),
        config=to_plain(given),
        environment=Environment(
            host="node7", gpu_name="NVIDIA GB300", compute_capability="10.3", driver="580.1"
        ),
        capability=Capability(
            checks=[
                Check(name="cuDNN", ok=True, reason="PyTorch loads 9.21.1"),
                Check(name="MXFP8 available", ok=True),
            ],
            attention_backend={"recipe": "fused attention, FP8 (sub-backend 2)"},
        ),
        outcome=Outcome.PASSED,
        command="python launch.py shape=dsv3",
    ).model_copy(update=fields)


def test_the_block_names_job_gpu_capability_cudnn_mxfp8_command_and_result() -> None:
    text = text_report(record(benchmark=benchmark()))
    for line in (
        "Job:             14_2  point p-1",
        "GPU:             NVIDIA GB300  driver 580.1",
        "CUDA capability: 10.3",
        "cuDNN:           PyTorch loads 9.21.1",
        "MXFP8 available: (True, '')",
        "Attention ran:   recipe: fused attention, FP8 (sub-backend 2)",
        "Command:         python launch.py shape=dsv3",
        "attention 1.500  out 1.500  sum 6.000  whole 4.718",
        "Result: PASSED",
    ):
        assert line in text
    assert text.index("Command:") < text.index("[PERF]") < text.index("Result:")


def test_a_refused_point_has_a_reason_and_a_remedy() -> None:
    conflict = Check(name="cuDNN", ok=False, reason="two of them", remedy="set CUDNN_HOME")
    refused = record(
        replace(ON_GB300, recipe=Fp8CurrentRecipe()),
        capability=Capability(checks=[conflict], flags=["NVTE_FUSED_ATTN=0: turns it off"]),
        outcome=Outcome.ERROR,
        cause=Cause.import_error,
        reason="cuDNN: two of them",
    )
    text = text_report(refused)
    assert "Result: ERROR (import_error): cuDNN: two of them" in text
    assert "remedy: set CUDNN_HOME" in text
    assert "flag NVTE_FUSED_ATTN=0: turns it off" in text
    assert "[PERF]" not in text


def test_errors_of_both_arms_are_side_by_side_and_a_missed_gate_is_named() -> None:
    def error(arm: str, rel_l2: float, passed: bool) -> TensorError:
        figures = dict.fromkeys(("max_abs", "rmse", "cosine", "nonfinite_count"), 1)
        return TensorError.model_validate(
            {"tensor": "out", "reference": "fp32", "arm": arm, "rel_l2": rel_l2, **figures}
            | {"gate": f"rel_l2 of {arm} <= 0.1", "passed": passed}
        )

    validation = Validation(
        tolerance="calibrated",
        prediction="stored",
        tensors=[error("recipe", 0.2, False), error("bf16", 0.004, True)],
        passed=False,
        failures=["out: rel_l2 must be at most 0.1, got 0.2"],
    )
    text = text_report(record(validation=validation))
    assert "tolerance calibrated, prediction stored: FAILED" in text
    (line,) = [line for line in text.splitlines() if line.startswith("  out ")]
    for cell in ("2.000e-01", "4.000e-03", "FAILED rel_l2 of recipe <= 0.1"):
        assert cell in line
    assert f"failed: {validation.failures[0]}" in text


def test_a_probe_shows_its_fingerprint() -> None:
    probe = Probe(
        copy_gb_per_s=4250, bf16_matmul_tflops=790, ecc_enabled=True, ecc_errors=0,
        power_limit_watt=700, max_sm_clock_mhz=1980,
    )  # fmt: skip
    text = text_report(record(replace(ON_GB300, job=Job.probe), probe=probe))
    for figure in ("4250 GB/s", "790 TFLOP/s", "power limit 700 W", "ECC on, 0 errors"):
        assert figure in text


@pytest.mark.parametrize(
    ("check", "line"),
    [
        (Check(name="GPU", ok=None, reason="gpu=cpu"), "GPU: not checked, gpu=cpu"),
        (Check(name="cuDNN", ok=True), "cuDNN: yes"),
        (Check(name="MXFP8 available", ok=False, reason="no"), "MXFP8 available: (False, 'no')"),
    ],
)
def test_a_check_is_one_line(check: Check, line: str) -> None:
    assert check_line(check) == line
