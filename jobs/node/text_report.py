"""The plain-text report of a record for reviews: environment, checks, accuracy, speed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conf.choices import Backend, Job
from conf.plain import from_plain
from conf.schema import Point
from jobs.perf import EMULATED_NOTE, perf_lines
from jobs.record import (
    DIRECTIONS,
    BenchmarkResult,
    Check,
    Probe,
    Record,
    Validation,
    state_text,
)
from jobs.text import pluralize

if TYPE_CHECKING:
    from mxfp8_attention.capability.checks import Check as NodeCheck

_MXFP8 = "MXFP8 available"
_ARM_COLUMNS = (
    ("recipe", "fp32", 13),
    ("bf16", "fp32", 12),
    ("recipe", "bf16", 13),
    ("recipe", "stage", 14),
)


def text_report(record: Record) -> str:
    """Return the report of a record, finished or refused, ending with a newline."""
    point = from_plain(Point, record.config)
    lines = ["=" * 72, *_head(record, point), *_checks(record)]
    if record.validation is not None:
        lines += _validation(record.validation)
    if record.benchmark is not None:
        lines += perf_lines(record)
        lines += [f"  note: {note}" for note in record.benchmark.notes]
        lines += _stages(record.benchmark)
    if record.probe is not None:
        lines.append(_fingerprint(record.probe))
    lines += ["-" * 72, f"Result: {result_line(record)}", "=" * 72]
    return "\n".join(lines) + "\n"


def result_line(record: Record) -> str:
    """Return outcome, cause and reason in one line."""
    reason = f": {record.reason}" if record.reason else ""
    return state_text(record.outcome, record.cause) + reason


def check_line(check: Check | NodeCheck) -> str:
    """Return a check in one line; that of MXFP8 in Transformer Engine's own form."""
    if check.name == _MXFP8:
        return f"{check.name}: ({check.ok}, {check.reason!r})"
    answer = {True: "yes", False: "no", None: "not checked"}[check.ok]
    return f"{check.name}: {answer}{f', {check.reason}' if check.reason else ''}"


def _head(record: Record, point: Point) -> list[str]:
    machine, identity = record.environment, record.identity
    cudnn, mxfp8 = (_check(record, name) for name in ("cuDNN", _MXFP8))
    gpu = machine.gpu_name or ("none (CPU)" if point.gpu.device == "cpu" else "none")
    ran = record.capability.attention_backend
    pairs = [
        ("Job", f"{identity.job_id or 'none'}  point {identity.point_id}"),
        ("Node", f"{machine.host}  {machine.platform}"),
        ("GPU", f"{gpu}  driver {machine.driver}" if machine.gpu_name else gpu),
        ("CUDA capability", machine.compute_capability or "none"),
        (
            "Software",
            f"torch {machine.torch}, CUDA {machine.cuda or 'none'}, triton "
            f"{machine.triton or 'none'}, Transformer Engine "
            f"{machine.transformer_engine or 'none'}",
        ),
        ("cuDNN", cudnn.reason if cudnn else "not checked"),
        (_MXFP8, f"({mxfp8.ok}, {mxfp8.reason!r})" if mxfp8 else "not checked"),
        ("Attention ran", ", ".join(f"{arm}: {kernel}" for arm, kernel in ran.items())),
        ("Source", f"{machine.commit or 'unknown'}{' (dirty)' if machine.dirty else ''}"),
        ("Point", _point(point)),
        ("Command", record.command or "none"),
    ]
    return [f"{name + ':':<17}{value}" for name, value in pairs if value]


def _point(point: Point) -> str:
    if point.job is Job.probe:
        return f"job=probe gpu={point.gpu.name}"
    emulated = f" ({EMULATED_NOTE})" if point.backend is Backend.emulated else ""
    shape = point.shape
    return (
        f"gpu={point.gpu.name} shape={shape.name} recipe={point.recipe.name.name} "
        f"backend={point.backend.name}{emulated}; b={shape.batch} s={shape.seq_len} "
        f"hidden={shape.hidden} heads={shape.num_heads} "
        f"d={shape.head_dim_nope}+{shape.head_dim_rope}/{shape.head_dim_v} "
        f"{shape.projection.name} {shape.attn_mask.name}"
    )


def _check(record: Record, name: str) -> Check | None:
    return next((check for check in record.capability.checks if check.name == name), None)


def _checks(record: Record) -> list[str]:
    lines = []
    for check in record.capability.checks:
        mark = {True: "yes", False: "no", None: "-"}[check.ok]
        lines.append(f"  {mark:<4}{check.name}: {check.reason}".rstrip(": "))
        if check.remedy:
            lines.append(f"      remedy: {check.remedy}")
    lines += [f"  flag {flag}" for flag in record.capability.flags]
    return ["Capability:", *lines] if lines else []


def _validation(validation: Validation) -> list[str]:
    verdict = {True: "passed", False: "FAILED", None: "not gated"}[validation.passed]
    prediction = f", prediction {validation.prediction}" if validation.prediction else ""
    header = "".join(f"{f'{arm}|{against}':>{width}}" for arm, against, width in _ARM_COLUMNS)
    lines = [
        f"Validation, tolerance {validation.tolerance}{prediction}: {verdict}",
        f"  {'tensor':<16}{header}   relative L2 of an arm | against a reference",
    ]
    errors = {(t.tensor, t.arm, t.reference): t for t in validation.tensors}
    for name in dict.fromkeys(tensor.tensor for tensor in validation.tensors):
        cells = []
        for arm, reference, width in _ARM_COLUMNS:
            error = errors.get((name, arm, reference))
            cells.append((f"{error.rel_l2:.3e}" if error else "-").rjust(width))
        gates = [t for t in validation.tensors if t.tensor == name and t.gate]
        missed = next((t for t in gates if t.passed is False), None)
        mark = "FAILED " if missed else "ok " if any(t.passed for t in gates) else ""
        gate = missed.gate if missed else gates[0].gate if gates else ""
        lines.append(f"  {name:<16}{''.join(cells)}   {mark}{gate}")
    return lines + [f"  failed: {failure}" for failure in validation.failures]


def _stages(benchmark: BenchmarkResult) -> list[str]:
    if not benchmark.stages:
        return []
    lines = ["Stages, each by itself (ms):"]
    arms = {arm.arm: arm for arm in benchmark.arms}
    for name in dict.fromkeys(stage.arm for stage in benchmark.stages):
        for direction in DIRECTIONS:
            own = [s for s in benchmark.stages if (s.arm, s.direction) == (name, direction)]
            each = "  ".join(f"{stage.stage} {stage.median_ms:.3f}" for stage in own)
            total = sum(stage.median_ms for stage in own)
            whole_ms = getattr(arms[name], direction).median_ms
            lines.append(f"  {name:<7}{direction}: {each}  sum {total:.3f}  whole {whole_ms:.3f}")
    return lines


def _fingerprint(probe: Probe) -> str:
    figures = {
        "copy": (probe.copy_gb_per_s, "GB/s"),
        "BF16 matrix product": (probe.bf16_matmul_tflops, "TFLOP/s"),
        "largest SM clock": (probe.max_sm_clock_mhz, "MHz"),
        "power limit": (probe.power_limit_watt, "W"),
    }
    parts = [f"{name} {value:.0f} {unit}" for name, (value, unit) in figures.items() if value]
    if probe.ecc_enabled is not None:
        errors = "" if probe.ecc_errors is None else f", {pluralize(probe.ecc_errors, 'error')}"
        parts.append(f"ECC {'on' if probe.ecc_enabled else 'off'}{errors}")
    return "Fingerprint: " + (", ".join(parts) or "nothing to measure on a CPU")
