"""The page and the README say what the rows say, and a row that is told wrong is seen."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.record import Cause
from tests.faults import matrix
from tests.faults.matrix import Part, Place, Row, Told, fault
from tests.faults.page import DOCS, README, count_line, render, rows, with_counts

ROW = Row(
    Part.point, "it breaks", "ERROR", "why", Cause.lost, True, 1, Place.slurm, slow=False, note=""
)
RIGHT = Told("ERROR", "this is why", "lost", retried=True, code=1)


def test_the_page_is_what_the_rows_make_of_it() -> None:
    assert DOCS.read_text() == render(rows()), "python -m tests.faults.page writes it anew"


def test_the_readme_states_the_counts() -> None:
    text = README.read_text()
    assert count_line(rows()) in " ".join(text.split())
    assert with_counts(text, rows()) == text
    old = "has 1 faults\ninjected, 1 told right, 9 results lost."
    number = count_line(rows()).split()[0]
    due = f"has {number} faults\ninjected, {number} told right, 0 results lost."
    assert with_counts(old, rows()) == due


@pytest.mark.parametrize(
    ("told", "difference"),
    [
        (RIGHT, []),
        (Told("PASSED", "why", "lost", True, 1), ["told: 'ERROR', got 'PASSED'"]),
        (Told("ERROR", "why", None, True, 1), ["cause: 'lost', got None"]),
        (Told("ERROR", "why", "lost", False, 1), ["retried: True, got False"]),
        (Told("ERROR", "why", "lost", True, 0), ["exit code: 1, got 0"]),
        (Told("ERROR", "why", "lost", True, 1, lost=2), ["lost: 0, got 2"]),
        (Told("ERROR", "else", "lost", True, 1), ["quotes: 'why', not in: 'else'"]),
    ],
)
def test_a_row_sees_what_is_told_wrong(told: Told, difference: list[str]) -> None:
    assert ROW.differences(told) == difference


def test_rows_that_cannot_be_right_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "ROWS", {})
    words: Any = {"told": "ERROR", "quotes": "", "code": 1}
    fault(Part.point, "once", **words)
    with pytest.raises(ValueError, match="two rows are named 'once'"):
        fault(Part.point, "once", **words)
    with pytest.raises(ValueError, match="only infrastructure causes are tried again"):
        fault(Part.point, "other", cause=Cause.crashed, retried=True, **words)
