"""One record on the console: availability, accuracy, speed, outcome."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobs.environment import facts
from jobs.perf import format_speedup, is_emulated, perf_lines, recipe_label, statistic_ms
from jobs.record import BenchmarkResult, Check, Outcome, Record, TensorError, Validation
from jobs.terminal.table import STATE_STYLES, Column, Table
from jobs.text import join_sentences

if TYPE_CHECKING:
    from jobs.terminal.console import Console

_SLURM_SHOWN = re.compile(
    r"SLURMD_NODENAME|SLURM_(JOB_)?(CPUS|GPUS|GRES|MEM|TRES)_\w+|SLURM_JOB_(GPUS|NODELIST)|SLURM_GPUS"
)
_MAX_QUOTED_LINES = 8


def print_record(record: Record, out: Console) -> None:
    """Print a whole record."""
    out.print_prose(environment_line(record))
    if record.capability.checks:
        out.print_table(_availability(record.capability.checks))
    if record.validation is not None:
        out.print_table(_accuracy(record.validation))
    if record.benchmark is not None:
        out.print_table(_speed(record.benchmark, recipe_label(record)))
        for line in [*perf_lines(record), *record.benchmark.notes]:
            out.print_prose(line)
        out.print_line("")
    print_outcome(record, out)


def print_outcome(record: Record, out: Console) -> None:
    """Print how an attempt ended, the reason, and the evidence."""
    from rich.text import Text

    outcome = record.outcome.value
    cause = f" ({record.cause.value})" if record.cause else ""
    out.print_prose(
        Text.assemble((outcome, STATE_STYLES[outcome]), f"{cause}  {_one_cell(record.reason)}")
    )
    if record.validation is not None:
        for failure in record.validation.failures:
            out.print_prose(f"  - {_one_cell(failure)}")
    if record.outcome is Outcome.ERROR:
        for evidence in record.evidence:
            for quoted in evidence.lines[-_MAX_QUOTED_LINES:]:
                out.print_line(f"  | {_one_cell(quoted)}", style="dim")


def print_variables(record: Record, out: Console) -> None:
    """Print the environment variables that affect a run; of SLURM's, those about resources."""
    for name, value in sorted(record.environment.variables.items()):
        if not name.startswith("SLURM") or _SLURM_SHOWN.fullmatch(name):
            out.print_line(f"  {name}={_one_cell(value)}")


def environment_line(record: Record) -> str:
    """Return the job, the node and the library versions of a record."""
    environment = record.environment
    fields = ("compute_capability", "driver", "cuda", "torch", "triton", "transformer_engine")
    parts = [f"job {record.identity.job_id}"]
    parts += [f"host {environment.host}"] if environment.host else []
    parts.append(f"GPU {environment.gpu_name or 'none'}")
    parts += [f"{label} {value}" for label, value in facts(environment, *fields).items()]
    if environment.commit:
        parts.append(f"commit {environment.commit[:10]}{' (dirty)' if environment.dirty else ''}")
    return ", ".join(parts)


def speedup_cells(record: Record | None) -> tuple[str, str]:
    """Return the fprop and bprop speedups for a table, or `emulated`; empty without times."""
    if record is None:
        return "", ""
    if is_emulated(record):
        return "emulated", "emulated"
    result = record.benchmark
    if result is None:
        return "", ""
    return format_speedup(result.fprop_speedup), format_speedup(result.bprop_speedup)


def _availability(checks: Sequence[Check]) -> Table:
    table = Table("check", "answer", "reason", title="Availability")
    for check in checks:
        answer = {True: "yes", False: "no", None: "-"}[check.ok]
        table.add_row(check.name, answer, join_sentences(check.reason, check.remedy))
    return table


def _accuracy(validation: Validation) -> Table:
    """Return one row a tensor: the recipe's error and its gate, and the errors to compare with."""
    prediction = f", prediction {validation.prediction}" if validation.prediction else ""
    table = Table(
        "tensor",
        Column("recipe | FP32", number=True),
        Column("gate", number=True),
        Column("worst head", number=True, drop=4),
        Column("BF16 | FP32", number=True, drop=3),
        Column("recipe | BF16", number=True, drop=2),
        Column("recipe | stage", number=True, drop=1),
        "",
        title=f"Accuracy: relative L2 (tolerance={validation.tolerance}{prediction})",
    )
    errors = {(error.tensor, error.arm, error.reference): error for error in validation.tensors}
    for name in dict.fromkeys(error.tensor for error in validation.tensors):
        gated = [e for e in validation.tensors if e.tensor == name and e.passed is not None]
        missed = [error for error in gated if not error.passed]
        main = errors.get((name, "recipe", "fp32"))
        others = (("bf16", "fp32"), ("recipe", "bf16"), ("recipe", "stage"))
        table.add_row(
            name,
            _error(main.rel_l2 if main else None),
            _gate(next(iter(missed or gated), None)),
            _error(main.worst_head_rel_l2 if main else None),
            *(_error(e.rel_l2 if (e := errors.get((name, *key))) else None) for key in others),
            "MISSED" if missed else "ok" if gated else "",
            style="bold red" if missed else "",
        )
    return table


def _error(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}" if 1e-4 <= abs(value) < 100 else f"{value:.2g}"


def _gate(error: TensorError | None) -> str:
    if error is None:
        return ""
    if error.outside_share is not None and error.gate_high is not None:
        return f"{error.outside_share:.3%} outside <= {error.gate_high:.3%}"
    if error.gate_low is not None and error.gate_high is not None:
        return f"{error.gate_low:.4f} - {error.gate_high:.4f}"
    return f"<= {error.gate_high:.4f}" if error.gate_high is not None else error.gate or ""


def _speed(result: BenchmarkResult, recipe: str) -> Table:
    table = Table(
        *("arm", "direction"),
        *(Column("ms", number=True), Column("interval", number=True)),
        *(Column("tok/s", number=True, drop=1), Column("TFLOP/s", number=True, drop=3)),
        Column("of peak", number=True, drop=2),
        title=f"Time ({result.statistic}, {result.confidence:.0%} interval; {result.method})",
    )
    for arm in result.arms:
        label = "BF16" if arm.arm == "bf16" else recipe
        name = f"{label} (emulated)" if arm.emulated else label
        for direction, timing in (("fprop", arm.fprop), ("bprop", arm.bprop)):
            table.add_row(
                name,
                direction,
                f"{statistic_ms(timing, result):.3f}",
                f"{timing.low_ms:.3f} - {timing.high_ms:.3f}",
                f"{timing.tokens_per_s:,.0f}",
                "" if timing.tflops is None else f"{timing.tflops:.3g}",
                "" if timing.share_of_peak is None else f"{timing.share_of_peak:.1%}",
            )
    return table


def _one_cell(text: str) -> str:
    return text.replace("\t", "  ")
