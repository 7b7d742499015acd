"""A console whose reader may go away, and which shows foreign text without obeying it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from jobs.text import parse_int, plain_text

_WIDEST = 10_000


class Screen(Console):
    """Rich's console, but a closed pipe silences it instead of ending the program.

    Whatever is printed, only rich's own escapes reach the terminal: names, reasons and lines of
    logs come from nodes, schedulers and other people's files.
    """

    def __init__(self, *, stderr: bool, width: int | None) -> None:
        """Everything else is fixed: text is text, and no escape is read in it."""
        super().__init__(
            stderr=stderr,
            width=width,
            highlight=False,
            soft_wrap=False,
            emoji=False,
            markup=False,
            _environ={key: value for key, value in os.environ.items() if _fits(key, value)},
        )

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Rich's segments, their text made plain."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else plain_text(text), style, control)

    def on_broken_pipe(self) -> None:
        """Sends the rest nowhere; the verb goes on, and its outcome gives the exit code."""
        self.quiet = True
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, (sys.stderr if self.stderr else sys.stdout).fileno())
        os.close(descriptor)


def _fits(variable: str, value: str) -> bool:
    """Rich takes what COLUMNS and LINES say unread; a screen has its own size where they err."""
    return variable not in ("COLUMNS", "LINES") or 0 < (parse_int(value) or 0) < _WIDEST
