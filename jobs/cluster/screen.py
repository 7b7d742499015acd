"""What a user sees: tables on a terminal, the same words without colour in a pipe."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobs.cluster.ledger import PlannedPoint
from jobs.record import BenchmarkResult, Check, Outcome, Record, TensorError

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
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-_]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def console(*, stderr: bool = False) -> Console:
    """A console that colours on a terminal alone and never wraps a pipe's lines early."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PIPE_WIDTH
    return Console(stderr=stderr, width=width, highlight=False, soft_wrap=False, emoji=False)


def harmless(text: str) -> str:
    """Text from a log or a library, with terminal escapes and control characters taken out."""
    return _CONTROL.sub("", text).replace("\t", "  ")


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
        made.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return made


def show_record(record: Record, out: Console) -> None:
    """Shows one record whole: availability, accuracy, speed, outcome.

    Args:
        record: What an attempt left.
        out: Where it is shown.
    """
    if record.capability.checks:
        out.print(_availability(record.capability.checks))
    if record.validation is not None:
        out.print(_accuracy(record.validation.tensors, record.validation.tolerance))
    if record.benchmark is not None:
        out.print(_speed(record.benchmark))
        for line in [*perf_lines(record), *record.benchmark.notes]:
            out.print(harmless(line), markup=False)
        out.print()
    show_outcome(record, out)


def show_outcome(record: Record, out: Console) -> None:
    """Shows how an attempt ended, why, and the lines that show it."""
    from rich.text import Text

    words = [record.outcome.value, f" ({record.cause.value})" if record.cause else ""]
    line = Text.assemble((words[0], STYLES[record.outcome.value]), words[1], "  ")
    line.append(harmless(record.reason))
    out.print(line)
    if record.validation is not None:
        for failure in record.validation.failures:
            out.print(f"  - {harmless(failure)}", markup=False)
    if record.outcome is Outcome.ERROR:
        for evidence in record.evidence:
            for quoted in evidence.lines[-8:]:
                out.print(f"  | {harmless(quoted)}", markup=False, style="dim")


def show_points(rows: Sequence[tuple[PlannedPoint, Record | None]], out: Console) -> None:
    """One table of every point, with its outcome and figures.

    Args:
        rows: The plan's points, each with its record where it has one.
        out: Where it is shown.
    """
    made = table(
        "Points", "point", "what", "outcome", "fprop", "bprop", "reason", right=("fprop", "bprop")
    )
    for point, record in rows:
        outcome = record.outcome.value if record else "PLANNED"
        fprop, bprop = ratios(record) if record else ("", "")
        reason = short(harmless(record.reason if record else ""))
        made.add_row(point.point_id, label(point), styled(outcome), fprop, bprop, reason)
    out.print(made)


def label(point: PlannedPoint) -> str:
    """What distinguishes a point: the sweep's own axes, else its main choices."""
    if point.choices:
        return " ".join(f"{key}={value}" for key, value in point.choices.items())
    config = point.config
    words = (f"{group}={config[group].get('name')}" for group in ("gpu", "shape", "recipe"))
    return " ".join(words)


def short(text: str, length: int = 100) -> str:
    """The first line of a text, cut at a length."""
    first = text.splitlines()[0] if text else ""
    return first if len(first) <= length else first[: length - 1] + "…"


def ratios(record: Record) -> tuple[str, str]:
    """BF16 over recipe, forward and backward, with what may be claimed from it."""
    result = record.benchmark
    if result is None:
        return "", ""
    return _ratio(result, "fprop"), _ratio(result, "bprop")


def perf_lines(record: Record) -> list[str]:
    """The lines that people paste into reviews."""
    result = record.benchmark
    if result is None:
        return []
    shape = record.config.get("shape", {})
    lines = [f"[PERF] b={shape.get('batch')} s={shape.get('seq_len')}:"]
    arms = {arm.arm: arm for arm in result.arms}
    for direction in ("fprop", "bprop"):
        width = max(len(arm.precision) for arm in arms.values()) + len(f" {direction}:")
        for name in ("bf16", *(other for other in arms if other != "bf16")):
            if name not in arms:
                continue
            arm = arms[name]
            timing = arm.fprop if direction == "fprop" else arm.bprop
            time_ms = timing.mean_ms if result.statistic == "mean" else timing.median_ms
            mark = "  (emulated: checks this code, not hardware)" if arm.emulated else ""
            head = f"{arm.precision} {direction}:".ljust(width)
            lines.append(f"  {head} {time_ms:.3f} ms  ({timing.tokens_per_s:.0f} tok/s){mark}")
        lines.append(f"  {direction.capitalize()} {_claim(result, direction)}")
    return lines


def _claim(result: BenchmarkResult, direction: str) -> str:
    speedup = result.fprop_speedup if direction == "fprop" else result.bprop_speedup
    if speedup is None:
        return "speedup: none claimed"
    interval = f"[{speedup.low:.3f}, {speedup.high:.3f}]"
    if speedup.claim == "speedup":
        return f"speedup: {speedup.ratio:.2f}x  {result.confidence:.0%} interval {interval}"
    if speedup.claim == "noise":
        return f"noise: {speedup.ratio:.3f}  {result.confidence:.0%} interval {interval}"
    return "speedup: none claimed (emulated)"


def _ratio(result: BenchmarkResult, direction: str) -> str:
    speedup = result.fprop_speedup if direction == "fprop" else result.bprop_speedup
    if speedup is None:
        return "-"
    if speedup.claim == "speedup":
        return f"{speedup.ratio:.2f}x"
    return f"{speedup.ratio:.3f} noise" if speedup.claim == "noise" else "emulated"


def _availability(checks: Sequence[Check]) -> Table:
    made = table("Availability", "check", "answer", "reason")
    for check in checks:
        answer = {True: "yes", False: "no", None: "-"}[check.ok]
        reason = harmless(check.reason)
        if check.remedy:
            reason = f"{reason}; {harmless(check.remedy)}" if reason else harmless(check.remedy)
        made.add_row(check.name, answer, reason)
    return made


def _accuracy(tensors: Sequence[TensorError], tolerance: str) -> Table:
    made = table(
        f"Accuracy (tolerance={tolerance})",
        *("tensor", "against", "arm", "rel L2", "worst head", "max abs", "outside", "gate", ""),
        right=("rel L2", "worst head", "max abs", "outside"),
    )
    for error in tensors:
        verdict = {True: "ok", False: "MISSED", None: ""}[error.passed]
        made.add_row(
            error.tensor,
            error.reference,
            error.arm,
            f"{error.rel_l2:.3g}",
            "" if error.worst_head_rel_l2 is None else f"{error.worst_head_rel_l2:.3g}",
            f"{error.max_abs:.3g}",
            "" if error.outside_share is None else f"{error.outside_share:.2%}",
            error.gate or "",
            verdict,
            style="bold red" if error.passed is False else None,
        )
    return made


def _speed(result: BenchmarkResult) -> Table:
    made = table(
        f"Time ({result.statistic}, {result.confidence:.0%} interval; {result.method})",
        *("arm", "direction", "ms", "interval", "tok/s", "TFLOP/s", "of peak"),
        right=("ms", "interval", "tok/s", "TFLOP/s", "of peak"),
    )
    for arm in result.arms:
        name = f"{arm.precision} (emulated)" if arm.emulated else arm.precision
        for direction, timing in (("fprop", arm.fprop), ("bprop", arm.bprop)):
            time_ms = timing.mean_ms if result.statistic == "mean" else timing.median_ms
            peak = timing.share_of_peak
            made.add_row(
                name,
                direction,
                f"{time_ms:.3f}",
                f"{timing.low_ms:.3f} - {timing.high_ms:.3f}",
                f"{timing.tokens_per_s:,.0f}",
                "" if timing.tflops is None else f"{timing.tflops:.3g}",
                "" if peak is None else f"{peak:.1%}",
            )
    return made
