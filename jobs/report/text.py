"""Numbers and names as the report prints them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

from jobs.text import pluralize

NOTHING = "–"  # noqa: RUF001 - the dash that tables print where there is no value


def number(value: float | None, digits: int = 3) -> str:
    """A number with that many significant digits, without an exponent where it can be read."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if size < -4 or size > 6:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{max(0, digits - 1 - size)}f}"


def milliseconds(value: float | None) -> str:
    """A time in milliseconds with what can be told apart."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return f"{value:.3f}" if value < 100 else f"{value:.1f}"


def times(value: float | None) -> str:
    """A speedup."""
    return NOTHING if value is None or not math.isfinite(value) else f"{value:.2f}×"  # noqa: RUF001 - a multiplication sign is meant


def interval(low: float | None, high: float | None) -> str:
    """The interval of a speedup."""
    if low is None or high is None or not math.isfinite(low) or not math.isfinite(high):
        return ""
    digits = 2 if high - low >= 0.02 else 3  # a narrow one would look like no interval at all
    return f"{low:.{digits}f} to {high:.{digits}f}"


def percent(share: float | None) -> str:
    """A share as a whole number of percent."""
    if share is None or not math.isfinite(share):
        return NOTHING
    return f"{100 * share:.0f} %"


def duration(seconds: float | None) -> str:
    """A duration in the largest unit that tells it well."""
    if seconds is None or not math.isfinite(seconds):
        return NOTHING
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes = seconds / 60
    return f"{minutes:.1f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def by_reason(
    named: Iterable[tuple[str, str]], one: str = "point", many: str | None = None, most: int = 4
) -> list[str]:
    """A line for each reason, the most frequent first.

    Args:
        named: What is told of, and why.
        one: What it is.
        many: The plural of that, where it is no mere s.
        most: How many with one reason are named.

    Returns:
        Lines like `label: why` or `7 points: why: label; label and 5 more`.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for label, why in named:
        found[why].append(label)
    lines = []
    for why, labels in sorted(found.items(), key=lambda item: -len(item[1])):
        more = f" and {len(labels) - most} more" if len(labels) > most else ""
        told = "; ".join(labels[:most]) + more
        several = f"{pluralize(len(labels), one, many)}: {why}: {told}"
        lines.append(several if len(labels) > 1 else f"{told}: {why}")
    return lines
