"""Benchmarks with exact figures: those published for a GB300 with cuDNN 9.21.1."""

from __future__ import annotations

from typing import Any

from jobs.record import ArmBenchmark, BenchmarkResult, Speedup, StageTiming, Timing

TOKENS = 4096


def timing(median_ms: float, mean_ms: float | None = None, **fields: Any) -> Timing:  # noqa: ANN401
    """One sample of a time."""
    given = {
        "samples_ms": [median_ms],
        "median_ms": median_ms,
        "mean_ms": median_ms if mean_ms is None else mean_ms,
        "low_ms": median_ms,
        "high_ms": median_ms,
        "tokens_per_s": TOKENS / median_ms * 1e3,
    }
    return Timing.model_validate(given | fields)


def speedup(claim: str, ratio: float = 1.53) -> Speedup:
    """A ratio with an interval of 0.01 on both sides."""
    return Speedup(ratio=ratio, low=ratio - 0.01, high=ratio + 0.01, claim=claim)


def benchmark(claim: str = "speedup", recipe: str = "mxfp8", **fields: Any) -> BenchmarkResult:  # noqa: ANN401
    """Both arms, and all stages, 1.5 ms each; `fields` replaces fields of the result."""
    arms = [
        ArmBenchmark(
            arm=arm,
            precision=precision,
            emulated=claim == "emulated",
            fprop=timing(fprop_ms, mean_ms, share_of_peak=0.6, share_of_roofline=0.5, tflops=600),
            bprop=timing(bprop_ms),
            first_iteration_ms=900.0,
            peak_memory_gib=12.5,
        )
        for arm, precision, fprop_ms, mean_ms, bprop_ms in (
            ("recipe", recipe, 4.718, 4.9, 10.0),
            ("bf16", "bf16", 7.219, 7.5, 15.0),
        )
    ]
    stages = [
        StageTiming(arm=arm, stage=stage, direction=direction, median_ms=1.5)
        for arm in ("recipe", "bf16")
        for direction in ("fprop", "bprop")
        for stage in ("qkv", "rope", "attention", "out")
    ]
    result = BenchmarkResult(
        method="default",
        statistic="median",
        confidence=0.95,
        arms=arms,
        fprop_speedup=speedup(claim),
        bprop_speedup=speedup(claim),
        stages=stages,
    )
    return result.model_copy(update=fields)
