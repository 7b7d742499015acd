"""Output of histories: a table on the console, and a page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs.collect.store import write_if_changed
from jobs.compare.comparison import Rules
from jobs.compare.history import Change, Series
from jobs.compare.metrics import STATISTIC, emulated_text
from jobs.compare.output import STYLES
from jobs.compare.rows import MARKS
from jobs.compare.verdict import CONFIDENCE
from jobs.files import private_files
from jobs.report import text
from jobs.report.page import render_page
from jobs.terminal.table import Cell, Column, Table
from jobs.text import pluralize

if TYPE_CHECKING:
    from jobs.terminal.console import Console

_MOST_ROWS = 80
_WIDE, _HIGH = 100.0, 30.0
_WHY = 4
_MOST_PAGE_ROWS = 2000


def show(series: Sequence[Series], out: Console, *, every: bool = False) -> None:
    """Print histories.

    Args:
        series: Result of `history`.
        out: Where it goes.
        every: Print those that never changed, too.
    """
    table = Table(
        *("point", "GPU", "metric"),
        *(Column(name, number=True) for name in ("runs", "first", "last", "change")),
        *("since", "also changed"),
        title="History",
    )
    told = [one for one in series if every or one.changes]
    for one in told if every else told[:_MOST_ROWS]:
        ends = value_text(one, 0), value_text(one, -1)
        head = (one.label, one.gpu, one.metric, str(len(one.values)), *ends)
        for number, change in enumerate(one.changes or [None]):
            cells = head if number == 0 else ("",) * len(head)
            if change is None:
                table.add_row(*cells, "", "", "")
                continue
            verdict = change.verdict.value
            moved = Cell(f"{MARKS[verdict]} {change_text(change)}", STYLES[verdict])
            since = f"{change.collection} {change.when[:10]}"
            table.add_row(*cells, moved, since, why_text(change))
    if told:
        out.print_table(table)
    if len(told) > _MOST_ROWS and not every:
        out.print(f"... and {len(told) - _MOST_ROWS} more", markup=False)
    out.print(headline(series), markup=False, style="bold")


def headline(series: Sequence[Series]) -> str:
    """All histories in one line."""
    changed = sum(bool(one.changes) for one in series)
    return f"{pluralize(len(series), 'series', 'series')}, {changed} of them changed"


def figures(series: Sequence[Series], emulated: int) -> list[str]:
    """Return notes on the figures that are followed and those that are not.

    Args:
        series: Result of `history`.
        emulated: Number of points with emulated times, which are not followed.
    """
    lines = [STATISTIC] if any(one.unit for one in series) else []
    return [*lines, emulated_text("followed", emulated)] if emulated else lines


def notes(series: Sequence[Series], emulated: int, rules: Rules) -> list[str]:
    """Return the notes of the page on its figures, lines and changes.

    Args:
        series: Result of `history`.
        emulated: Number of points with emulated times, which are not followed.
        rules: The thresholds that it was asked for.
    """
    return [
        *figures(series, emulated),
        "Each value is from one run: for times, the trimmed mean without the fastest and the "
        "slowest fifth of the blocks; for errors, the relative L2 against FP32. Lines connect the "
        "values; intervals are not drawn.",
        f"A change is reported if the medians of the runs before and after it differ by at least "
        f"{100 * rules.threshold:g} % (an error's by {100 * rules.accuracy_threshold:g} %), and "
        f"the {100 * CONFIDENCE:g} % interval of their ratio excludes 1. The interval is wider if "
        "a series has many places for a change.",
    ]


@private_files()
def write_history(series: Sequence[Series], folder: Path, notes: Sequence[str] = ()) -> Path:
    """Write the page and its JSON.

    Args:
        series: Result of `history`.
        folder: Where they go; made if it is missing.
        notes: Lines that the page says of its figures.

    Returns:
        The page.
    """
    folder.mkdir(parents=True, exist_ok=True)
    plain = json.dumps([_plain(one) for one in series], indent=1, allow_nan=False)
    write_if_changed(folder / "history.json", plain + "\n")
    write_if_changed(folder / "history.html", page(series, notes))
    return folder / "history.html"


def page(series: Sequence[Series], notes: Sequence[str] = ()) -> str:
    """The histories as one HTML file; of very many, the steady ones are left out."""
    whole = headline(series)
    left_out = max(0, len(series) - _MOST_PAGE_ROWS)
    series = series[:_MOST_PAGE_ROWS]
    states = ["changed" if one.changes else "steady" for one in series]
    return render_page(
        "history.html.j2",
        series=list(zip(series, states, strict=True)),
        headline=whole,
        notes=notes,
        left_out=left_out,
        states=[(name, states.count(name)) for name in ("changed", "steady") if name in states],
        filters={
            "state": sorted(set(states)),
            "metric": sorted({one.metric for one in series}),
            "gpu": sorted({one.gpu for one in series}),
        },
        marks=MARKS,
        line=line,
        cut=cut,
        value_text=value_text,
        change_text=change_text,
        why_text=why_text,
    )


def value_text(one: Series, index: int) -> str:
    """A value of a series with its unit."""
    value = one.values[index].value
    if one.unit == "ms":
        return f"{text.milliseconds(value)} ms"
    return text.times(value) if one.unit == "x" else text.number(value)


def change_text(change: Change) -> str:
    """A change in percent."""
    return f"{100 * (change.ratio - 1):+.1f} %"


def why_text(change: Change) -> str:
    """Return the other changes at the same time."""
    shown = [f"{one.fact} {one.first} to {one.second}" for one in change.why[:_WHY]]
    more = len(change.why) - _WHY
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def line(one: Series) -> str:
    """The series as points of an SVG line, 100 wide and 30 high; time goes to the right."""
    values = [seen.value for seen in one.values]
    low, high = min(values), max(values)
    # A series that hardly moves is drawn flat, not as mountains of noise.
    spread = max(high - low, 0.04 * high) or 1.0
    base = (low + high - spread) / 2
    step = _WIDE / max(1, len(values) - 1)
    return " ".join(
        f"{index * step:.1f},{_HIGH - _HIGH * (value - base) / spread:.1f}"
        for index, value in enumerate(values)
    )


def cut(one: Series, change: Change) -> float:
    """Return the position of a change on that line."""
    return (change.at - 0.5) * _WIDE / max(1, len(one.values) - 1)


def _plain(one: Series) -> dict[str, Any]:
    return {
        "point": one.label,
        "gpu": one.gpu,
        "metric": one.metric,
        "unit": one.unit,
        "values": [
            {"collection": seen.collection, "when": seen.when, "value": seen.value}
            for seen in one.values
        ],
        "changes": [
            {
                "collection": change.collection,
                "when": change.when,
                "ratio": change.ratio,
                "verdict": change.verdict.value,
                "why": [vars(reason) for reason in change.why],
            }
            for change in one.changes
        ],
    }
