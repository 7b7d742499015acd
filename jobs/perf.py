"""The `[PERF]` lines of a record, as people paste them into reviews, and labels of speed."""

from __future__ import annotations

from jobs.record import DIRECTIONS, BenchmarkResult, Outcome, Record, Speedup, Timing, config_value
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
    """True if a record's arms ran emulated, whether they were timed or not."""
    if record.outcome is Outcome.UNSUPPORTED or config_value(record.config, "job") == "probe":
        return False
    return bool(config_value(record.config, "backend") == "emulated")


def emulated_summary(emulated: int, points: int) -> str:
    """Return for example "1 of 23 points was emulated: ..."."""
    if emulated == points:
        subject = "The point was" if points == 1 else f"All {points} points were"
    else:
        verb = "was" if emulated == 1 else "were"
        subject = f"{emulated} of {pluralize(points, 'point')} {verb}"
    return f"{subject} {EMULATED_NOTE}"


def perf_lines(record: Record) -> list[str]:
    """Return `[PERF] b=1 s=4096:` and a line for each figure; nothing if nothing was timed."""
    benchmark = record.benchmark
    if benchmark is None:
        return []
    batch, seq_len = (config_value(record.config, f"shape.{key}") for key in ("batch", "seq_len"))
    note = f" ({EMULATED_NOTE})" if any(arm.emulated for arm in benchmark.arms) else ""
    lines = [f"[PERF] b={batch} s={seq_len}:{note}"]
    arms = {arm.arm: arm for arm in benchmark.arms}
    labels = {"bf16": "BF16", "recipe": recipe_label(record)}
    width = max(map(len, labels.values())) + len(" fprop:")
    for direction in DIRECTIONS:
        for arm, label in labels.items():
            if arm in arms:
                timing: Timing = getattr(arms[arm], direction)
                name = f"{label} {direction}:".ljust(width)
                ms = statistic_ms(timing, benchmark)
                lines.append(f"  {name} {ms:.3f} ms  ({timing.tokens_per_s:.0f} tok/s)")
        lines.append(f"  {_speedup_line(direction, getattr(benchmark, f'{direction}_speedup'))}")
    return lines


def recipe_label(record: Record) -> str:
    """Return the display name of the recipe."""
    name = str(config_value(record.config, "recipe.name") or "recipe")
    return RECIPE_LABELS.get(name, name)


def statistic_ms(timing: Timing, benchmark: BenchmarkResult) -> float:
    """Return an arm's time by the statistic of the method: its median or its mean."""
    return timing.mean_ms if benchmark.statistic == "mean" else timing.median_ms


def format_speedup(speedup: Speedup | None) -> str:
    """Return `1.53x`, `0.998 noise`, `emulated` or `-`."""
    if speedup is None:
        return "-"
    if speedup.claim == "emulated":
        return "emulated"
    return f"{speedup.ratio:.3f} noise" if speedup.claim == "noise" else f"{speedup.ratio:.2f}x"


def _speedup_line(direction: str, speedup: Speedup | None) -> str:
    name = direction.capitalize()
    if speedup is None:
        return f"{name} speedup: none: every block was throttled"
    interval = f"[{speedup.low:.3f}, {speedup.high:.3f}]"
    if speedup.claim == "emulated":
        return f"{name} speedup: none claimed ({EMULATED_NOTE})"
    if speedup.claim == "noise":
        return f"{name} ratio: {speedup.ratio:.3f}  {interval}  (noise: BF16 against itself)"
    return f"{name} speedup: {speedup.ratio:.2f}x  {interval}"
