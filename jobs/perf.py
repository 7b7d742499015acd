"""The `[PERF]` lines of a record, as people paste them into reviews: written in one place."""

from __future__ import annotations

from jobs.record import BenchmarkResult, Outcome, Record, Speedup, Timing, config_value
from jobs.text import pluralize

RECIPE_LABELS = {
    "bf16": "BF16 again",
    "mxfp8": "MXFP8",
    "fp8_current": "FP8 current",
    "fp8_delayed": "FP8 delayed",
    "fp8_block": "FP8 block",
}
EMULATED_NOTE = "emulated: checks this code, not hardware"


def is_emulated(record: Record) -> bool:
    """Whether a record's arms ran emulated, timed or not: it tells nothing of hardware."""
    if record.outcome is Outcome.UNSUPPORTED or config_value(record.config, "job") == "probe":
        return False
    return bool(config_value(record.config, "backend") == "emulated")


def emulated_summary(emulated: int, points: int) -> str:
    """How many of so many points were emulated: `1 of 23 points was emulated: ...`."""
    if emulated == points:
        who = "The point was" if points == 1 else f"All {points} points were"
    else:
        who = f"{emulated} of {pluralize(points, 'point')} {'was' if emulated == 1 else 'were'}"
    return f"{who} {EMULATED_NOTE}"


def perf_lines(record: Record) -> list[str]:
    """The times of both arms and what may be claimed from them.

    Args:
        record: Any record.

    Returns:
        `[PERF] b=1 s=4096:` and a line a figure; nothing where nothing was timed. An emulated arm
        says so, and no speedup is claimed from it; BF16 against itself is noise.
    """
    benchmark = record.benchmark
    if benchmark is None:
        return []
    batch, seq_len = (config_value(record.config, f"shape.{key}") for key in ("batch", "seq_len"))
    note = f" ({EMULATED_NOTE})" if any(arm.emulated for arm in benchmark.arms) else ""
    lines = [f"[PERF] b={batch} s={seq_len}:{note}"]
    arms = {arm.arm: arm for arm in benchmark.arms}
    labels = {"bf16": "BF16", "recipe": recipe_label(record)}
    width = max(map(len, labels.values())) + len(" fprop:")
    for direction in ("fprop", "bprop"):
        for arm, label in labels.items():
            if arm in arms:
                timing: Timing = getattr(arms[arm], direction)
                name = f"{label} {direction}:".ljust(width)
                shown = statistic_ms(timing, benchmark)
                lines.append(f"  {name} {shown:.3f} ms  ({timing.tokens_per_s:.0f} tok/s)")
        lines.append(f"  {_claim(direction, getattr(benchmark, f'{direction}_speedup'))}")
    return lines


def recipe_label(record: Record) -> str:
    """How the recipe is called where people read it."""
    name = str(config_value(record.config, "recipe.name") or "recipe")
    return RECIPE_LABELS.get(name, name)


def statistic_ms(timing: Timing, benchmark: BenchmarkResult) -> float:
    """The time that stands for an arm: its median, or its mean where the method asks for it."""
    return timing.mean_ms if benchmark.statistic == "mean" else timing.median_ms


def format_speedup(speedup: Speedup | None) -> str:
    """A ratio in one word or two: `1.53x`, `0.998 noise`, `emulated`, or nothing."""
    if speedup is None:
        return "-"
    if speedup.claim == "emulated":
        return "emulated"
    return f"{speedup.ratio:.3f} noise" if speedup.claim == "noise" else f"{speedup.ratio:.2f}x"


def _claim(direction: str, speedup: Speedup | None) -> str:
    name = direction.capitalize()
    if speedup is None:
        return f"{name} speedup: none: no block ran unthrottled"
    interval = f"[{speedup.low:.3f}, {speedup.high:.3f}]"
    if speedup.claim == "emulated":
        return f"{name} speedup: none claimed ({EMULATED_NOTE})"
    if speedup.claim == "noise":
        return f"{name} ratio: {speedup.ratio:.3f}  {interval}  (noise: BF16 against itself)"
    return f"{name} speedup: {speedup.ratio:.2f}x  {interval}"
