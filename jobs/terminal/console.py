"""The console that every verb prints to."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import IO, Literal

import rich.console
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from jobs.terminal.table import Table
from jobs.text import parse_int, plain_text

PIPE_WIDTH = 132
_WIDEST = 10_000


class Console(rich.console.Console):
    """Standard output, colored on a terminal, plain and with whole lines in a pipe.

    A closed pipe silences it instead of ending the program. Only its own escapes reach the
    terminal: names, reasons and log lines come from nodes, schedulers and other people's files.
    """

    def __init__(
        self,
        *,
        stderr: bool = False,
        file: IO[str] | None = None,
        width: int | None = None,
        terminal: bool | None = None,
        colors: Literal["auto"] | None = "auto",
    ) -> None:
        """Open a console; everything but `stderr` is detected, and is set by tests only."""
        stream = file or (sys.stderr if stderr else sys.stdout)
        is_terminal = stream.isatty() if terminal is None else terminal
        super().__init__(
            stderr=stderr,
            file=file,
            width=width or (None if is_terminal else PIPE_WIDTH),
            force_terminal=terminal,
            color_system=colors,
            highlight=False,
            soft_wrap=False,
            emoji=False,
            markup=False,
            _environ={key: value for key, value in os.environ.items() if _is_usable(key, value)},
        )

    def print_line(self, line: str, *, style: str | None = None) -> None:
        """Print one line unchanged: a terminal wraps it anywhere, so that it can be copied."""
        self.print(plain_text(line), style=style, soft_wrap=True)

    def print_prose(self, line: str | Text) -> None:
        """Print text that nobody copies into a shell: a terminal wraps it between words."""
        text = plain_text(line) if isinstance(line, str) else line
        self.print(text, soft_wrap=not self.is_terminal)

    def print_table(self, table: Table) -> None:
        """Print a table in the available width."""
        self.print(table.render(self.table_width(table)), soft_wrap=True)

    def table_width(self, table: Table) -> int | None:
        """Return the width for a table; one-line rows are not cut in a pipe."""
        return None if table.one_line and not self.is_terminal else self.width

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Return rich's segments without control characters in their text."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else plain_text(text), style, control)

    def on_broken_pipe(self) -> None:
        """Discard further output; the verb continues, and its outcome gives the exit code."""
        self.quiet = True
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, (sys.stderr if self.stderr else sys.stdout).fileno())
        os.close(descriptor)


def _is_usable(variable: str, value: str) -> bool:
    """Return True unless COLUMNS or LINES holds nonsense, which rich would use unchecked."""
    return variable not in ("COLUMNS", "LINES") or 0 < (parse_int(value) or 0) < _WIDEST
