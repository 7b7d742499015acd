"""Shows a collection on a screen: a line a point, what holds for many said once below."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from jobs.perf import EMULATED_NOTE
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult, emulated_note
from jobs.terminal import screen
from jobs.terminal.tables import show_table
from jobs.text import pluralize, shell_quote

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_FILES = (
    *("report.html", "points.csv", "points.parquet", "points.json"),
    *("junit.xml", "review.md", "plots"),
)
_SPEEDS = ("fprop", "bprop")
_MOST_REASONS = 20
_MOST_POINTS = 200
_MOST_PROBLEMS = 40
_COLUMN_GAP = 3


def show(collection: Collection, out: Console) -> None:
    """Shows a table of every planned point, why they ended so, and where everything lies.

    Args:
        collection: What was gathered.
        out: Where it goes, as `screen.console` makes it.
    """
    columns, notes = _columns(collection.points, out.width)
    shown = list(zip(*columns.values(), strict=True))
    if len(shown) > _MOST_POINTS:  # what went wrong is what one looks for in so long a table
        state = list(columns).index("state")
        shown = sorted(shown, key=lambda cells: cells[state] == "PASSED")[:_MOST_POINTS]
    made = screen.table(screen.harmless(f"Collection {collection.name}"), *columns, right=_SPEEDS)
    made.columns[0].no_wrap = True  # an id is for copying
    for cells in shown:
        made.add_row(*_styled(columns, cells))
    show_table(out, made)
    rest = len(collection.points) - len(shown)
    if rest:
        screen.say(out, f"... and {pluralize(rest, 'more point')}, in points.csv and report.html")
    for note in notes:
        screen.say(out, note)
    for line in reason_lines(collection.points):
        screen.say(out, screen.short(line, 2 * out.width - 1))
    totals = ", ".join(f"{count} {name}" for name, count in collection.totals.items() if count)
    screen.say(out, totals)
    for told in [*collection.notes, *flag_lines(collection.points)]:
        screen.say(out, f"Note: {told}", style="yellow")
    for problem in collection.problems[:_MOST_PROBLEMS]:
        screen.say(out, f"damaged: {problem.file}: {problem.what}", style="yellow")
    if len(collection.problems) > _MOST_PROBLEMS:
        rest = len(collection.problems) - _MOST_PROBLEMS
        screen.say(
            out, f"damaged: {pluralize(rest, 'more file')}, in collection.json", style="yellow"
        )
    screen.say(out, f"Collected: {shell_quote(collection.folder)}")
    if collection.folder is not None:
        held = [name for name in _FILES if (collection.folder / name).exists()]
        screen.say(out, f"It holds: {', '.join(held)}")
        if "report.html" in held:
            screen.say(out, f"Next: open {shell_quote(collection.folder / 'report.html')}")


def reason_lines(points: Sequence[PointResult]) -> list[str]:
    """Why points ended as they did, a line for each reason, those that did not pass first.

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
            found[state, screen.harmless(reason)].append(point)
    ordered = sorted(found.items(), key=lambda item: item[0][0].startswith("PASSED"))
    lines = []
    for (state, reason), those in ordered[:_MOST_REASONS]:
        who = f" {those[0].point_id}" if len(those) == 1 else f", {len(those)} points"
        lines.append(f"{state}{who}: {reason}")
    if len(ordered) > _MOST_REASONS:
        lines.append(f"... and {pluralize(len(ordered) - _MOST_REASONS, 'more reason')}")
    return lines


def flag_lines(points: Sequence[PointResult]) -> list[str]:
    """What changes the meaning of runs, as their nodes noted it, with whom it concerns."""
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


def _columns(points: Sequence[PointResult], width: int) -> tuple[dict[str, list[str]], list[str]]:
    """The columns that tell points apart and fit; what the others would say is said in notes."""
    ratios = [screen.ratios(point.record) if point.record else ("", "") for point in points]
    columns: dict[str, list[str]] = {
        "point": [point.point_id for point in points],
        "job": [point.job_id or "" for point in points],
        "what": [screen.harmless(point.label) for point in points],
        "state": [point.state for point in points],
        "fprop": [fprop for fprop, _ in ratios],
        "bprop": [bprop for _, bprop in ratios],
    }
    notes = []
    speeds = {cell for name in _SPEEDS for cell in columns[name]} - {"", "-"}
    if speeds <= {"emulated"}:
        for name in _SPEEDS:
            del columns[name]
    emulated = emulated_note(points)
    notes += [emulated] if emulated else []
    jobs = set(columns["job"])
    if len(points) > 1 and len(jobs) == 1:
        notes += [f"All points: job {job}" for job in jobs if job]
        del columns["job"]
    if table_width(columns) > width and len(points) > 1:
        columns["what"], shared = without_shared(columns["what"])
        notes += [f"All points: {shared}"] if shared else []
    if table_width(columns) > width:
        columns.pop("job", None)
    return columns, notes


def table_width(columns: Mapping[str, Sequence[str]]) -> int:
    """How wide `screen.table` draws these columns where nothing is folded, in cells."""
    from rich.cells import cell_len

    widths = (max(map(cell_len, [name, *cells])) for name, cells in columns.items())
    return sum(widths) + _COLUMN_GAP * len(columns) + 1


def without_shared(labels: Sequence[str]) -> tuple[list[str], str]:
    """Labels without the words that all of them hold, and those words.

    Args:
        labels: At least one label.

    Returns:
        The labels' other words, and the shared ones in the first label's order.
    """
    split = [label.split(" ") for label in labels]
    shared = set(split[0]).intersection(*split[1:])
    left = [" ".join(word for word in words if word not in shared) for words in split]
    return left, " ".join(word for word in split[0] if word in shared)


def _styled(names: Iterable[str], cells: Sequence[str]) -> list[Text]:
    from rich.text import Text

    return [
        screen.styled(cell) if name == "state" else Text(cell)
        for name, cell in zip(names, cells, strict=True)
    ]
