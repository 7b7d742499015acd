"""Configurations and records as nodes leave them, made up, with plausible figures."""

from __future__ import annotations

import math
import random
from typing import Any

from conf.choices import Backend, RecipeName
from conf.plain import to_plain
from conf.schema import (
    RECIPES,
    Benchmark,
    CalibratedTolerance,
    Gpu,
    Point,
    Shape,
)
from jobs.record import (
    ArmBenchmark,
    BenchmarkResult,
    Capability,
    Cause,
    Check,
    Environment,
    Evidence,
    Identity,
    Outcome,
    Probe,
    Record,
    Speedup,
    StageTiming,
    TelemetrySample,
    TensorError,
    Timing,
    Validation,
)

GPUS = {
    "gb300": Gpu(
        "gb300",
        matches=["GB300"],
        compute_capability="10.3",
        peak_bf16_tflops=2500,
        peak_fp8_tflops=5000,
        peak_mxfp8_tflops=5000,
        bandwidth_tb_per_s=8.0,
        memory_gib=279,
        request="gpu:gb300:1",
    ),
    "h200": Gpu(
        "h200",
        matches=["H200"],
        compute_capability="9.0",
        peak_bf16_tflops=989,
        peak_fp8_tflops=1979,
        bandwidth_tb_per_s=4.8,
        memory_gib=141,
        request="gpu:h200:1",
    ),
    "cpu": Gpu("cpu", device="cpu", backend=Backend.emulated),
}
SHAPES = {
    "dsv3": Shape("dsv3", seq_len=4096, hidden=16384, num_heads=128),
    "kimi_k2": Shape("kimi_k2", seq_len=4096, hidden=7168, num_heads=64),
    "tiny": Shape("tiny", seq_len=128, hidden=256, num_heads=4, head_dim_nope=64, head_dim_v=64),
}
_SPEED = {"bf16": 1.0, "mxfp8": 1.55, "fp8_current": 1.31, "fp8_delayed": 1.33, "fp8_block": 1.24}
_ERROR = {"bf16": 0.004, "mxfp8": 0.2, "fp8_current": 0.07, "fp8_delayed": 0.08, "fp8_block": 0.05}
_TENSORS = (("q", 0.19), ("k", 0.19), ("v", 0.19), ("attention", 0.95), ("out", 1.0), ("dx", 1.8))
_WEIGHTS = (("dqkv_weight", 1.8), ("dout_weight", 1.0))


def point_config(
    recipe: str = "mxfp8", gpu: str = "gb300", shape: str = "dsv3", **changes: object
) -> dict[str, Any]:
    """A point's configuration as the plan holds it; `changes` by dotted key, `.` as `__`."""
    plain: dict[str, Any] = to_plain(
        Point(
            gpu=GPUS[gpu],
            shape=SHAPES[shape],
            recipe=RECIPES[RecipeName[recipe]](),
            backend=GPUS[gpu].backend,
            tolerance=CalibratedTolerance(),
            benchmark=Benchmark("default"),
        )
    )
    for key, value in changes.items():
        part = plain
        *folders, last = key.split("__")
        for name in folders:
            part = part[name]
        part[last] = value
    return plain


def environment(gpu: str = "gb300", **changes: object) -> Environment:
    """A node's environment."""
    is_cpu = gpu == "cpu"
    about: dict[str, Any] = {
        "host": "n1",
        "platform": "linux-aarch64",
        "python": "3.12.3",
        "cpu": "Neoverse-V2",
        "gpu_name": None if is_cpu else f"NVIDIA {gpu.upper()}",
        "gpu_uuid": None if is_cpu else "GPU-5f1c",
        "gpu_count": 0 if is_cpu else 4,
        "gpu_memory_gib": GPUS[gpu].memory_gib,
        "compute_capability": GPUS[gpu].compute_capability,
        "driver": None if is_cpu else "580.82.07",
        "cuda": None if is_cpu else "13.0",
        "torch": "2.11.0",
        "triton": "3.6.0",
        "transformer_engine": None if is_cpu else "2.20.2",
        "cudnn_torch": None if is_cpu else "9.21.1",
        "cudnn_transformer_engine": None if is_cpu else "9.21.1",
        "commit": "8153ff3c0ffee",
        "dirty": False,
        "variables": {"NVTE_DEBUG": "0", "SLURM_JOB_ID": "14"},
    }
    return Environment(**about | changes)


def timing(
    middle_ms: float, config: dict[str, Any], rng: random.Random, *, noise: float = 0.004
) -> Timing:
    """Samples around a time, as many as the configuration asks for."""
    benchmark = config["benchmark"]
    count = benchmark["blocks"] * benchmark["iterations_per_block"]
    samples = [middle_ms * math.exp(rng.gauss(0, noise)) for _ in range(count)]
    ordered = sorted(samples)
    median_ms = ordered[len(ordered) // 2]
    tokens = config["shape"]["batch"] * config["shape"]["seq_len"]
    seconds = median_ms / 1000
    return Timing(
        samples_ms=samples,
        throttled=[False] * count,
        median_ms=median_ms,
        mean_ms=sum(samples) / count,
        low_ms=median_ms * (1 - noise / 3),
        high_ms=median_ms * (1 + noise / 3),
        tokens_per_s=tokens / seconds,
        tflops=18000 * tokens / 4096 / median_ms * 0.6,
        share_of_peak=0.57,
        share_of_roofline=0.64,
    )


def benchmark(config: dict[str, Any], seed: int = 0, scale: float = 1.0) -> BenchmarkResult:
    """Both arms; time grows with the length, the recipe's arm is faster by its usual factor."""
    rng = random.Random(seed)
    seq_len, recipe = config["shape"]["seq_len"], config["recipe"]["name"]
    heads = config["shape"]["num_heads"] / 128
    bf16_ms = heads * (6.1 * seq_len / 4096 + 1.12 * (seq_len / 4096) ** 2)
    emulated = config["backend"] == "emulated"
    arms = []
    for arm, precision, factor in (
        ("recipe", recipe, scale / _SPEED[recipe]),
        ("bf16", "bf16", 1.0),
    ):
        arms.append(
            ArmBenchmark(
                arm=arm,
                precision=precision,
                emulated=emulated,
                fprop=timing(bf16_ms * factor, config, rng),
                bprop=timing(2.1 * bf16_ms * factor, config, rng),
                first_iteration_ms=bf16_ms * 40,
                peak_memory_gib=6.5 * seq_len / 4096,
            )
        )
    claim = "emulated" if emulated else "noise" if recipe == "bf16" else "speedup"
    recipe_arm, bf16_arm = arms
    ratios = [
        bf16_arm.fprop.median_ms / recipe_arm.fprop.median_ms,
        bf16_arm.bprop.median_ms / recipe_arm.bprop.median_ms,
    ]
    stages = [
        StageTiming(
            arm=arm.arm,
            stage=stage,
            direction=direction,
            median_ms=getattr(arm, direction).median_ms * share,
            tflops=900.0,
            share_of_roofline=roofline,
        )
        for arm in arms
        for direction in ("fprop", "bprop")
        for stage, share, roofline in (
            ("qkv", 0.52, 0.71),
            ("rope", 0.04, 0.83),
            ("attention", 0.27, 0.66),
            ("out", 0.15, 0.69),
        )
    ]
    return BenchmarkResult(
        method="interleaved A-B-B-A, CUDA events, L2 flushed",
        statistic="median",
        confidence=0.95,
        arms=arms,
        fprop_speedup=Speedup(
            ratio=ratios[0], low=ratios[0] * 0.995, high=ratios[0] * 1.005, claim=claim
        ),
        bprop_speedup=Speedup(
            ratio=ratios[1], low=ratios[1] * 0.994, high=ratios[1] * 1.006, claim=claim
        ),
        stages=stages,
        warmup_iterations=24,
    )


def with_notes(left: Record, *notes: str) -> Record:
    """A timed record whose benchmark says something about its own times."""
    assert left.benchmark is not None
    noted = left.benchmark.model_copy(update={"notes": list(notes)})
    return left.model_copy(update={"benchmark": noted})


def untimed(left: Record) -> Record:
    """A record of `benchmark=off`: judged, and not timed."""
    return left.model_copy(update={"benchmark": None})


def validation(config: dict[str, Any], *, broken: str | None = None) -> Validation:
    """Accuracy against both references; `broken` names a tensor that misses its gate."""
    recipe = config["recipe"]["name"]
    tensors = []
    for tensor, factor in (*_TENSORS, *_WEIGHTS):
        for arm, reference in (("recipe", "fp32"), ("recipe", "bf16"), ("bf16", "fp32")):
            predicted = (_ERROR[recipe] if arm == "recipe" else 0.004) * factor
            missed = tensor == broken and arm == "recipe"
            measured = predicted * (1.9 if missed else 1 + 0.05 * factor)
            gated = reference == "fp32"
            has_heads = tensor in ("q", "k", "v")
            tensors.append(
                TensorError(
                    tensor=tensor,
                    reference=reference,
                    arm=arm,
                    rel_l2=measured,
                    worst_head_rel_l2=measured * 1.2 if has_heads else None,
                    worst_head=17 if has_heads else None,
                    max_abs=measured * 4,
                    rmse=measured * 0.1,
                    cosine=1 - measured**2 / 2,
                    nonfinite_count=0,
                    outside_share=0.0,
                    gate="0.8 to 1.25 times the predicted error" if gated else None,
                    gate_low=predicted * 0.8 if gated and arm == "recipe" else None,
                    gate_high=predicted * 1.25 if gated else None,
                    predicted_rel_l2=predicted if gated else None,
                    passed=not missed if gated else None,
                )
            )
    failures = [f"{broken}: rel_l2 must be at most its gate"] if broken else []
    return Validation(
        tolerance="calibrated",
        prediction="stored",
        tensors=tensors,
        passed=broken is None,
        failures=failures,
    )


def record(
    point_id: str,
    config: dict[str, Any],
    outcome: Outcome = Outcome.PASSED,
    *,
    job_id: str = "14",
    cause: Cause | None = None,
    reason: str = "",
    lines: list[str] | None = None,
    scale: float = 1.0,
    seed: int = 0,
    attempt: int = 1,
    **about: Any,  # noqa: ANN401 - fields of the environment
) -> Record:
    """What an attempt left; `about` changes the environment."""
    done = outcome in (Outcome.PASSED, Outcome.FAILED)
    unsupported = outcome is Outcome.UNSUPPORTED
    gpu = config["gpu"]["name"]
    sample = {"sm_clock_mhz": 1920.0, "memory_clock_mhz": 3996.0, "power_limit_watt": 1400.0}
    return Record(
        identity=Identity(
            point_id=point_id, sweep_id="s", job_id=job_id, raw_job_id="16", attempt=attempt
        ),
        config=config,
        environment=environment(gpu, **about),
        capability=Capability(
            checks=[
                Check(
                    name="MXFP8 available",
                    ok=not unsupported,
                    reason="Device compute capability 10.0 or higher required for MXFP8 execution."
                    if unsupported
                    else "",
                )
            ],
            attention_backend={"recipe": "fused FP8", "bf16": "fused F16"} if done else {},
        ),
        validation=validation(config, broken="dx" if outcome is Outcome.FAILED else None)
        if done
        else None,
        benchmark=benchmark(config, seed, scale) if done else None,
        probe=Probe(copy_gb_per_s=7100.0, bf16_matmul_tflops=1900.0) if done else None,
        telemetry=[
            TelemetrySample(
                when=when,
                power_watt=watt,
                temperature_celsius=celsius,
                **sample,
                throttle_reasons=[],
            )
            for when, watt, celsius in (
                ("before", 210, 34),
                ("during", 1180, 58),
                ("after", 400, 51),
            )
        ]
        if done
        else [],
        outcome=outcome,
        cause=cause,
        reason=reason,
        evidence=[Evidence(lines=lines, file="output.log", offset=120)] if lines else [],
        started_at="2025-11-03T08:00:00.000+00:00",
        finished_at="2025-11-03T08:01:12.500+00:00",
        duration_s=72.5,
        command="python launch.py sweep grid=seq_len gpu=gb300",
    )
