"""One flat row for every planned point: its columns, their types and their sources.

Units are in the names. A missing value is None, never zero. NaN and infinity become None, too;
`nonfinite_count` counts them.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

from jobs.collect.gate_use import nearest
from jobs.perf import is_emulated
from jobs.record import DIRECTIONS, THROTTLING, ArmBenchmark, Record, Speedup, Validation
from jobs.status.point_result import PointResult
from jobs.text import join_sentences

Value = str | int | float | bool | None

_SETTINGS: dict[str, tuple[str, type]] = {
    "job": ("job", str),
    "gpu": ("gpu.name", str),
    "shape": ("shape.name", str),
    "recipe": ("recipe.name", str),
    "backend": ("backend", str),
    "tolerance": ("tolerance.name", str),
    "benchmark": ("benchmark.name", str),
    "batch": ("shape.batch", int),
    "seq_len": ("shape.seq_len", int),
    "hidden": ("shape.hidden", int),
    "num_heads": ("shape.num_heads", int),
    "head_dim_nope": ("shape.head_dim_nope", int),
    "head_dim_rope": ("shape.head_dim_rope", int),
    "head_dim_v": ("shape.head_dim_v", int),
    "projection": ("shape.projection", str),
    "attn_mask": ("shape.attn_mask", str),
    "qkv_format": ("shape.qkv_format", str),
    "rope_kernel": ("shape.rope_kernel", str),
    "rope_table": ("shape.rope_table", str),
    "seed": ("shape.seed", int),
    "fp8_dpa": ("recipe.fp8_dpa", bool),
    "fp8_format": ("recipe.format", str),
    "weights": ("recipe.weights", str),
    "order": ("benchmark.order", str),
    "statistic": ("benchmark.statistic", str),
}
_ENVIRONMENT: dict[str, type] = {
    "host": str,
    "gpu_name": str,
    "gpu_uuid": str,
    "compute_capability": str,
    "driver": str,
    "cuda": str,
    "torch": str,
    "triton": str,
    "transformer_engine": str,
    "cudnn_torch": str,
    "cudnn_transformer_engine": str,
    "python": str,
    "platform": str,
    "commit": str,
    "dirty": bool,
    "dirty_hash": str,
    "image": str,
}
_TIMING = (
    "median_ms",
    "mean_ms",
    "low_ms",
    "high_ms",
    "tokens_per_s",
    "tflops",
    "share_of_peak",
    "share_of_roofline",
)
_TELEMETRY = ("sm_clock_mhz", "memory_clock_mhz", "power_watt", "temperature_celsius")
_ARMS = ("recipe", "bf16")

COLUMNS: dict[str, type] = (
    {
        "point_id": str,
        "sweep_id": str,
        "job_id": str,
        "raw_job_id": str,
        "attempt": int,
        "attempts": int,
        "restart_count": int,
        "state": str,
        "cause": str,
        "reason": str,
        "evidence": str,
        "evidence_file": str,
        "note": str,
        "asked_hash": str,
    }
    | {name: kind for name, (_, kind) in _SETTINGS.items()}
    | {
        f"{direction}_speedup{end}": kind
        for direction in DIRECTIONS
        for end, kind in (("", float), ("_low", float), ("_high", float), ("_claim", str))
    }
    | {
        f"{arm}_{direction}_{name}": float
        for arm in _ARMS
        for direction in DIRECTIONS
        for name in _TIMING
    }
    | {f"{arm}_peak_memory_gib": float for arm in _ARMS}
    | {"emulated": bool, "throttled_samples": int, "benchmark_notes": str}
    | {
        "validated": bool,
        "gate_use": float,
        "gate_use_tensor": str,
        "out_rel_l2": float,
        "dx_rel_l2": float,
        "bf16_out_rel_l2": float,
        "bf16_dx_rel_l2": float,
        "nonfinite_count": int,
        "failures": str,
    }
    | {f"attention_backend_{arm}": str for arm in _ARMS}
    | {"flags": str}
    | _ENVIRONMENT
    | {f"{name}_during": float for name in _TELEMETRY}
    | {
        "throttle_reasons": str,
        "clock_limits": str,
        "probe_copy_gb_per_s": float,
        "probe_bf16_matmul_tflops": float,
        "started_at": str,
        "finished_at": str,
        "duration_s": float,
        "command": str,
    }
)
"""Every column and its type, in the order of the files."""


def row(point: PointResult) -> dict[str, Value]:
    """Return the flat row of a point: a value, or None, for each of COLUMNS."""
    record = point.record
    first = next((quote for quote in point.evidence if quote.lines), None)
    values: dict[str, Any] = dict.fromkeys(COLUMNS) | {
        "point_id": point.point_id,
        "sweep_id": point.sweep_id,
        "job_id": point.job_id,
        "attempt": point.attempt,
        "attempts": point.attempts,
        "state": point.state.value,
        "cause": point.cause.value if point.cause else None,
        "reason": point.reason or None,
        "evidence": first.lines[-1] if first else None,
        "evidence_file": first.file if first else None,
        "note": point.note or None,
        "asked_hash": asked_hash(point.config),
        "command": point.command,
    }
    values |= {name: point.setting(key) for name, (key, _) in _SETTINGS.items()}
    if record is not None:
        values |= _of_record(record)
    return {name: _convert(values[name], kind) for name, kind in COLUMNS.items()}


def asked_hash(config: dict[str, Any]) -> str | None:
    """Return a short hash of the settings; None without a configuration."""
    if not config:
        return None
    text = json.dumps(config, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def arm_of(record: Record, name: str) -> ArmBenchmark | None:
    """Return the times of an arm, `recipe` or `bf16`."""
    arms = record.benchmark.arms if record.benchmark else []
    return next((arm for arm in arms if arm.arm == name), None)


def clock_reasons(record: Record) -> list[str]:
    """Return NVML's reasons for reduced clocks while a point was timed."""
    during = (sample for sample in record.telemetry if sample.when == "during")
    # A GPU is briefly idle between two launches, which limits nothing.
    return sorted({name for sample in during for name in sample.throttle_reasons} - {"gpu_idle"})


def _of_record(record: Record) -> dict[str, Any]:
    identity, environment, probe = record.identity, record.environment, record.probe
    during = [sample for sample in record.telemetry if sample.when == "during"]
    reasons = clock_reasons(record)
    values: dict[str, Any] = {
        "raw_job_id": identity.raw_job_id,
        "restart_count": identity.restart_count,
        "emulated": is_emulated(record),
        "flags": join_sentences(*record.capability.flags) or None,
        "throttle_reasons": "; ".join(name for name in reasons if name in THROTTLING) or None,
        "clock_limits": "; ".join(name for name in reasons if name not in THROTTLING) or None,
        "probe_copy_gb_per_s": probe.copy_gb_per_s if probe else None,
        "probe_bf16_matmul_tflops": probe.bf16_matmul_tflops if probe else None,
        "started_at": record.started_at,
        "finished_at": record.finished_at,
        "duration_s": record.duration_s,
    }
    values |= {name: getattr(environment, name) for name in _ENVIRONMENT}
    for arm in _ARMS:
        values[f"attention_backend_{arm}"] = record.capability.attention_backend.get(arm)
    for name in _TELEMETRY:
        values[f"{name}_during"] = median([getattr(sample, name) for sample in during])
    return values | _of_validation(record.validation) | _of_benchmark(record)


def _of_validation(validation: Validation | None) -> dict[str, Any]:
    if validation is None:
        return {}
    use = nearest(validation)
    against_fp32 = {
        (error.arm, error.tensor): error.rel_l2
        for error in validation.tensors
        if error.reference == "fp32"
    }
    return {
        "validated": validation.passed,
        "gate_use": use.use if use else None,
        "gate_use_tensor": use.name if use else None,
        "out_rel_l2": against_fp32.get(("recipe", "out")),
        "dx_rel_l2": against_fp32.get(("recipe", "dx")),
        "bf16_out_rel_l2": against_fp32.get(("bf16", "out")),
        "bf16_dx_rel_l2": against_fp32.get(("bf16", "dx")),
        "nonfinite_count": sum(error.nonfinite_count for error in validation.tensors),
        "failures": join_sentences(*validation.failures) or None,
    }


def _of_benchmark(record: Record) -> dict[str, Any]:
    benchmark = record.benchmark
    if benchmark is None:
        return {}
    values: dict[str, Any] = {}
    values |= _of_speedup("fprop", benchmark.fprop_speedup)
    values |= _of_speedup("bprop", benchmark.bprop_speedup)
    throttled = 0
    for name in _ARMS:
        arm = arm_of(record, name)
        if arm is None:
            continue
        values[f"{name}_peak_memory_gib"] = arm.peak_memory_gib
        for direction, timing in (("fprop", arm.fprop), ("bprop", arm.bprop)):
            throttled += sum(timing.throttled)
            values |= {f"{name}_{direction}_{key}": getattr(timing, key) for key in _TIMING}
    values["throttled_samples"] = throttled
    values["benchmark_notes"] = join_sentences(*benchmark.notes) or None
    return values


def _of_speedup(direction: str, speedup: Speedup | None) -> dict[str, Any]:
    if speedup is None:
        return {}
    prefix = f"{direction}_speedup"
    if speedup.claim == "emulated":  # a ratio in a table would look like a claim
        return {f"{prefix}_claim": speedup.claim}
    return {
        prefix: speedup.ratio,
        f"{prefix}_low": speedup.low,
        f"{prefix}_high": speedup.high,
        f"{prefix}_claim": speedup.claim,
    }


def median(values: list[float | None]) -> float | None:
    """Return the median of the finite numbers; None if there is none."""
    numbers = sorted(value for value in values if value is not None and math.isfinite(value))
    if not numbers:
        return None
    middle = len(numbers) // 2
    return numbers[middle] if len(numbers) % 2 else (numbers[middle - 1] + numbers[middle]) / 2


def _convert(value: Any, kind: type) -> Value:  # noqa: ANN401 - a damaged plan may hold anything
    """Return a value as its column's type; None if it has another one."""
    if value is None:
        return None
    if kind is str:
        return value if isinstance(value, str) else json.dumps(value, default=str)
    if kind is bool:
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if kind is int:
        return value if isinstance(value, int) and abs(value) < 2**63 else None
    return float(value) if math.isfinite(value) else None
