"""The console: colors on a terminal only, whole lines in a pipe, no foreign escapes."""

from __future__ import annotations

import io
import sys

import pytest

from jobs.terminal.console import Console
from jobs.terminal.table import Cell, Table
from tests.builders.terminal import pipe, printed


def failed() -> Table:
    table = Table("state")
    table.add_row(Cell.of_state("FAILED"))
    return table


def test_a_pipe_gets_no_color_and_whole_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "")
    long = "python launch.py " + "x" * 300
    Console().print_line(long)
    Console().print_table(failed())
    assert capsys.readouterr().out == f"{long}\nstate\nFAILED\n"


def test_a_terminal_gets_color(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    Console().print_table(failed())
    assert terminal.getvalue().splitlines()[1] == "\x1b[1;31mFAILED\x1b[0m"


@pytest.mark.parametrize("columns", ["0", "-5", "x", "9" * 30])
def test_a_nonsensical_width_of_the_environment_is_ignored(
    monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert 0 < Console(file=io.StringIO(), terminal=True).width < 10_000


def test_escapes_and_markup_of_foreign_text_are_not_obeyed() -> None:
    foreign = "\x1b[31mred\x1b[0m [bold]x[/bold] \x07\x1b]0;title\x07 :smile:"
    out = pipe()
    out.print_line(foreign)
    out.print_prose(foreign)
    table = Table("text")
    table.add_row(foreign)
    out.print_table(table)
    text = printed(out)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert text.count("red [bold]x[/bold]") == text.count(":smile:") == 3
