"""A comparison as rows, for the console, Markdown, JSON and the page."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from jobs.compare.comparison import ComparedPoint, Comparison
from jobs.compare.match import Unmatched
from jobs.compare.metrics import STATISTIC, emulated_text, is_emulated
from jobs.compare.verdict import Judged, Verdict
from jobs.report import text as show
from jobs.text import join_sentences, pluralize


@dataclass(frozen=True)
class Row:
    """One metric of one matched point, or its outcome.

    Attributes:
        label: The point in a few words.
        point_id: The second's point.
        gpu: Where both ran; two names only if they were allowed to differ.
        metric: Its name.
        first: Value compared with, as text with its unit.
        second: Value judged.
        change: Relative change as text, like `+3.0 %`.
        interval: Its interval.
        verdict: The verdict.
        note: Remark.
        ratio: Second over first; None where there is none.
        low: Lower end.
        high: Upper end.
    """

    label: str
    point_id: str
    gpu: str
    metric: str
    first: str
    second: str
    change: str
    interval: str
    verdict: str
    note: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


ORDER = ("SLOWER", "WORSE", "UNCLEAR", "FASTER", "BETTER", "SAME")
MARKS = {"SLOWER": "▼", "WORSE": "▼", "UNCLEAR": "?", "FASTER": "▲", "BETTER": "▲", "SAME": "="}


def rows(comparison: Comparison) -> list[Row]:
    """Every metric of every matched point, the gravest verdicts first."""
    made = [row for point in comparison.points for row in _rows(point)]
    return sorted(made, key=lambda row: ORDER.index(row.verdict))


def headline(comparison: Comparison) -> str:
    """The whole comparison in one line."""
    counts = comparison.counts
    words = [f"{counts[v]} {v.value}" for v in sorted(counts, key=lambda v: ORDER.index(v.value))]
    unmatched = len(comparison.only_first) + len(comparison.only_second)
    tail = f", {unmatched} unmatched" if unmatched else ""
    matched = pluralize(len(comparison.points), "matched point")
    return f"{matched}: {', '.join(words) or 'nothing to compare'}{tail}"


def lost(unmatched: Sequence[Unmatched], most: int = 4) -> list[str]:
    """Unmatched points, a line for each reason, the most frequent first.

    Args:
        unmatched: Of one side.
        most: How many of the points with one reason are named.

    Returns:
        Lines like `label: why` or `7 points: why: label; label and 5 more`.
    """
    return show.by_reason([(one.point.label, one.why) for one in unmatched], most=most)


def not_compared(comparison: Comparison) -> list[str]:
    """A line for each baseline that also holds points of GPUs that the other side did not use."""
    return [
        f"{side.title} also has points on {', '.join(side.not_compared)}, which are not compared"
        for side in comparison.sides
        if side.not_compared
    ]


def next_step(comparison: Comparison) -> str:
    """The command that matches points which only a few keys keep apart; empty: there is none."""
    unmatched = [*comparison.only_first, *comparison.only_second]
    keys = dict.fromkeys(key for one in unmatched for key in one.keys)
    if comparison.points or not keys or any(not one.keys for one in unmatched):
        return ""
    ignored = ",".join(dict.fromkeys([*comparison.rules.ignore, *keys]))
    names = shlex.join(side.title for side in comparison.sides)
    typed = comparison.command or f"python launch.py compare {names}"
    return f"{typed} {shlex.quote(f'compare.ignore=[{ignored}]')}"


def sources(comparison: Comparison) -> list[str]:
    """Return the sources of published figures, with their notes."""
    lines: dict[str, None] = {}
    for one in comparison.points:
        for point in (one.pair.first, one.pair.second):
            if point.partial:
                result = point.record.benchmark if point.record else None
                notes = [note for note in (result.notes if result else []) if note != point.note]
                words = [word for word in (point.command, join_sentences(*notes)) if word]
                lines[f"{point.note}: {'; '.join(words)}"] = None
    return list(lines)


def figures(comparison: Comparison) -> list[str]:
    """Return notes on the figures shown and the figures excluded."""
    pairs = [one.pair for one in comparison.points]
    emulated = sum(
        is_emulated(one.first.record) or is_emulated(one.second.record) for one in pairs
    )
    lines = [emulated_text("compared", emulated)] if emulated else []
    if any(judged.unit for one in comparison.points for judged in one.judged):
        lines.append(STATISTIC)
    return lines


def too_wide(comparison: Comparison) -> list[str]:
    """Return a note on metrics whose interval exceeds the threshold, if there are any."""
    limit = math.log1p(comparison.rules.threshold)
    wide = [
        (math.log(one.ratio.high / one.ratio.low) / 2, one.metric, point.label, one.ratio)
        for point in comparison.points
        for one in point.judged
        if one.verdict is Verdict.UNCLEAR and one.ratio and one.ratio.low < one.ratio.high
    ]
    wide = [found for found in wide if found[0] > limit]
    if not wide:
        return []
    _, metric, label, widest = max(wide, key=lambda found: found[0])
    which = ", ".join(dict.fromkeys(name for _, name, *_ in wide))
    return [
        f"UNCLEAR because the interval exceeds the threshold of ±{100 * math.expm1(limit):g} %: "
        f"{pluralize(len(wide), 'metric')} ({which}); "
        f"the widest is {_change(widest.low)} to {_change(widest.high)}, {metric} of {label}. "
        "More blocks (benchmark.blocks) or more runs on each side narrow it."
    ]


def repeated_text(count: int) -> str:
    """Return the note on points superseded by newer ones."""
    were = pluralize(count, "point was", "points were")
    return f"{were} superseded by a newer run in the same collection"


def as_json(comparisons: Sequence[Comparison]) -> str:
    """The comparisons for scripts."""
    return json.dumps([_plain(one) for one in comparisons], indent=1, allow_nan=False) + "\n"


def _rows(point: ComparedPoint) -> list[Row]:
    gpus = [gpu or "no GPU" for gpu in point.gpus]
    blank = Row(
        label=point.label,
        point_id=point.pair.second.point_id,
        gpu=gpus[0] if gpus[0] == gpus[1] else f"{gpus[0]} and {gpus[1]}",
        metric="outcome",
        first=point.pair.first.state_text,
        second=point.pair.second.state_text,
        change="",
        interval="",
        verdict=point.verdict.value,
        note=_why(point),
    )
    made = [_row(blank, one, point) for one in point.judged]
    return [blank, *made] if point.outcome else made


def _why(point: ComparedPoint) -> str:
    """Return the reason of a point that did not pass, or what is missing."""
    second = point.pair.second
    return second.reason if second.state != "PASSED" and second.reason else point.outcome


def _row(blank: Row, one: Judged, point: ComparedPoint) -> Row:
    stages = ""
    if one.metric.startswith("recipe") and one.verdict in (Verdict.SLOWER, Verdict.FASTER):
        moved = {n: r for n, r in point.stages.items() if n.startswith(f"{one.metric} ")}
        stages = ", ".join(f"{name.split()[-1]} {_change(r)}" for name, r in moved.items())
    notes = [one.note, f"stages: {stages}" if stages else "", point.note]
    found = one.ratio
    wide = found is not None and found.low < found.high
    return replace(
        blank,
        metric=one.metric,
        first=_value(one.first, one.unit),
        second=_value(one.second, one.unit),
        change=_change(found.value) if found else "",
        interval=f"{_change(found.low)} to {_change(found.high)}" if found and wide else "",
        verdict=one.verdict.value,
        note=join_sentences(*notes),
        ratio=found.value if found else None,
        low=found.low if found else None,
        high=found.high if found else None,
    )


def _value(value: float, unit: str) -> str:
    if not math.isfinite(value):
        return show.NOTHING
    if unit == "ms":
        return f"{show.milliseconds(value)} ms"
    return show.times(value) if unit == "x" else show.number(value)


def _change(ratio: float) -> str:
    percent = 100 * (ratio - 1)
    return f"{percent:+.1f} %"


def _plain(comparison: Comparison) -> dict[str, Any]:
    return {
        "first": comparison.first,
        "second": comparison.second,
        "sides": [
            {
                "given_as": side.word,
                "name": side.title,
                "ran": side.ran,
                "not_compared": side.not_compared,
            }
            for side in comparison.sides
        ],
        "threshold": comparison.rules.threshold,
        "accuracy_threshold": comparison.rules.accuracy_threshold,
        "exit_code": comparison.exit_code,
        "counts": {verdict.value: count for verdict, count in comparison.counts.items()},
        "points": [
            {
                "point": point.label,
                "first": point.pair.first.point_id,
                "second": point.pair.second.point_id,
                "gpus": list(point.gpus),
                "verdict": point.verdict.value,
                "outcome": point.outcome,
                "note": point.note,
                "metrics": [_judged(one) for one in point.judged],
                "stages": point.stages,
            }
            for point in comparison.points
        ],
        "differences": [vars(one) for one in comparison.differences],
        "only_first": [
            {"point": one.point.label, "why": one.why} for one in comparison.only_first
        ],
        "only_second": [
            {"point": one.point.label, "why": one.why} for one in comparison.only_second
        ],
    }


def _judged(one: Judged) -> dict[str, Any]:
    return {
        "metric": one.metric,
        "unit": one.unit,
        "first": one.first if math.isfinite(one.first) else None,
        "second": one.second if math.isfinite(one.second) else None,
        "ratio": one.ratio.value if one.ratio else None,
        "low": one.ratio.low if one.ratio else None,
        "high": one.ratio.high if one.ratio else None,
        "verdict": one.verdict.value,
        "note": one.note,
    }
