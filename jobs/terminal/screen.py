"""What a user sees: tables on a terminal, the same words without colour in a pipe."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from jobs.perf import format_speedup, is_emulated, perf_lines, recipe_label, statistic_ms
from jobs.record import BenchmarkResult, Check, Outcome, Record, TensorError, Validation
from jobs.terminal.tables import show_table
from jobs.text import join_sentences, plain_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

STYLES = {
    "PASSED": "bold green",
    "FAILED": "bold red",
    "ERROR": "bold red",
    "UNSUPPORTED": "yellow",
    "PLANNED": "dim",
    "PENDING": "cyan",
    "RUNNING": "blue",
    "REQUEUED": "cyan",
}
PIPE_WIDTH = 132
_SLURM_SHOWN = re.compile(
    r"SLURMD_NODENAME|SLURM_(JOB_)?(CPUS|GPUS|GRES|MEM|TRES)_\w+|SLURM_JOB_(GPUS|NODELIST)|SLURM_GPUS"
)
_ERRORS = ("BF16 | FP32", "recipe | BF16", "recipe | stage")


def console(*, stderr: bool = False) -> Console:
    """A console that colours on a terminal alone and never wraps a pipe's lines early.

    Square brackets are text: a key's list or a library's words must not be read as markup.
    """
    from jobs.terminal.console import Screen

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PIPE_WIDTH
    return Screen(stderr=stderr, width=width)


def say(out: Console, line: str, *, style: str | None = None) -> None:
    """Prints one line of text as it is; a terminal wraps it, a pipe gets it whole."""
    out.print(line, style=style, soft_wrap=True)


def prose(out: Console, line: str | Text) -> None:
    """Prints what nobody copies into a shell: a terminal gets it wrapped between words."""
    out.print(line, soft_wrap=not out.is_terminal)


def harmless(text: str) -> str:
    """Text from a log or a library as one cell takes it: nothing that a terminal obeys, no tab."""
    return plain_text(text).replace("\t", "  ")


def styled(outcome: str) -> Text:
    """An outcome in its colour."""
    from rich.text import Text

    return Text(outcome, style=STYLES.get(outcome, ""))


def table(title: str, *columns: str, right: Sequence[str] = ()) -> Table:
    """A plain table; the columns named in `right` hold numbers."""
    from rich import box
    from rich.table import Table

    made = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for name in columns:
        number = name in right
        justify: Literal["left", "right"] = "right" if number else "left"
        made.add_column(name, justify=justify, overflow="fold", no_wrap=number)
    return made


def show_record(record: Record, out: Console) -> None:
    """Shows one record whole: availability, accuracy, speed, outcome.

    Args:
        record: What an attempt left.
        out: Where it is shown.
    """
    prose(out, environment_line(record))
    if record.capability.checks:
        show_table(out, _availability(record.capability.checks))
    if record.validation is not None:
        show_table(out, _accuracy(record.validation), (*reversed(_ERRORS), "worst head"))
    if record.benchmark is not None:
        made = _speed(record.benchmark, recipe_label(record))
        show_table(out, made, ("tok/s", "of peak", "TFLOP/s"))
        for line in [*perf_lines(record), *record.benchmark.notes]:
            prose(out, harmless(line))
        say(out, "")
    show_outcome(record, out)


def show_variables(record: Record, out: Console) -> None:
    """Shows the variables that chose what ran; of SLURM's those on GPUs, CPUs, memory, node."""
    for name, value in sorted(record.environment.variables.items()):
        if not name.startswith("SLURM") or _SLURM_SHOWN.fullmatch(name):
            say(out, f"  {name}={harmless(value)}")


def environment_line(record: Record) -> str:
    """Where a record was made, and with which libraries."""
    found = record.environment
    commit = (
        f"commit {found.commit[:10]}{' (dirty)' if found.dirty else ''}" if found.commit else ""
    )
    words = [
        f"job {record.identity.job_id}",
        f"host {found.host}" if found.host else "",
        f"GPU {found.gpu_name or 'none'}",
        f"compute capability {found.compute_capability}" if found.compute_capability else "",
        f"driver {found.driver}" if found.driver else "",
        f"CUDA {found.cuda}" if found.cuda else "",
        f"torch {found.torch}" if found.torch else "",
        f"triton {found.triton}" if found.triton else "",
        f"Transformer Engine {found.transformer_engine}" if found.transformer_engine else "",
        commit,
    ]
    return harmless(", ".join(word for word in words if word))


def show_outcome(record: Record, out: Console) -> None:
    """Shows how an attempt ended, why, and the lines that show it."""
    from rich.text import Text

    words = [record.outcome.value, f" ({record.cause.value})" if record.cause else ""]
    line = Text.assemble((words[0], STYLES[record.outcome.value]), words[1], "  ")
    line.append(harmless(record.reason))
    prose(out, line)
    if record.validation is not None:
        for failure in record.validation.failures:
            prose(out, f"  - {harmless(failure)}")
    if record.outcome is Outcome.ERROR:
        for evidence in record.evidence:
            for quoted in evidence.lines[-8:]:
                say(out, f"  | {harmless(quoted)}", style="dim")


def short(text: str, length: int = 100) -> str:
    """The first line of a text, cut at a length."""
    first = text.splitlines()[0] if text else ""
    return first if len(first) <= length else first[: length - 1] + "…"


def ratios(record: Record) -> tuple[str, str]:
    """BF16 over recipe, forward and backward, with what may be claimed from it.

    Where arms were emulated that is said, also where nothing was timed.
    """
    if is_emulated(record):
        return "emulated", "emulated"
    result = record.benchmark
    if result is None:
        return "", ""
    return format_speedup(result.fprop_speedup), format_speedup(result.bprop_speedup)


def _availability(checks: Sequence[Check]) -> Table:
    made = table("Availability", "check", "answer", "reason")
    for check in checks:
        answer = {True: "yes", False: "no", None: "-"}[check.ok]
        reason = join_sentences(harmless(check.reason), harmless(check.remedy))
        made.add_row(check.name, answer, reason)
    return made


def _accuracy(validation: Validation) -> Table:
    """A row a tensor: the recipe's error and its gate, BF16's and one stage's own beside it."""
    made = table(
        f"Accuracy: relative L2 (tolerance={validation.tolerance}"
        + (f", prediction {validation.prediction})" if validation.prediction else ")"),
        *("tensor", "recipe | FP32", "gate", "worst head", *_ERRORS, ""),
        right=("recipe | FP32", "gate", "worst head", *_ERRORS),
    )
    found = {(e.tensor, e.arm, e.reference): e for e in validation.tensors}
    for name in dict.fromkeys(error.tensor for error in validation.tensors):
        errors = [error for error in validation.tensors if error.tensor == name]
        main = found.get((name, "recipe", "fp32"))
        judged = [error for error in errors if error.passed is not None]
        missed = [error for error in judged if not error.passed]
        gated = next(iter(missed or judged), None)
        worst = main.worst_head_rel_l2 if main else None
        made.add_row(
            name,
            _figure(main.rel_l2 if main else None),
            _gate(gated),
            _figure(worst),
            *(
                _figure(error.rel_l2 if error else None)
                for error in (
                    found.get((name, "bf16", "fp32")),
                    found.get((name, "recipe", "bf16")),
                    found.get((name, "recipe", "stage")),
                )
            ),
            "MISSED" if missed else "ok" if judged else "",
            style="bold red" if missed else None,
        )
    return made


def _figure(value: float | None) -> str:
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
    made = table(
        f"Time ({result.statistic}, {result.confidence:.0%} interval; {result.method})",
        *("arm", "direction", "ms", "interval", "tok/s", "TFLOP/s", "of peak"),
        right=("ms", "interval", "tok/s", "TFLOP/s", "of peak"),
    )
    for arm in result.arms:
        point_label = "BF16" if arm.arm == "bf16" else recipe
        name = f"{point_label} (emulated)" if arm.emulated else point_label
        for direction, timing in (("fprop", arm.fprop), ("bprop", arm.bprop)):
            peak = timing.share_of_peak
            made.add_row(
                name,
                direction,
                f"{statistic_ms(timing, result):.3f}",
                f"{timing.low_ms:.3f} - {timing.high_ms:.3f}",
                f"{timing.tokens_per_s:,.0f}",
                "" if timing.tflops is None else f"{timing.tflops:.3g}",
                "" if peak is None else f"{peak:.1%}",
            )
    return made
