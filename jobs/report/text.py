"""Numbers and names as the report prints them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

from jobs.text import pluralize

NOTHING = "–"  # noqa: RUF001 - the dash of a table cell without a value


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with significant digits, without an exponent if it is short without one."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if size < -4 or size > 6:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{max(0, digits - 1 - size)}f}"


def milliseconds(value: float | None) -> str:
    """Return a time in milliseconds."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return f"{value:.3f}" if value < 100 else f"{value:.1f}"


def times(value: float | None) -> str:
    """Return a speedup."""
    return NOTHING if value is None or not math.isfinite(value) else f"{value:.2f}×"  # noqa: RUF001 - a multiplication sign is meant


def interval(low: float | None, high: float | None) -> str:
    """Return the interval of a speedup."""
    if low is None or high is None or not math.isfinite(low) or not math.isfinite(high):
        return ""
    digits = 2 if high - low >= 0.02 else 3  # so that the ends of a narrow one differ
    return f"{low:.{digits}f} to {high:.{digits}f}"


def percent(share: float | None) -> str:
    """Return a share as a whole number of percent."""
    if share is None or not math.isfinite(share):
        return NOTHING
    return f"{100 * share:.0f} %"


def duration(seconds: float | None) -> str:
    """Return a duration in seconds, minutes or hours."""
    if seconds is None or not math.isfinite(seconds):
        return NOTHING
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes = seconds / 60
    return f"{minutes:.1f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def by_reason(
    labels: Iterable[tuple[str, str]], one: str = "point", many: str | None = None, most: int = 4
) -> list[str]:
    """Return a line for each reason of (label, reason), the most frequent first.

    Lines read `label: reason` or `7 points: reason: label; label and 5 more`.
    """
    groups: dict[str, list[str]] = defaultdict(list)
    for label, reason in labels:
        groups[reason].append(label)
    lines = []
    for reason, names in sorted(groups.items(), key=lambda item: -len(item[1])):
        if len(names) == 1:
            lines.append(f"{names[0]}: {reason}")
            continue
        more = f" and {len(names) - most} more" if len(names) > most else ""
        count = pluralize(len(names), one, many)
        lines.append(f"{count}: {reason}: {'; '.join(names[:most])}{more}")
    return lines
