"""The quantities of a record that are compared: each arm's times, and the speedup of the pair."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any

from jobs.collect.points_table import arm_of
from jobs.compare.statistics import (
    Sample,
    Speeds,
    block_logs,
    from_interval,
    summarize,
    two_speeds,
    wander,
)
from jobs.record import DIRECTIONS, Record, Speedup, Timing
from jobs.text import pluralize

ARMS = ("recipe", "bf16")
ASSUMED_INTERVAL = 0.05
"""Half the relative width that a figure is given which comes without samples and interval."""


@dataclass(frozen=True)
class Metric:
    """One compared quantity of one record.

    Attributes:
        name: Like `recipe fprop` or `bprop speedup`.
        unit: ms or x.
        lower_is_better: Its direction.
        sample: Its value with what is known of its error.
        assumed: True if its interval is assumed, not measured.
        throttled_share: Share of the blocks left out because they ran throttled or hold no time.
    """

    name: str
    unit: str
    lower_is_better: bool
    sample: Sample
    assumed: bool = False
    throttled_share: float = 0.0


def metrics(record: Record) -> dict[str, Metric]:
    """Return the comparable times and speedups of a record.

    Args:
        record: Any record.

    Returns:
        Metrics by name: none for emulated arms, whose time says nothing.
    """
    benchmark = record.benchmark
    if benchmark is None or is_emulated(record):
        return {}
    timings = {
        (name, direction): getattr(arm, direction)
        for name in ARMS
        if (arm := arm_of(record, name)) is not None
        for direction in DIRECTIONS
    }
    size = _block_size(record.config)
    logs = {key: block_logs(t.samples_ms, t.throttled, size) for key, t in timings.items()}
    paired = _is_paired(record.config, logs)
    kept, speeds = _fast(logs) if paired else (_clean(logs), None)
    throttled = _throttled(logs, paired=paired)
    drift = wander(_moments(kept, fmean)) if paired else None
    found: dict[str, Metric] = {}
    for key, timing in timings.items():
        own = wander(kept[key]) if drift is None else drift
        measured = summarize(kept[key], speeds, own)
        sample = measured or _shown(timing, benchmark.statistic, benchmark.confidence)
        if sample is not None:
            name = " ".join(key)
            lost = throttled[key] if measured else 0.0
            found[name] = Metric(name, "ms", True, sample, _is_assumed(timing, measured), lost)
    for direction in DIRECTIONS:
        name = f"{direction} speedup"
        speedup = _speedup(kept, direction, paired=paired, speeds=speeds)
        claimed: Speedup | None = getattr(benchmark, f"{direction}_speedup")
        guessed = False
        lost = max(throttled.get((arm, direction), 0.0) for arm in ARMS) if speedup else 0.0
        if speedup is None and claimed is not None:
            guessed = not claimed.low < claimed.high
            ends = (claimed.low, claimed.high, benchmark.confidence)
            speedup = assumed(claimed.ratio) if guessed else from_interval(claimed.ratio, *ends)
        if speedup is not None:
            found[name] = Metric(name, "x", False, speedup, guessed, lost)
    return found


def is_emulated(record: Record | None) -> bool:
    """Whether a record holds times that nothing is made of: they do not measure hardware."""
    result = record.benchmark if record else None
    return result is not None and any(arm.emulated for arm in result.arms)


def emulated_text(what: str, count: int) -> str:
    """Return the note on excluded emulated times; `what` is `compared` or `followed`."""
    points = pluralize(count, "point")
    return f"Times of emulated arms are not {what} ({points}): they do not measure hardware."


STATISTIC = (
    "Times and speedups are trimmed means over blocks; a report shows its record's own statistic."
)
"""Note on the times of `compare` and `history`."""


def assumed(value: float) -> Sample | None:
    """Return the sample of a figure without an interval, with an assumed one."""
    spread = 1 + ASSUMED_INTERVAL
    return from_interval(value, value / spread, value * spread, 0.95)


Logs = dict[tuple[str, str], list[float | None]]
Kept = dict[tuple[str, str], list[float]]


def _shown(timing: Timing, statistic: str, confidence: float) -> Sample | None:
    """Return the sample of a time from its statistic: the record has no samples."""
    value = timing.mean_ms if statistic == "mean" else timing.median_ms
    if timing.low_ms < timing.high_ms:
        return from_interval(value, timing.low_ms, timing.high_ms, confidence)
    return assumed(value)


def _is_assumed(timing: Timing, measured: Sample | None) -> bool:
    return measured is None and not timing.low_ms < timing.high_ms


def _block_size(config: dict[str, Any]) -> int:
    asked = config.get("benchmark")
    size = asked.get("iterations_per_block") if isinstance(asked, dict) else None
    return size if isinstance(size, int) and size > 0 else 1


def _is_paired(config: dict[str, Any], logs: Logs) -> bool:
    """Return True if block i of all arms and directions ran at the same moment."""
    asked = config.get("benchmark")
    order = asked.get("order") if isinstance(asked, dict) else None
    lengths = {len(values) for values in logs.values()}
    return order == "interleaved" and len(logs) == 4 and len(lengths) == 1 and lengths != {0}


def _clean(logs: Logs) -> Kept:
    return {key: [log for log in values if log is not None] for key, values in logs.items()}


def _throttled(logs: Logs, *, paired: bool) -> dict[tuple[str, str], float]:
    """Share of the blocks of each arm and direction that are left out, with their partners."""
    if paired:
        moments = list(zip(*logs.values(), strict=True))
        return dict.fromkeys(logs, fmean(None in moment for moment in moments))
    return {key: values.count(None) / max(1, len(values)) for key, values in logs.items()}


def _fast(logs: Logs) -> tuple[Kept, Speeds | None]:
    """The moments in which nothing was throttled, at the faster speed if there were two."""
    whole = [
        place
        for place in range(len(next(iter(logs.values()))))
        if all(values[place] is not None for values in logs.values())
    ]
    kept: Kept = {
        key: [log for place in whole if (log := values[place]) is not None]
        for key, values in logs.items()
    }
    if not whole:
        return kept, None
    # A clock slows both arms and both directions; an outlier hits one of the four.
    speeds = two_speeds(_moments(kept, median))
    if speeds is None:
        return kept, None
    fast = {
        key: [log for log, mark in zip(values, speeds.fast, strict=True) if mark]
        for key, values in kept.items()
    }
    return fast, speeds


def _moments(kept: Kept, middle: Callable[[list[float]], float]) -> list[float]:
    """Return the slowness of each moment over both arms and directions."""
    levels = {key: median(values) for key, values in kept.items() if values}
    count = min((len(kept[key]) for key in levels), default=0)
    return [middle([kept[key][place] - levels[key] for key in levels]) for place in range(count)]


def _speedup(kept: Kept, direction: str, *, paired: bool, speeds: Speeds | None) -> Sample | None:
    recipe, bf16 = kept.get(("recipe", direction)), kept.get(("bf16", direction))
    if not recipe or not bf16:
        return None
    if paired:
        ratios = [base - own for base, own in zip(bf16, recipe, strict=True)]
        return summarize(ratios, speeds)
    own, base = summarize(recipe), summarize(bf16)
    if own is None or base is None:
        return None
    error = math.hypot(own.error, base.error)
    return replace(base, log=base.log - own.log, error=error)


def stage_times(record: Record) -> dict[str, float]:
    """Medians of the stages in milliseconds, by `arm direction stage`; they have no interval."""
    stages: Sequence[Any] = record.benchmark.stages if record.benchmark else []
    return {
        f"{stage.arm} {stage.direction} {stage.stage}": stage.median_ms
        for stage in stages
        if math.isfinite(stage.median_ms) and stage.median_ms > 0
    }
