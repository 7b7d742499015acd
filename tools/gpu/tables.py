"""The tables of `docs/results/h200.md`, each made from records alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from conf.choices import Job, Projection
from jobs.perf import EMULATED_NOTE, RECIPE_LABELS
from jobs.record import DIRECTIONS, Environment, Outcome, Probe, Speedup
from jobs.text import join_sentences, pluralize, strip_full_stop
from tools.gpu.records import NamedRecord

_TENSORS = ("q", "k", "v", "attention", "out", "dx", "dqkv_weight", "dout_weight")
# A split projection has these instead of one weight.
_SPLIT = {"dqkv_weight": ("dq_weight", "dkv_weight")}


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    columns = list(header)
    lines = [columns, ["---"] * len(columns), *(list(row) for row in rows)]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines
    )


def machine_table(records: list[NamedRecord]) -> str:
    """Return GPU, software, source and fingerprint; facts that differ have their counts."""
    environments = [n.record.environment for n in records]
    uuids = {one.gpu_uuid for one in environments if one.gpu_uuid}

    def facts(text: Callable[[Environment], str]) -> str:
        counts = Counter(map(text, environments))
        if len(counts) == 1:
            return next(iter(counts))
        return "; ".join(f"{fact} ({pluralize(n, 'record')})" for fact, n in counts.items())

    rows = [
        (
            "GPU",
            facts(
                lambda one: (
                    f"{one.gpu_name}, {one.gpu_memory_gib or 0:.0f} GiB, driver {one.driver}"
                )
            )
            + (f"; {len(uuids)} GPUs by their UUIDs" if len(uuids) > 1 else ""),
        ),
        (
            "Software",
            facts(
                lambda one: (
                    f"torch {one.torch}, CUDA {one.cuda}, triton {one.triton}, "
                    f"Transformer Engine {one.transformer_engine}"
                )
            ),
        ),
        (
            "cuDNN",
            facts(
                lambda one: (
                    f"PyTorch {one.cudnn_torch or 'unknown'}, "
                    f"Transformer Engine {one.cudnn_transformer_engine or 'unknown'}"
                )
            ),
        ),
        (
            "Source",
            facts(
                lambda one: (
                    f"{(one.commit or 'unknown')[:7]}{' with changes' if one.dirty else ''}"
                )
            ),
        ),
    ]
    for name, is_probe in (("Fingerprint of job=probe", True), ("Fingerprint of others", False)):
        probes = [
            n.record.probe
            for n in records
            if n.record.probe is not None and (n.point.job is Job.probe) is is_probe
        ]
        if probes:
            rows.append((name, _fingerprint(probes)))
    return table(("", ""), rows)


def _fingerprint(probes: list[Probe]) -> str:
    figures = (
        ("copy", [probe.copy_gb_per_s for probe in probes], "GB/s"),
        ("BF16 matrix product", [probe.bf16_matmul_tflops for probe in probes], "TFLOP/s"),
        ("power limit", [probe.power_limit_watt for probe in probes], "W"),
    )
    parts = [
        f"{name} {interval} {unit}"
        for name, values, unit in figures
        if (interval := _span(values))
    ]
    return f"{', '.join(parts)} ({pluralize(len(probes), 'record')})"


def _span(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, high = f"{min(known):.0f}", f"{max(known):.0f}"
    return low if low == high else f"{low} to {high}"


def _times(record: NamedRecord) -> tuple[str, ...]:
    """Return fprop of both arms, its speedup, bprop of both arms, its speedup."""
    benchmark = record.record.benchmark
    bf16, recipe = record.arm("bf16"), record.arm("recipe")
    if benchmark is None or bf16 is None or recipe is None:
        return ("-",) * 4
    return (
        f"{bf16.fprop.median_ms:.3f} / {recipe.fprop.median_ms:.3f}",
        _ratio(benchmark.fprop_speedup),
        f"{bf16.bprop.median_ms:.3f} / {recipe.bprop.median_ms:.3f}",
        _ratio(benchmark.bprop_speedup),
    )


def _ratio(speedup: Speedup | None) -> str:
    if speedup is None:
        return "none: throttled"
    if speedup.claim == "emulated":
        return "none claimed"
    text = f"{speedup.ratio:.3f} [{speedup.low:.3f}, {speedup.high:.3f}]"
    return f"{text} (noise)" if speedup.claim == "noise" else text


def recipe_table(records: list[NamedRecord]) -> str:
    """Return outcome and times of each recipe, with the attention that ran or the reason."""
    rows = []
    for n in records:
        if "," in n.name or " s=" in n.name:
            continue
        ran = n.record.capability.attention_backend.get("recipe", "-")
        last = ran if n.record.benchmark else n.record.reason
        rows.append((n.name, n.record.outcome.value, *_times(n), last))
    header = ("point", "outcome", "fprop BF16 / recipe", "speedup", "bprop BF16 / recipe")
    return table((*header, "speedup", "attention kernel, or reason"), rows)


def error_table(records: list[NamedRecord]) -> str:
    """Return relative L2 against FP32 of both arms, a row per point and a column per tensor."""
    rows = [
        (n.name, n.point.tolerance.name.name, *(_errors(n, tensor) for tensor in _TENSORS))
        for n in records
        if n.record.validation is not None
    ]
    return table(("point (recipe / BF16)", "tolerance", *_TENSORS), rows)


def _errors(record: NamedRecord, tensor: str) -> str:
    """Return both arms' errors of a tensor; of both weights for a split projection."""
    split = record.point.shape.projection is Projection.split
    cells = []
    for name in _SPLIT.get(tensor, (tensor,)) if split else (tensor,):
        recipe, bf16 = record.error(name, "recipe"), record.error(name, "bf16")
        if recipe is None or bf16 is None:
            return "-"
        label = "" if name == tensor else f"{name} "
        cells.append(f"{label}{recipe.rel_l2:.2e} / {bf16.rel_l2:.1e}")
    return ", ".join(cells)


def path_table(records: list[NamedRecord]) -> str:
    """Return errors, times and memory of each implementation of the same layer."""
    rows = []
    for n in records:
        recipe = n.arm("recipe")
        values = (
            *(
                (None, None)
                if recipe is None
                else (recipe.fprop.median_ms, recipe.bprop.median_ms)
            ),
            *(n.rope_ms(direction) for direction in DIRECTIONS),
        )
        fprop, bprop, *rope = ("-" if ms is None else f"{ms:.3f}" for ms in values)
        memory = None if recipe is None else recipe.peak_memory_gib
        emulated = recipe is not None and recipe.emulated
        rows.append(
            (
                n.name,
                *(_errors(n, tensor) for tensor in ("q", "k", "out", "dx")),
                fprop,
                bprop,
                " / ".join(rope),
                "-" if memory is None else f"{memory:.1f}",
                EMULATED_NOTE if emulated else "measured",
            )
        )
    header = ("path (recipe / BF16)", "q", "k", "out", "dx", "fprop (ms)", "bprop (ms)")
    return table((*header, "RoPE fprop / bprop (ms)", "peak memory (GiB)", "times are"), rows)


def shape_table(records: list[NamedRecord]) -> str:
    """Return times, rates, shares, memory and first step, a row per point."""

    def both(n: NamedRecord, figure: Callable[[Any], float | None], form: str) -> str:
        values = [figure(arm) for arm in (n.arm("bf16"), n.arm("recipe"))]
        return " / ".join("-" if v is None else format(v, form) for v in values)

    figures: dict[str, tuple[Callable[[Any], float | None], str]] = {
        "fprop TFLOP/s": (lambda arm: arm.fprop.tflops, ".0f"),
        "bprop TFLOP/s": (lambda arm: arm.bprop.tflops, ".0f"),
        "fprop of peak": (lambda arm: arm.fprop.share_of_peak, ".0%"),
        "fprop of roofline": (lambda arm: arm.fprop.share_of_roofline, ".0%"),
        "bprop of roofline": (lambda arm: arm.bprop.share_of_roofline, ".0%"),
        "peak memory (GiB)": (lambda arm: arm.peak_memory_gib, ".1f"),
        "first step (ms)": (lambda arm: arm.first_iteration_ms, ".0f"),
    }
    rows = [
        (
            n.name,
            RECIPE_LABELS[n.point.recipe.name.name],
            *_times(n),
            *(both(n, figure, form) for figure, form in figures.values()),
        )
        for n in records
    ]
    header = ("point", "recipe", "fprop (ms)", "speedup", "bprop (ms)", "speedup", *figures)
    return table(header, rows)


def stage_table(records: list[NamedRecord]) -> str:
    """Return each stage's time and share of the roofline, their sum, and the whole step."""
    rows = []
    for n in records:
        for arm in dict.fromkeys(stage.arm for stage in n.stages):
            whole = n.arm(arm)
            assert whole is not None
            for direction in DIRECTIONS:
                own = [s for s in n.stages if (s.arm, s.direction) == (arm, direction)]
                cells = [
                    f"{s.median_ms:.3f}"
                    + ("" if s.share_of_roofline is None else f" ({s.share_of_roofline:.0%})")
                    for s in own
                ]
                total, whole_ms = (
                    sum(s.median_ms for s in own),
                    getattr(whole, direction).median_ms,
                )
                rows.append((n.name, arm, direction, *cells, f"{total:.3f}", f"{whole_ms:.3f}"))
    return table(("point", "arm", "", "qkv", "rope", "attention", "out", "sum", "whole"), rows)


def kernel_tables(kernels: dict[str, Any]) -> tuple[str, str]:
    """Return the times of the RoPE kernels, and of all of RoPE, with their floors."""
    rows = [
        (name, f"{row['ms']:.4f}", f"{row['floor_bytes'] / 1e6:.0f}", f"{row['share']:.3f}")
        for name, row in kernels["kernels"].items()
    ]
    totals = [
        (
            name,
            f"{row['ms']:.3f}",
            f"{row['floor_bytes'] / 1e6:.0f}",
            *(f"{row[key]:.3f}" for key in ("floor_ms", "left_ms", "share")),
        )
        for name, row in kernels["totals"].items()
    ]
    header = ("forward and backward", "ms", "floor (MB)", "floor (ms)", "above (ms)", "share")
    return table(("kernel", "ms", "floor (MB)", "share of copy"), rows), table(header, totals)


def copy_share_table(shapes: dict[str, Any]) -> str:
    """Return the slowest and the fastest RoPE kernel of each shape, against an equal copy."""
    rows: list[tuple[str, ...]] = []
    for shape, kernels in shapes.items():
        shares = sorted((row["share_of_equal_copy"], name) for name, row in kernels.items())
        (low, slowest), (high, fastest) = shares[0], shares[-1]
        rows.append((shape, f"{low:.3f}", slowest, f"{high:.3f}", fastest))
    return table(("shape", "lowest", "kernel", "highest", "kernel"), rows)


def profile_table(records: list[NamedRecord]) -> str:
    """Return the profiles that were requested, with their files or the reason for having none."""
    rows = [
        (n.name, check.name, "yes" if check.ok else "no", check.reason)
        for n in records
        for check in n.record.capability.checks
        if check.name.startswith("profile ")
    ]
    return table(("point", "check", "kept", "file, or reason"), rows)


def cudnn_table(records: list[NamedRecord]) -> str:
    """Return each point's check of cuDNN and its outcome."""
    rows = []
    for n in records:
        check = next((c for c in n.record.capability.checks if c.name == "cuDNN"), None)
        answer, outcome = "-", n.record.outcome
        reason = n.record.reason if outcome is not Outcome.PASSED else ""
        if check:
            remedy = f"Remedy: {check.remedy}" if check.remedy else ""
            answer = f"{strip_full_stop(join_sentences(check.reason, remedy, by='. '))}."
            if check.reason and check.reason in reason:
                reason = f"{check.name}, see left"
        rows.append((n.name, answer, f"{outcome.value}{': ' if reason else ''}{reason}"))
    return table(("point", "check of cuDNN", "outcome"), rows)
