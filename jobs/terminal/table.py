"""Tables that fit any width, on a terminal and in a pipe: the only table layout of the tool.

Rich's own tables are not used: they take two seconds for a thousand rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from jobs.text import plain_text

if TYPE_CHECKING:
    from rich.text import Text

STATE_STYLES = {
    "PASSED": "bold green",
    "FAILED": "bold red",
    "ERROR": "bold red",
    "UNSUPPORTED": "yellow",
    "PLANNED": "dim",
    "PENDING": "cyan",
    "RUNNING": "blue",
    "REQUEUED": "cyan",
}
_GAP = "  "
_LONGEST_WORD = 24  # longer words, such as paths, may be broken
_MIN_CUT_WIDTH = 16
_INDENT = "  "


class Cell(NamedTuple):
    """Text of one cell with its style."""

    text: str
    style: str = ""

    @classmethod
    def of_state(cls, state: str) -> Cell:
        """Return an outcome or state in its color."""
        return cls(state, STATE_STYLES.get(state, ""))


@dataclass(frozen=True)
class Column:
    """One column and what may be done with it when the table is too wide.

    Attributes:
        header: Title.
        number: True to align cells right and never to break them.
        whole: True for text that is never broken, such as an id to copy.
        optional: True to omit the column when all of its cells are empty.
        drop: Order in which columns are omitted from a table that is too wide; 0: never.
        factor_out: True to print words that all cells share once, below the table.
    """

    header: str
    number: bool = False
    whole: bool = False
    optional: bool = False
    drop: int = 0
    factor_out: bool = False

    @property
    def unbreakable(self) -> bool:
        """True if no cell may be broken or cut."""
        return self.number or self.whole


class _Row(NamedTuple):
    cells: tuple[Cell, ...]
    style: str


class Table:
    """Rows under named columns, rendered for a given width.

    A table that is too wide first loses the words that all rows share, then its least important
    columns; then cells are wrapped between words. If not even single words fit, each row becomes
    a few lines.
    """

    def __init__(
        self,
        *columns: Column | str,
        title: str = "",
        one_line: bool = False,
        heading: int = 1,
    ) -> None:
        """Define the columns; plain text stands for a column that wraps.

        Args:
            columns: From left to right.
            title: Line above the table.
            one_line: True to cut cells and lines instead of wrapping them.
            heading: Number of columns that form the first line of a row shown as lines.
        """
        self.columns = [Column(c) if isinstance(c, str) else c for c in columns]
        self.title = plain_text(title)
        self.one_line = one_line
        self._heading = heading
        self._rows: list[_Row] = []

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._rows)

    def add_row(self, *cells: Cell | str, style: str = "") -> None:
        """Append a row; terminal escapes in its cells are removed."""
        assert len(cells) == len(self.columns)
        self._rows.append(_Row(tuple(_plain_cell(cell) for cell in cells), style))

    def render(self, width: int | None = None) -> Text:
        """Return the whole table, not wider than a width in cells."""
        from rich.text import Text

        return Text("\n", no_wrap=True, overflow="ignore").join(self._lines(width))

    def _lines(self, width: int | None) -> Iterator[Text]:
        columns = [
            (column, [row.cells[place] for row in self._rows])
            for place, column in enumerate(self.columns)
            if not column.optional or any(row.cells[place].text for row in self._rows)
        ]
        layout = _Layout(columns, [row.style for row in self._rows])
        notes: list[str] = []
        if width is not None and not self.one_line:
            notes = layout.shrink(width)
        widths = layout.widths(width, cut=self.one_line)
        if self.title:
            yield _text("")
            yield from _styled_lines(self.title, "bold", width)
        if widths is None:
            yield from layout.as_lines(width or 0, self._heading)
        else:
            yield from layout.as_grid(widths, width, ruled=bool(self.title), cut=self.one_line)
        for note in notes:
            yield from _styled_lines(note, "dim", width)
        if self.title:
            yield _text("")


class _Layout:
    """Columns with their cells while they are fitted to a width."""

    def __init__(self, columns: list[tuple[Column, list[Cell]]], styles: list[str]) -> None:
        self._columns = columns
        self._styles = styles

    def shrink(self, width: int) -> list[str]:
        """Factor out shared words, then omit columns, until words fit; return notes about both."""
        notes = []
        if self._natural_width() > width and len(self._styles) > 1:
            for place, (column, cells) in enumerate(self._columns):
                if column.factor_out:
                    texts, shared = without_shared([cell.text for cell in cells])
                    pairs = zip(texts, cells, strict=True)
                    self._columns[place] = column, [Cell(text, cell.style) for text, cell in pairs]
                    notes += [f"All rows: {shared}"] if shared else []
        omitted = []
        candidates = sorted(
            (column for column, _ in self._columns if column.drop), key=lambda column: column.drop
        )
        while candidates and self.widths(width) is None:
            column = candidates.pop(0)
            omitted.append(column.header)
            self._columns = [pair for pair in self._columns if pair[0] is not column]
        return notes + ([f"Columns omitted to fit: {', '.join(omitted)}"] if omitted else [])

    def widths(self, width: int | None, *, cut: bool = False) -> list[int] | None:
        """Return a width for each column; None if the longest words do not fit."""
        widest = self._widest()
        if width is None:
            return widest
        least = [
            full if column.unbreakable else self._least(column, cells, full, cut=cut)
            for full, (column, cells) in zip(widest, self._columns, strict=True)
        ]
        spare = width - sum(least) - len(_GAP) * (len(least) - 1)
        if spare < 0:
            return least if cut else None
        # A column that needs little gets it before a long one gets the rest.
        order = sorted(range(len(least)), key=lambda place: widest[place] - least[place])
        for done, place in enumerate(order):
            more = min(widest[place] - least[place], spare // (len(order) - done))
            least[place] += more
            spare -= more
        return least

    def as_grid(
        self, widths: list[int], width: int | None, *, ruled: bool, cut: bool
    ) -> Iterator[Text]:
        """Yield the header and every row, columns side by side."""
        header = [Cell(column.header) for column, _ in self._columns]
        yield from self._grid_row(header, widths, width, "bold", cut=cut)
        if ruled:
            yield _text("─" * (sum(widths) + len(_GAP) * (len(widths) - 1)), "dim")
        for place, style in enumerate(self._styles):
            cells = [cells[place] for _, cells in self._columns]
            yield from self._grid_row(cells, widths, width, style, cut=cut)

    def as_lines(self, width: int, heading: int) -> Iterator[Text]:
        """Yield a few lines for each row: its first cells, then the others with their headers."""
        for place, style in enumerate(self._styles):
            cells = [(column, cells[place]) for column, cells in self._columns]
            head = " ".join(cell.text for _, cell in cells[:heading] if cell.text)
            rest = "; ".join(
                f"{column.header} {cell.text}".strip()
                for column, cell in cells[heading:]
                if cell.text
            )
            yield from _styled_lines(head, style or cells[0][1].style, width) if head else ()
            for line in wrapped(rest, width - len(_INDENT)) if rest else ():
                yield _text(_INDENT + line, style)

    def _grid_row(
        self, cells: Sequence[Cell], widths: list[int], width: int | None, style: str, *, cut: bool
    ) -> Iterator[Text]:
        from rich.text import Text

        folded = [
            [_cut(cell.text, wide) if cut else cell.text]
            if cut or (_cell_len(cell.text) <= wide and "\n" not in cell.text)
            else wrapped(cell.text, wide)
            for cell, wide in zip(cells, widths, strict=True)
        ]
        for number in range(max(map(len, folded))):
            line = Text(style=style, no_wrap=True, overflow="ignore")
            for place, (column, _) in enumerate(self._columns):
                part = folded[place][number] if number < len(folded[place]) else ""
                blank = " " * (widths[place] - _cell_len(part))
                line.append(_GAP if place else "")
                line.append(blank + part if column.number else part, cells[place].style)
                line.append("" if column.number else blank)
            line.rstrip()
            if cut and width is not None:
                line.truncate(width, overflow="ellipsis")
            yield line

    def _widest(self) -> list[int]:
        return [
            max(_cell_len(line) for cell in (Cell(column.header), *cells) for line in _split(cell))
            for column, cells in self._columns
        ]

    def _natural_width(self) -> int:
        widest = self._widest()
        return sum(widest) + len(_GAP) * (len(widest) - 1)

    @staticmethod
    def _least(column: Column, cells: list[Cell], full: int, *, cut: bool) -> int:
        if cut:
            return min(full, _MIN_CUT_WIDTH)
        words = (
            word for text in (column.header, *(c.text for c in cells)) for word in text.split()
        )
        return max((min(_cell_len(word), _LONGEST_WORD) for word in words), default=0)


def wrapped(text: str, width: int) -> list[str]:
    """Split text into lines of at most a width in cells, between words where possible."""
    lines = []
    for paragraph in text.splitlines() or [""]:
        line = ""
        for word in paragraph.split(" "):
            joint = f"{line} {word}" if line else word
            if _cell_len(joint) <= width:
                line = joint
                continue
            if line:
                lines.append(line)
            *full, line = _folded(word, width)
            lines += full
        lines.append(line)
    return lines


def without_shared(labels: Sequence[str]) -> tuple[list[str], str]:
    """Return labels without the words that all of them contain, and those words."""
    split = [label.split(" ") for label in labels]
    shared = set(split[0]).intersection(*split[1:])
    left = [" ".join(word for word in words if word not in shared) for words in split]
    return left, " ".join(word for word in split[0] if word in shared)


def _folded(word: str, width: int) -> list[str]:
    from rich.cells import chop_cells

    return list(chop_cells(word, max(2, width))) or [""]


def _cut(text: str, width: int) -> str:
    from rich.cells import set_cell_size

    first = text.partition("\n")[0]
    return first if _cell_len(first) <= width else f"{set_cell_size(first, width - 1)}…"


def _cell_len(text: str) -> int:
    from rich.cells import cell_len

    return len(text) if text.isascii() else cell_len(text)


def _split(cell: Cell) -> list[str]:
    return cell.text.splitlines() or [""]


def _plain_cell(cell: Cell | str) -> Cell:
    text, style = cell if isinstance(cell, Cell) else (cell, "")
    return Cell(plain_text(text).replace("\t", "  "), style)


def _styled_lines(text: str, style: str, width: int | None) -> Iterator[Text]:
    for line in [text] if width is None else wrapped(text, width):
        yield _text(line, style)


def _text(line: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(line, style=style, no_wrap=True, overflow="ignore")
