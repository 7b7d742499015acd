"""Tables on a screen of any width: no word and no number is split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

_GAP = 3
"""Cells that `screen.table` draws between columns."""

_LONGEST_WORD = 24


def show_table(out: Console, made: Table, drop: Sequence[str] = ()) -> None:
    """Prints a table; where it is too wide, with fewer columns, or as a few lines a row.

    Columns of words are wrapped between words. Columns that may not wrap stay whole.

    Args:
        out: Where it goes.
        made: A table, as `screen.table` makes it.
        drop: Columns that may be left out, the least important first.
    """
    left_out: list[str] = []
    while not _fit(made.columns, out.width) and len(left_out) < len(drop):
        left_out.append(drop[len(left_out)])
        made.columns = [column for column in made.columns if column.header not in left_out]
    if not _fit(made.columns, out.width):
        _show_lines(out, made)
        return
    out.print(made)
    if left_out:
        out.print(f"Left out on a narrow screen: {', '.join(left_out)}", style="dim")


def _fit(columns: Sequence[Column], width: int) -> bool:
    """Gives each column its width; False where even the longest words do not fit."""
    from rich.cells import cell_len

    widest = [max(map(cell_len, _texts(column))) for column in columns]
    least = [
        widest[place]
        if column.no_wrap
        else max(_whole(word) for text in _texts(column) for word in ["", *text.split()])
        for place, column in enumerate(columns)
    ]
    spare = width - sum(least) - _GAP * len(columns) - 1
    if spare < 0:
        return False
    # The narrowest wish first: a short column is whole before a long one gets the rest.
    order = sorted(range(len(columns)), key=lambda place: widest[place] - least[place])
    for done, place in enumerate(order):
        more = min(widest[place] - least[place], spare // (len(columns) - done))
        columns[place].width = least[place] + more
        spare -= more
    return True


def _whole(word: str) -> int:
    """Cells that a word needs; a path or a long identifier is folded as ever."""
    from rich.cells import cell_len

    return min(cell_len(word), _LONGEST_WORD)


def _texts(column: Column) -> list[str]:
    return [str(cell) for cell in (column.header, *column.cells)]


def _show_lines(out: Console, made: Table) -> None:
    """The first column's cell as a line, and what the others say below it."""
    from rich.padding import Padding
    from rich.text import Text

    out.print(Text(str(made.title), style="bold"))
    first, *others = made.columns
    cells = [list(column.cells) for column in others]
    for place, name in enumerate(first.cells):
        style = made.rows[place].style or ""
        if str(name):
            out.print(_text(name, style))
        rest = Text("; ", style=style).join(
            Text.assemble(f"{column.header} " if column.header else "", _text(those[place], style))
            for column, those in zip(others, cells, strict=True)
            if str(those[place])
        )
        if rest:
            out.print(Padding(rest, (0, 0, 0, 2)))


def _text(cell: object, style: object) -> Text:
    from rich.text import Text

    return cell if isinstance(cell, Text) else Text(str(cell), style=str(style))
