"""The report block has what reviewers ask for, and never claims what was not measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from conf.choices import Backend, Job
from conf.plain import to_plain
from conf.schema import Fp8CurrentRecipe, MxFp8Recipe, Point
from jobs.node.report import report
from jobs.node.run import _said
from jobs.record import (
    ArmBenchmark,
    BenchmarkResult,
    Capability,
    Cause,
    Check,
    Environment,
    Identity,
    Outcome,
    Probe,
    Record,
    Speedup,
    TensorError,
    Timing,
    Validation,
)
from mxfp8_attention.capability.checks import Check as Answer
from tests.jobs.node.points import GB300, point
from tests.shapes import TINY

DSV3 = replace(TINY, name="dsv3", seq_len=4096, hidden=16384, num_heads=128)
ON_GB300 = point(gpu=GB300, shape=DSV3, recipe=MxFp8Recipe(), backend=Backend.te)


def timing(ms: float) -> Timing:
    return Timing(
        samples_ms=[ms],
        median_ms=ms,
        mean_ms=ms,
        low_ms=ms,
        high_ms=ms,
        tokens_per_s=4096 / (ms * 1e-3),
    )


def benchmark(claim: str, fprop: float | None = 1.53) -> BenchmarkResult:
    # The figures published for a GB300 with cuDNN 9.21.1.
    arms = [
        ArmBenchmark(arm="recipe", precision="mxfp8", fprop=timing(4.718), bprop=timing(9.215)),
        ArmBenchmark(arm="bf16", precision="bf16", fprop=timing(7.219), bprop=timing(15.179)),
    ]
    found = None if fprop is None else Speedup(ratio=fprop, low=1.52, high=1.54, claim=claim)
    return BenchmarkResult(
        method="default",
        statistic="median",
        confidence=0.95,
        arms=arms,
        fprop_speedup=found,
        bprop_speedup=found,
    )


def record(made: Point = ON_GB300, **changed: Any) -> Record:  # noqa: ANN401 - Record's fields
    return Record(
        identity=Identity(point_id="p-1", job_id="14_2"),
        config=to_plain(made),
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
    ).model_copy(update=changed)


def test_the_block_names_job_gpu_capability_cudnn_mxfp8_command_and_result() -> None:
    text = report(record(benchmark=benchmark("speedup")))
    for line in (
        "Job:             14_2  point p-1",
        "GPU:             NVIDIA GB300  driver 580.1",
        "CUDA capability: 10.3",
        "cuDNN:           PyTorch loads 9.21.1",
        "MXFP8 available: (True, '')",
        "Attention ran:   recipe: fused attention, FP8 (sub-backend 2)",
        "Command:         python launch.py shape=dsv3",
        "Result: PASSED",
    ):
        assert line in text
    assert text.index("Command:") < text.index("[PERF]") < text.index("Result:")


def test_a_refused_point_says_why_and_what_to_do() -> None:
    conflict = Check(name="cuDNN", ok=False, reason="two of them", remedy="set CUDNN_HOME")
    refused = record(
        replace(ON_GB300, recipe=Fp8CurrentRecipe()),
        capability=Capability(checks=[conflict], flags=["NVTE_FUSED_ATTN=0: turns it off"]),
        outcome=Outcome.ERROR,
        cause=Cause.import_error,
        reason="cuDNN: two of them",
    )
    text = report(refused)
    assert "Result: ERROR (import_error): cuDNN: two of them" in text
    assert "remedy: set CUDNN_HOME" in text
    assert "flag NVTE_FUSED_ATTN=0: turns it off" in text
    assert "[PERF]" not in text


def test_bf16s_own_error_stands_beside_the_recipes_and_a_missed_gate_is_named() -> None:
    def error(arm: str, rel_l2: float, passed: bool) -> TensorError:
        return TensorError(
            tensor="out",
            reference="fp32",
            arm=arm,
            rel_l2=rel_l2,
            max_abs=1,
            rmse=1,
            cosine=1,
            nonfinite_count=0,
            gate=f"rel_l2 of {arm} <= 0.1",
            passed=passed,
        )

    judged = Validation(
        tolerance="calibrated",
        prediction="stored",
        tensors=[error("recipe", 0.2, False), error("bf16", 0.004, True)],
        passed=False,
        failures=["out: rel_l2 must be at most 0.1, got 0.2"],
    )
    text = report(record(validation=judged))
    assert "tolerance calibrated, prediction stored: FAILED" in text
    (line,) = [line for line in text.splitlines() if line.startswith("  out ")]
    assert "2.000e-01" in line
    assert "4.000e-03" in line
    assert "FAILED rel_l2 of recipe <= 0.1" in line
    assert "failed: out: rel_l2 must be at most 0.1, got 0.2" in text


def test_a_probe_shows_its_fingerprint() -> None:
    probe = Probe(
        copy_gb_per_s=4250, bf16_matmul_tflops=790, ecc_enabled=True, ecc_errors=0,
        power_limit_watt=700, max_sm_clock_mhz=1980,
    )  # fmt: skip
    text = report(record(replace(ON_GB300, job=Job.probe), probe=probe))
    assert "copy 4250 GB/s" in text
    assert "BF16 matrix product 790 TFLOP/s" in text
    assert "power limit 700 W" in text
    assert "ECC on, 0 errors" in text


def test_a_check_is_told_in_words() -> None:
    assert _said(Answer(name="GPU", ok=None, reason="gpu=cpu asks for none")) == (
        "GPU: not asked, gpu=cpu asks for none"
    )
    assert _said(Answer(name="cuDNN", ok=True, reason="")) == "cuDNN: yes"
    assert _said(Answer(name="MXFP8 available", ok=False, reason="no")) == (
        "MXFP8 available: (False, 'no')"
    )
