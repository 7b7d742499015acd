"""From an interval to a verdict: SAME, FASTER, SLOWER or UNCLEAR, and why it is not clearer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from jobs.compare.metrics import Metric
from jobs.compare.statistics import BETWEEN_GPUS, BETWEEN_RUNS, Ratio, ratio
from jobs.text import join_sentences

CONFIDENCE = 0.99
"""Coverage of the intervals of a comparison: six metrics of a point may each raise an alarm."""

SAME_CONFIDENCE = 0.90
"""Coverage of the interval that decides SAME: two one-sided tests of 5 % each."""

_CLOCK_ERRORS = 3.0  # a power-capped clock wanders: fewer standard errors are no difference


class Verdict(Enum):
    """Result of comparing one metric."""

    SAME = "SAME"
    FASTER = "FASTER"
    SLOWER = "SLOWER"
    BETTER = "BETTER"
    WORSE = "WORSE"
    UNCLEAR = "UNCLEAR"


SIDES = "first", "second"
REGRESSIONS = frozenset({Verdict.SLOWER, Verdict.WORSE})


@dataclass(frozen=True)
class Circumstances:
    """Conditions of two runs.

    Attributes:
        clocks_mhz: SM clocks of both while they were timed; None: not known.
        clock_error: Relative standard error of their ratio.
        same_gpu: True if both ran on the same GPU; None: not known.
        gpus: Number of GPUs of each side.
        sides: Names of both sides in notes.
    """

    clocks_mhz: tuple[float | None, float | None] = (None, None)
    clock_error: float = 0.0
    same_gpu: bool | None = None
    gpus: tuple[int, int] = (1, 1)
    sides: tuple[str, str] = SIDES


@dataclass(frozen=True)
class Judged:
    """One metric of two records.

    Attributes:
        metric: Its name.
        unit: ms, x, or nothing.
        first: The value compared with.
        second: The value judged.
        ratio: Second over first, with its interval; None where there is none.
        verdict: The verdict.
        note: Reason for the verdict, or a remark.
    """

    metric: str
    unit: str
    first: float
    second: float
    ratio: Ratio | None
    verdict: Verdict
    note: str = ""


def judge_metric(
    first: Metric,
    second: Metric,
    threshold: float,
    circumstances: Circumstances = Circumstances(),
) -> Judged:
    """Compare one metric of two records.

    Args:
        first: Reference.
        second: Compared with the reference.
        threshold: Relative change that matters in practice, 0.02 for 2 %.
        circumstances: What else is known of both runs.

    Returns:
        FASTER or SLOWER only if the 99 % interval excludes no change and the change is at least
        the threshold; SAME only if the 90 % interval lies within the threshold; else UNCLEAR.
    """
    is_time = first.unit == "ms"
    other_gpu = is_time and circumstances.same_gpu is False
    between = BETWEEN_GPUS if other_gpu else BETWEEN_RUNS
    counts = circumstances.gpus if other_gpu else None
    found = ratio(first.sample, second.sample, CONFIDENCE, between, counts)
    verdict = _verdict(found, threshold, lower_is_better=first.lower_is_better)
    if verdict is Verdict.UNCLEAR:
        narrow = ratio(first.sample, second.sample, SAME_CONFIDENCE, between, counts)
        if -math.log(narrow.low) < math.log1p(threshold) > math.log(narrow.high):
            verdict = Verdict.SAME
    notes = _notes(first, second, circumstances.sides)
    if other_gpu and verdict is Verdict.UNCLEAR:
        notes.append("within the variation between two GPUs of one model")
    if verdict in (Verdict.FASTER, Verdict.SLOWER) and is_time:
        doubt = _doubt(first, second, found, threshold, circumstances)
        if doubt:
            verdict = Verdict.UNCLEAR
            notes.insert(0, doubt)
    return Judged(
        first.name,
        first.unit,
        math.exp(first.sample.log),
        math.exp(second.sample.log),
        found,
        verdict,
        join_sentences(*notes),
    )


def _verdict(found: Ratio, threshold: float, *, lower_is_better: bool) -> Verdict:
    change = abs(math.log(found.value))
    if (found.low > 1 or found.high < 1) and change >= math.log1p(threshold):
        grew = found.value > 1
        return Verdict.SLOWER if grew is lower_is_better else Verdict.FASTER
    return Verdict.UNCLEAR


def _doubt(
    first: Metric,
    second: Metric,
    found: Ratio,
    threshold: float,
    circumstances: Circumstances,
) -> str:
    """Return another explanation than a change of the code; empty if there is none."""
    one, other = first.sample, second.sample
    if one.two_speeds is not other.two_speeds:
        old, new = circumstances.sides
        which, single = (old, other) if one.two_speeds else (new, one)
        # A few slow blocks, as far off as the other's, tell that it ran at the faster speed.
        off = abs(one.speeds_apart - other.speeds_apart)
        if not single.speeds_apart or off > math.log1p(threshold) / 2:
            return f"the {which} ran at two speeds, the other at one: it is not known which one"
    before, after = circumstances.clocks_mhz
    # Where both were seen at two speeds, only the blocks at the faster one are compared.
    if before and after and not (one.speeds_apart and other.speeds_apart):
        by_clock = math.log(after / before)
        change = math.log(found.value)
        left = change + by_clock
        stands = left * change > 0 and abs(left) >= math.log1p(threshold)
        least = max(math.log1p(threshold) / 2, _CLOCK_ERRORS * circumstances.clock_error)
        if abs(by_clock) > least and not stands:
            return f"the SM clock differs ({before:.0f} vs {after:.0f} MHz)"
    return ""


def _notes(first: Metric, second: Metric, sides: tuple[str, str]) -> list[str]:
    old, new = _about(first), _about(second)
    both = [note for note in old if note in new]  # once: a screen cuts long notes
    notes = [f"{sides[0]} and {sides[1]}: {note}" for note in both]
    for name, found in zip(sides, (old, new), strict=True):
        notes += [f"{name}: {note}" for note in found if note not in both]
    return notes


def _about(metric: Metric) -> list[str]:
    """Return the remarks on one side's value."""
    sample, notes = metric.sample, []
    if metric.throttled_share:
        share = f"{100 * metric.throttled_share:.0f} %"
        notes.append(f"{share} of the blocks excluded: throttled or without a time")
    if sample.slow_blocks:
        share = f"{100 * sample.slow_share:.0f} %"
        notes.append(f"{share} of the blocks excluded: at the slower of two speeds")
    if metric.assumed:
        notes.append("no interval given, 5 % assumed")
    if sample.runs > 1:
        notes.append(f"mean of {sample.runs} runs")
    return notes
