"""At any width every word and number of a table is whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.collect import output
from jobs.record import Outcome, State
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult
from jobs.terminal.records import print_record
from jobs.terminal.table import Cell, Column, Table, without_shared, wrapped
from tests.builders.records import point_config, record, with_notes
from tests.builders.terminal import pipe, printed, table_rows, terminal

WIDTHS = pytest.mark.parametrize("width", [60, 80, 120])
RECIPES = ("fp8_current", "mxfp8", "bf16")


def words(text: str) -> set[str]:
    for mark in ";,()─":
        text = text.replace(mark, " ")
    return set(text.split())


def printed_record(width: int, recipe: str) -> str:
    failed = record(
        "p-1", point_config(recipe), Outcome.FAILED, reason="dx: rel_l2 missed its gate"
    )
    out = terminal(width)
    print_record(with_notes(failed, "times not stable after 40 warm-up iterations"), out)
    return printed(out)


def points_table(*rows: tuple[str, str, str], one_line: bool = False) -> Table:
    table = Table(
        Column("point", whole=True),
        Column("label", factor_out=True),
        Column("ms", number=True, drop=1),
        title="Points",
        one_line=one_line,
    )
    for row in rows:
        table.add_row(*row)
    return table


@WIDTHS
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_narrow_record_has_only_words_of_the_wide_one(width: int, recipe: str) -> None:
    new = words(printed_record(width, recipe)) - words(printed_record(300, recipe))
    assert new <= words("Columns omitted to fit:")


def test_the_least_important_columns_are_omitted_first() -> None:
    (narrow,) = (row for row in table_rows(printed_record(80, "mxfp8"), "tensor")[:1])
    (wide,) = (row for row in table_rows(printed_record(132, "mxfp8"), "tensor")[:1])
    assert "recipe | stage" in set(wide) - set(narrow)
    assert "worst head" in narrow


@WIDTHS
def test_a_collection_has_whole_words(width: int) -> None:
    points = [
        PointResult(
            f"p-7a0d52d4303{number}",
            "s-1",
            point_config(recipe, shape__seq_len=length),
            State(state),
            job_id=f"14_{number}",
            record=record("p-1", point_config(recipe)) if state == "PASSED" else None,
        )
        for number, (recipe, length, state) in enumerate(
            (r, s, t) for r in RECIPES for s in (1024, 131072) for t in ("PASSED", "UNSUPPORTED")
        )
    ]
    out = terminal(width)
    output.print_collection(Collection("s-1", points, Path("/r/s-1")), out)
    text = printed(out)
    assert text.count("UNSUPPORTED") == 7  # six points, and the totals
    assert text.count("fp8_current") == 4
    assert all(point.point_id in text for point in points)


def test_numbers_are_aligned_right_and_words_wrap() -> None:
    table = points_table(("p-1", "a long label of words", "1.5"), ("p-2", "b", "10.25"))
    lines = [line.rstrip() for line in table.render(24).plain.splitlines()]
    assert lines[2] == "point  label          ms"
    assert lines[4:] == [
        "p-1    a long        1.5",
        "       label of",
        "       words",
        "p-2    b           10.25",
    ]


def test_words_that_all_rows_share_are_printed_once_if_there_is_no_room() -> None:
    table = points_table(("p-1", "mxfp8 b=1 s=1024", "1"), ("p-2", "mxfp8 b=1 s=2048", "2"))
    assert table.render(120).plain.count("mxfp8") == 2
    text = table.render(24).plain
    assert text.count("mxfp8 b=1") == 1
    assert [row["label"] for row in table_rows(text)][:2] == ["s=1024", "s=2048"]


def test_if_not_even_words_fit_each_row_becomes_lines() -> None:
    table = Table("point", "state", Column("fprop", number=True), title="Speeds")
    table.add_row("p-7a0d52d43030", Cell.of_state("UNSUPPORTED"), "1234.567")
    table.add_row("p-7a0d52d43031", "", "")
    assert table.render(26).plain.splitlines()[1:] == [
        "Speeds",
        "p-7a0d52d43030",
        "  state UNSUPPORTED; fprop",
        "  1234.567",
        "p-7a0d52d43031",
    ]


def test_a_long_path_is_folded_and_keeps_the_columns() -> None:
    table = Table("point", "outcome", "reason")
    table.add_row("p-7a0d52d43030", "UNSUPPORTED", "no such file: /" + "scratch/" * 30)
    assert "p-7a0d52d43030  UNSUPPORTED  no such file:" in table.render(80).plain


def test_a_one_line_row_is_cut_on_a_terminal_and_whole_in_a_pipe() -> None:
    label = "Priority " * 30
    table = points_table(("p-1", label, "1"), ("p-2", label, "2"), one_line=True)
    narrow, wide = terminal(60), pipe()
    narrow.print_table(table)
    wide.print_table(table)
    assert [row["label"].endswith("…") for row in table_rows(printed(narrow))] == [True, True]
    assert label.strip() in printed(wide)


def test_an_optional_column_without_values_is_omitted() -> None:
    table = Table("point", Column("note", optional=True))
    table.add_row("p-1", "")
    assert "note" not in table.render(80).plain


def test_wide_characters_take_two_cells() -> None:
    assert wrapped("日本語 日本", 6) == ["日本語", "日本"]
    table = Table("a", "b")
    table.add_row("日本", "x")
    table.add_row("abcd", "y")
    assert [line.rstrip() for line in table.render(20).plain.splitlines()[1:]] == [
        "日本  x",
        "abcd  y",
    ]


def test_shared_words_are_split_from_labels() -> None:
    assert without_shared(["a b c", "a d c"]) == (["b", "d"], "a c")


def test_a_thousand_rows_are_all_rendered() -> None:
    table = points_table(*((f"p-{n}", f"mxfp8 s={n}", "1") for n in range(1000)))
    assert len(table) == len(table_rows(table.render(60).plain)) == 1000
