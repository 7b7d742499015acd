"""A collection on the console: one line a point, common facts below."""

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
_MAX_REASONS = 20
_MAX_POINTS = 200
_MAX_PROBLEMS = 40


def print_collection(collection: Collection, out: Console) -> None:
    """Print a table of the points, the reasons, and the paths of the files."""
    points = collection.points
    if len(points) > _MAX_POINTS:  # a reader of a long table looks for problems
        points = sorted(points, key=lambda point: point.state == "PASSED")[:_MAX_POINTS]
    table, notes = _points(collection, points)
    out.print_table(table)
    if more := len(collection.points) - len(points):
        out.print_line(f"... and {pluralize(more, 'more point')}, in points.csv and report.html")
    for note in notes:
        out.print_line(note)
    for line in reason_lines(collection.points):
        out.print_line(first_line(line, 2 * out.width - 1))
    totals = ", ".join(f"{count} {name}" for name, count in collection.totals.items() if count)
    out.print_line(totals)
    warnings = [f"Note: {note}" for note in [*collection.notes, *flag_lines(collection.points)]]
    problems = [f"damaged: {problem.file}: {problem.what}" for problem in collection.problems]
    more = len(problems) - _MAX_PROBLEMS
    if more > 0:
        rest = f"damaged: {pluralize(more, 'more file')}, in collection.json"
        problems[_MAX_PROBLEMS:] = [rest]
    for line in warnings + problems:
        out.print_line(line, style="yellow")
    folder = collection.folder
    if folder is not None:
        out.print_line(f"Collected: {shell_quote(folder)}")
        files = [name for name in _FILES if (folder / name).exists()]
        out.print_line(f"Files: {', '.join(files)}")
        if "report.html" in files:
            out.print_line(f"Next: open {shell_quote(folder / 'report.html')}")


def reason_lines(points: Sequence[PointResult]) -> list[str]:
    """Return one line for each reason, such as `FAILED p-1: dx misses its gate`.

    Reasons of points that passed come last.
    """
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for point in points:
        reason = point.reason.partition("\n")[0].removesuffix(EMULATED_NOTE).rstrip("; ")
        if reason:
            groups[point.state_text, reason].append(point.point_id)
    lines = []
    for (state, reason), ids in sorted(groups.items(), key=lambda item: item[0][0] == "PASSED"):
        subject = f" {ids[0]}" if len(ids) == 1 else f", {len(ids)} points"
        lines.append(f"{state}{subject}: {reason}")
    return _limited(lines, "more reason")


def flag_lines(points: Sequence[PointResult]) -> list[str]:
    """Return the flags that change the meaning of runs, with their points."""
    groups: dict[str, list[str]] = defaultdict(list)
    for point in points:
        for flag in dict.fromkeys(point.record.capability.flags if point.record else ()):
            groups[flag].append(point.point_id)
    return _limited(
        [
            f"{ids[0] if len(ids) == 1 else f'{len(ids)} points'}: {flag}"
            for flag, ids in groups.items()
        ],
        "more flag",
    )


def _limited(lines: list[str], rest: str) -> list[str]:
    more = len(lines) - _MAX_REASONS
    return lines if more <= 0 else [*lines[:_MAX_REASONS], f"... and {pluralize(more, rest)}"]


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
