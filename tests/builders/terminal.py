"""Consoles that print into memory, and tables read back from what they printed."""

from __future__ import annotations

import io
import re

from jobs.terminal.console import Console

_PARTS = re.compile(r"\S+(?: \S+)*")


def terminal(width: int) -> Console:
    """Return a terminal without colors."""
    return Console(file=io.StringIO(), width=width, terminal=True, colors=None)


def pipe() -> Console:
    """Return a console that is no terminal."""
    return Console(file=io.StringIO())


def printed(out: Console) -> str:
    """Return the printed lines without trailing spaces; none may be wider than the terminal."""
    assert isinstance(out.file, io.StringIO)
    lines = [line.rstrip() for line in out.file.getvalue().splitlines()]
    assert not out.is_terminal or max(map(len, lines), default=0) <= out.width
    return "\n".join(lines)


def table_rows(text: str, first_column: str = "point") -> list[dict[str, str]]:
    """Return the rows of the table whose first column has this header, by header.

    A line without a first cell continues the row above it.
    """
    lines = text.splitlines()
    (start,) = (n for n, line in enumerate(lines) if re.match(rf"{first_column}(  |$)", line))
    headers = [(part.span(), part[0]) for part in _PARTS.finditer(lines[start])]
    rows: list[dict[str, str]] = []
    for line in lines[start + 1 :]:
        if not line:
            break
        cells = {_header(part, headers): part[0] for part in _PARTS.finditer(line)}
        if set(line) == {"─"}:
            continue
        if first_column in cells:
            rows.append({name: "" for _, name in headers} | cells)
        elif rows:
            rows[-1] |= {name: f"{rows[-1][name]} {more}".strip() for name, more in cells.items()}
    return rows


def _header(part: re.Match[str], headers: list[tuple[tuple[int, int], str]]) -> str:
    start, end = part.span()
    return next((name for (low, high), name in headers if start < high and low < end), "")
