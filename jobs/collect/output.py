"""A collection on the console: one line a point, shared facts once below."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobs.perf import EMULATED_NOTE
from jobs.record import DIRECTIONS
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult, emulated_note
from jobs.terminal.records import speedup_cells
from jobs.terminal.table import Cell, Column, Table
from jobs.text import first_line, pluralize, shell_quote

if TYPE_CHECKING:
    from jobs.terminal.console import Console

_FILES = (
    *("report.html", "points.csv", "points.parquet", "points.json"),
    *("junit.xml", "review.md", "plots"),
)
_MOST_REASONS = 20
_MOST_POINTS = 200
_MOST_PROBLEMS = 40


def show(collection: Collection, out: Console) -> None:
    """Print a table of the points, the reasons, and the paths of the files.

    Args:
        collection: What was gathered.
        out: Where it goes.
    """
    shown = list(collection.points)
    if len(shown) > _MOST_POINTS:  # in so long a table one looks for what went wrong
        shown = sorted(shown, key=lambda point: point.state == "PASSED")[:_MOST_POINTS]
    table, notes = _points(collection, shown)
    out.print_table(table)
    rest = len(collection.points) - len(shown)
    if rest:
        out.print_line(f"... and {pluralize(rest, 'more point')}, in points.csv and report.html")
    for note in notes:
        out.print_line(note)
    for line in reason_lines(collection.points):
        out.print_line(first_line(line, 2 * out.width - 1))
    totals = ", ".join(f"{count} {name}" for name, count in collection.totals.items() if count)
    out.print_line(totals)
    for told in [*collection.notes, *flag_lines(collection.points)]:
        out.print_line(f"Note: {told}", style="yellow")
    for problem in collection.problems[:_MOST_PROBLEMS]:
        out.print_line(f"damaged: {problem.file}: {problem.what}", style="yellow")
    if len(collection.problems) > _MOST_PROBLEMS:
        rest = len(collection.problems) - _MOST_PROBLEMS
        out.print_line(
            f"damaged: {pluralize(rest, 'more file')}, in collection.json", style="yellow"
        )
    out.print_line(f"Collected: {shell_quote(collection.folder)}")
    if collection.folder is not None:
        held = [name for name in _FILES if (collection.folder / name).exists()]
        out.print_line(f"It holds: {', '.join(held)}")
        if "report.html" in held:
            out.print_line(f"Next: open {shell_quote(collection.folder / 'report.html')}")


def reason_lines(points: Sequence[PointResult]) -> list[str]:
    """Return one line for each reason, those of points that did not pass first.

    Args:
        points: Collected points.

    Returns:
        Lines like `FAILED p-1: dx misses its gate` or `PASSED, 12 points: within tolerance`.
    """
    found: dict[tuple[str, str], list[PointResult]] = defaultdict(list)
    for point in points:
        reason = point.reason.partition("\n")[0].removesuffix(EMULATED_NOTE).rstrip("; ")
        if reason:
            state = f"{point.state} ({point.cause})" if point.cause else point.state
            found[state, reason].append(point)
    ordered = sorted(found.items(), key=lambda item: item[0][0].startswith("PASSED"))
    lines = []
    for (state, reason), those in ordered[:_MOST_REASONS]:
        who = f" {those[0].point_id}" if len(those) == 1 else f", {len(those)} points"
        lines.append(f"{state}{who}: {reason}")
    if len(ordered) > _MOST_REASONS:
        lines.append(f"... and {pluralize(len(ordered) - _MOST_REASONS, 'more reason')}")
    return lines


def flag_lines(points: Sequence[PointResult]) -> list[str]:
    """Return the flags that change the meaning of runs, with their points."""
    found: dict[str, list[str]] = defaultdict(list)
    for point in points:
        for flag in dict.fromkeys(point.record.capability.flags if point.record else ()):
            found[flag].append(point.point_id)
    lines = [
        f"{those[0] if len(those) == 1 else f'{len(those)} points'}: {flag}"
        for flag, those in found.items()
    ]
    more = len(lines) - _MOST_REASONS
    return lines if more <= 0 else [*lines[:_MOST_REASONS], f"... and {more} more"]


def _points(collection: Collection, shown: Sequence[PointResult]) -> tuple[Table, list[str]]:
    """Return the table of some points, and what all points of the collection have in common."""
    points = collection.points
    speeds = {cell for point in points for cell in speedup_cells(point.record)} - {"", "-"}
    timed = not speeds <= {"emulated"}
    emulated = emulated_note(points)
    notes = [emulated] if emulated else []
    jobs = {point.job_id or "" for point in points}
    one_job = len(points) > 1 and len(jobs) == 1
    if one_job:
        notes += [f"All points: job {job}" for job in jobs if job]
    table = Table(
        Column("point", whole=True),
        Column("job", optional=True, drop=1),
        *(Column("what", factor_out=True), Column("state", whole=True)),
        *(Column(direction, number=True, optional=True) for direction in DIRECTIONS),
        title=f"Collection {collection.name}",
    )
    for point in shown:
        table.add_row(
            *(point.point_id, "" if one_job else point.job_id or "", point.label),
            Cell.of_state(point.state),
            *(speedup_cells(point.record) if timed else ("", "")),
        )
    return table, notes
