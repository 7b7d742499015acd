"""Output of a comparison: on the console, as Markdown, and as files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jobs.collect.review import cell
from jobs.collect.store import write_if_changed
from jobs.compare.comparison import Comparison
from jobs.compare.match import Unmatched
from jobs.compare.page import page
from jobs.compare.rows import (
    MARKS,
    Row,
    as_json,
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
from jobs.compare.verdict import SIDES
from jobs.files import private_files
from jobs.terminal.table import Cell, Column, Table
from jobs.text import first_line, pluralize

if TYPE_CHECKING:
    from jobs.terminal.console import Console

STYLES = {
    "SLOWER": "bold red",
    "WORSE": "bold red",
    "UNCLEAR": "yellow",
    "FASTER": "bold green",
    "BETTER": "bold green",
    "SAME": "dim",
}
_MOST_ROWS = 60
_MOST_UNMATCHED = 20
_NOTE_CHARS = 100  # on a screen; the page has all of it


def show(comparison: Comparison, out: Console, *, every: bool = False) -> None:
    """Print a comparison.

    Args:
        comparison: Result of `compare`.
        out: Where it goes.
        every: Print what is the same, too.
    """
    told = [row for row in rows(comparison) if every or row.verdict != "SAME"]
    shown = told if every else told[:_MOST_ROWS]
    title = f"{_title(comparison)}, threshold {100 * comparison.rules.threshold:g} %"
    if told:
        out.print_table(_verdicts(title, shown, comparison.words))
    if not every and len(told) > _MOST_ROWS:
        out.print(f"... and {len(told) - _MOST_ROWS} more")
    for line in [*too_wide(comparison), *figures(comparison), *sources(comparison)]:
        out.print_line(line)
    _show_differences(comparison, out)
    for side, unmatched in _sides(comparison):
        lines = lost(unmatched)
        for line in lines[:_MOST_UNMATCHED]:
            text = f"only in the {side}: {line}"
            out.print_line(text, style="yellow")
        if len(lines) > _MOST_UNMATCHED:
            rest = len(lines) - _MOST_UNMATCHED
            out.print(
                f"only in the {side}: {pluralize(rest, 'more reason')}",
                markup=False,
                style="yellow",
            )
    for line in not_compared(comparison):
        out.print_line(line)
    if comparison.repeated:
        out.print(repeated_text(comparison.repeated), markup=False)
    out.print(headline(comparison), markup=False, style="bold")
    if step := next_step(comparison):
        out.print(f"Next: {step}", markup=False, soft_wrap=True)


def _verdicts(title: str, shown: Sequence[Row], sides: tuple[str, str]) -> Table:
    table = Table(
        *(Column("verdict", whole=True), Column("point", factor_out=True), "metric"),
        *(Column(side, number=True, optional=True) for side in sides),
        *(Column(name, number=True, optional=True) for name in ("change", "interval")),
        Column("note", optional=True),
        title=title,
        heading=3,
    )
    for row in shown:
        verdict = Cell(f"{MARKS[row.verdict]} {row.verdict}", STYLES[row.verdict])
        note = first_line(row.note, _NOTE_CHARS)
        table.add_row(
            *(verdict, row.label, row.metric),
            *(row.first, row.second, row.change, row.interval, note),
        )
    return table


def _show_differences(comparison: Comparison, out: Console) -> None:
    if not comparison.differences:
        return

    table = Table("fact", *comparison.words, "points", title="Why they may differ")
    for one in comparison.differences[:30]:
        words = (one.fact, one.first, one.second, f"{one.pairs} of {len(comparison.points)}")
        table.add_row(*words)
    out.print_table(table)


def markdown(comparison: Comparison) -> str:
    """The comparison as a block for a review comment.

    Args:
        comparison: Result of `compare`.

    Returns:
        Markdown: what is not the same, why it may differ, what has no partner.
    """
    before, after = comparison.words
    lines = [f"### {cell(_title(comparison))}", ""]
    lines += [headline(comparison), ""]
    told = [row for row in rows(comparison) if row.verdict != "SAME"]
    if told:
        lines += [
            f"| verdict | point | metric | {before} | {after} | change | interval | note |",
            "|---|---|---|---|---|---|---|---|",
            *(_markdown_row(row) for row in told[:_MOST_ROWS]),
            "",
        ]
    if len(told) > _MOST_ROWS:
        lines += [f"... and {len(told) - _MOST_ROWS} more.", ""]
    under = [*too_wide(comparison), *figures(comparison), *sources(comparison)]
    lines += [f"{cell(line)}\n" for line in under]
    if comparison.differences:
        lines += [f"| may explain it | {before} | {after} | points |", "|---|---|---|---|"]
        lines += [
            f"| {cell(one.fact)} | {cell(one.first)} | {cell(one.second)} | {one.pairs} |"
            for one in comparison.differences[:_MOST_UNMATCHED]
        ]
        lines.append("")
    for side, unmatched in _sides(comparison):
        told_of = lost(unmatched)
        lines += [f"- only in the {side}: {cell(line)}" for line in told_of[:_MOST_UNMATCHED]]
        rest = len(told_of) - _MOST_UNMATCHED
        lines += [f"- only in the {side}: {pluralize(rest, 'more reason')}"] if rest > 0 else []
    lines += [f"- {cell(line)}" for line in not_compared(comparison)]
    return "\n".join(lines).rstrip() + "\n"


@private_files()
def write_comparisons(comparisons: Sequence[Comparison], folder: Path) -> list[Path]:
    """Write each comparison as a page, with Markdown and JSON files.

    Args:
        comparisons: Result of `compare`.
        folder: Where they go, a folder for each; made if it is missing.

    Returns:
        The pages.
    """
    pages: list[Path] = []
    for comparison in comparisons:
        name = re.sub(r"[^A-Za-z0-9_.+-]", "_", f"{comparison.first}--{comparison.second}")[:120]
        place = folder / name
        # Two folders may be called the same: none of their pages replaces the other's.
        while place / "compare.html" in pages:
            place = place.with_name(f"{place.name}+")
        place.mkdir(parents=True, exist_ok=True)
        write_if_changed(place / "compare.json", as_json([comparison]))
        write_if_changed(place / "compare.md", markdown(comparison))
        write_if_changed(place / "compare.html", page(comparison, place))
        pages.append(place / "compare.html")
    return pages


def _markdown_row(row: Row) -> str:
    words = (row.label, row.metric, row.first, row.second, row.change, row.interval, row.note)
    return f"| {row.verdict} | {' | '.join(cell(word) for word in words)} |"


def _sides(comparison: Comparison) -> tuple[tuple[str, list[Unmatched]], ...]:
    before, after = comparison.words
    return (before, comparison.only_first), (after, comparison.only_second)


def _title(comparison: Comparison) -> str:
    """Both sides by name; also as which they were given, where there were more than two."""
    old, new = comparison.sides
    if new.word == SIDES[1]:
        return f"{new.title} compared with {old.title}"
    return f"{new.title} ({new.word}) compared with {old.title} ({old.word})"
