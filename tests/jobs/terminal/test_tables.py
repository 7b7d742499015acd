"""On a screen of any width every word and number of a table is whole."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from jobs.collect import output as collect_show
from jobs.record import Outcome, State
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult
from jobs.terminal import screen
from jobs.terminal.tables import show_table
from tests.builders.records import asked, record, with_notes

WIDTHS = pytest.mark.parametrize("width", [60, 80, 120])
RECIPES = ("fp8_current", "mxfp8", "bf16")


def terminal(width: int) -> Console:
    return Console(file=io.StringIO(), width=width, color_system=None, force_terminal=True)


def printed(out: Console) -> str:
    assert isinstance(out.file, io.StringIO)
    text = out.file.getvalue()
    assert max(map(len, (line.rstrip() for line in text.splitlines()))) <= out.width
    return text


def words(text: str) -> set[str]:
    return set(re.findall(r"[^\s;,()─]+", text))


def shown_record(width: int, recipe: str) -> str:
    left = record("p-1", asked(recipe), Outcome.FAILED, reason="dx: rel_l2 missed its gate")
    left = with_notes(left, "times not stable after 40 warm-up iterations")
    out = terminal(width)
    screen.show_record(left, out)
    return printed(out)


@WIDTHS
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_record_has_no_word_that_a_wide_screen_has_not(width: int, recipe: str) -> None:
    text = shown_record(width, recipe)
    new = words(text) - words(shown_record(300, recipe))
    assert new <= words("Left out on a narrow screen:")


@WIDTHS
def test_a_gate_is_one_line_with_its_tensor(width: int) -> None:
    lines = shown_record(width, "mxfp8").splitlines()
    (at,) = (place for place, line in enumerate(lines) if line.split()[:1] == ["attention"])
    told = lines[at] if width > 60 else lines[at + 1]  # a line below its tensor's name
    assert "0.000% outside <= 23.750%" in told
    assert told.split()[-1] == "ok"


def test_what_was_left_out_is_said() -> None:
    assert "Left out on a narrow screen: recipe | stage" in shown_record(80, "mxfp8")
    assert "Left out" not in shown_record(132, "mxfp8")


@WIDTHS
def test_a_collection_has_whole_words(width: int) -> None:
    points = [
        PointResult(
            *(f"p-7a0d52d4303{number}", "s-1", asked(recipe, shape__seq_len=length), State(state)),
            job_id=f"14_{number}",
            record=record("p-1", asked(recipe)) if state == "PASSED" else None,
        )
        for number, (recipe, length, state) in enumerate(
            (r, s, t) for r in RECIPES for s in (1024, 131072) for t in ("PASSED", "UNSUPPORTED")
        )
    ]
    out = terminal(width)
    collect_show.show(Collection("s-1", points, Path("/r/s-1")), out)
    text = printed(out)
    assert text.count("UNSUPPORTED") == 7  # of six points, and in the totals
    assert text.count("fp8_current") == 4
    for point in points:
        assert point.point_id in text


def test_where_not_even_words_fit_each_row_is_lines() -> None:
    made = screen.table("Speeds", "point", "state", "fprop", right=("fprop",))
    made.add_row("p-7a0d52d43030", screen.styled("UNSUPPORTED"), "1234.567")
    made.add_row("p-7a0d52d43031", "", "")
    out = terminal(30)
    show_table(out, made)
    assert [line.rstrip() for line in printed(out).splitlines()] == [
        "Speeds",
        "p-7a0d52d43030",
        "  state UNSUPPORTED; fprop",
        "  1234.567",
        "p-7a0d52d43031",
    ]


def test_a_path_among_words_makes_no_lines_of_a_table() -> None:
    made = screen.table("Points", "point", "outcome", "reason")
    made.add_row("p-7a0d52d43030", "UNSUPPORTED", "no such file: /" + "scratch/" * 30)
    out = terminal(80)
    show_table(out, made)
    text = printed(out)
    assert "p-7a0d52d43030   UNSUPPORTED   no such file:" in text
