"""docs/numerics.md agrees with the code and the stored predictions."""

from __future__ import annotations

from pathlib import Path

import pytest

from conf.schema import CalibratedTolerance
from tests.mxfp8_attention import mutant_table
from tools.numerics_tables import TABLES, in_markers, main, markdown

DOCUMENT = Path(__file__).parents[2] / "docs" / "numerics.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", TABLES)
def test_the_tables_are_those_of_the_stored_predictions(name: str) -> None:
    assert in_markers(TEXT, name, TABLES[name]()) == TEXT


def rows(table: str) -> list[list[str]]:
    """The cells of a Markdown table, below its rule."""
    return [line.strip("| \n").split(" | ") for line in table.splitlines()[2:]]


def test_the_mutants_table_has_the_verdicts_of_the_gates() -> None:
    """Verdicts must match exactly, distances and counts as far as CPUs agree."""
    written = TEXT.partition("<!-- table mutants -->\n")[2].partition("<!-- end mutants -->")[0]
    computed = mutant_table.table()
    assert written.splitlines()[:2] == computed.splitlines()[:2]
    for old, new in zip(rows(written), rows(computed), strict=True):
        assert old[0] == new[0]
        for old_cell, new_cell in zip(old[1:], new[1:], strict=True):
            if new_cell[0].isdigit():
                assert float(new_cell) == pytest.approx(float(old_cell), rel=0.1, abs=0.1)
            else:
                assert new_cell.partition(" ")[0] == old_cell.partition(" ")[0], new[0]


def test_the_factors_that_it_explains_are_the_defaults() -> None:
    for name, value in vars(CalibratedTolerance()).items():
        if name != "name":
            (row,) = [line for line in TEXT.splitlines() if f"`{name}`" in line and "|" in line]
            assert f"{value:g}" in row


def test_no_table_is_empty() -> None:
    for name in (*TABLES, "mutants", "margins"):
        assert in_markers(TEXT, name, "") != TEXT, name


def test_a_table_of_numbers_has_them_to_the_right() -> None:
    assert markdown(["name", "error"], [["q", "0.1"], ["k", "0.2"]]) == (
        "| name | error |\n| --- | ---: |\n| q | 0.1 |\n| k | 0.2 |\n"
    )


def test_a_document_without_the_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="no markers of table path"):
        in_markers("no markers", "path", "")


def test_the_command_restores_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "numerics.md"
    copy.write_text(in_markers(TEXT, "path", ""), encoding="utf-8")
    assert main([str(copy)]) == 0
    assert copy.read_text(encoding="utf-8") == TEXT
    assert main([]) == 2
    assert "docs/numerics.md" in capsys.readouterr().err
