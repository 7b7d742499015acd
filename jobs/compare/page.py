"""A comparison as a page: one HTML file that names both sides, when they ran and their reports."""

from __future__ import annotations

import os
from pathlib import Path

from jobs.compare.comparison import Comparison
from jobs.compare.rows import (
    MARKS,
    ORDER,
    Row,
    figures,
    headline,
    lost,
    next_step,
    not_compared,
    repeated_text,
    rows,
    sources,
    too_wide,
)
from jobs.compare.sides import Side
from jobs.compare.verdict import CONFIDENCE
from jobs.report.page import render_page

_MOST_PAGE_ROWS = 3000


def page(comparison: Comparison, place: Path | None = None) -> str:
    """The comparison as one HTML file; of very many metrics, what is the same is left out.

    Args:
        comparison: Result of `compare`.
        place: The folder where it will lie; None: it links no report.

    Returns:
        HTML.
    """
    everything = rows(comparison)
    made = everything
    if len(everything) > _MOST_PAGE_ROWS:
        made = [row for row in everything if row.verdict != "SAME"][:_MOST_PAGE_ROWS]
    verdicts = [row.verdict for row in made]
    return render_page(
        "compare.html.j2",
        comparison=comparison,
        reports=[_report(side, place) for side in comparison.sides],
        ran=[_ran(side) for side in comparison.sides],
        lead=_lead(comparison),
        headline=headline(comparison),
        rows=made,
        left_out=len(everything) - len(made),
        marks=MARKS,
        verdicts=[(name, verdicts.count(name)) for name in ORDER if name in verdicts],
        filters={
            "verdict": [name for name in ORDER if name in verdicts],
            "metric": sorted({row.metric for row in made}),
            "gpu": sorted({row.gpu for row in made}),
        },
        gauge=_gauge,
        lost=lost,
        next_step=next_step(comparison),
        not_compared=not_compared(comparison),
        repeated_text=repeated_text,
        sources=[*too_wide(comparison), *figures(comparison), *sources(comparison)],
        confidence=f"{100 * CONFIDENCE:.0f} %",
    )


def _lead(comparison: Comparison) -> str:
    if not comparison.points:
        return "Nothing was compared: no points match."
    return {
        0: "No regression found.",
        1: "There is a regression.",
        3: "No regression found, but some results are unclear.",
    }[comparison.exit_code]


def _report(side: Side, place: Path | None) -> str | None:
    """The way from a comparison's folder to the report of one side; None: it has none here."""
    if place is None:
        return None
    gathered = place.parents[1] / side.name  # comparisons lie beside collections
    folder = side.folder or (gathered if gathered.name == side.name else place)
    report = folder / "report.html"
    if not report.is_file():
        return None
    return Path(os.path.relpath(report, place)).as_posix()


def _ran(side: Side) -> str:
    """When a side ran, to the minute; empty where it is not known."""
    if side.ran is None:
        return ""
    began, ended = (moment[:16].replace("T", " ") for moment in side.ran)
    return f"{began} UTC" if began == ended else f"{began} to {ended} UTC"


def _gauge(row: Row) -> tuple[float, float, float] | None:
    """Start, length and middle of a row's interval in percent of a scale from -10 to +10 %.

    None where there is no interval, as of errors: a dot alone would look like a narrow one.
    """
    if not row.interval or row.ratio is None or row.low is None or row.high is None:
        return None
    low, middle, high = (
        max(0.0, min(100.0, 50 + 500 * (ratio - 1))) for ratio in (row.low, row.ratio, row.high)
    )
    return low, high - low, middle
