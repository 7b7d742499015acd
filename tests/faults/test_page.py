"""The page is rendered from the rows, and a row detects a wrong report."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from jobs.record import Cause
from tests.faults import matrix
from tests.faults.matrix import Part, Place, Report, Row, fault
from tests.faults.page import FUZZ, PAGE, SOAK, render, rows

ROW = Row(
    *(Part.point, "it breaks", "ERROR", Cause.lost, ("a.json",), True, 1, Place.slurm),
    slow=False,
    note="",
    module="",
)
RIGHT = Report("ERROR", "a.json is damaged", "lost", retried=True, code=1)


def test_the_page_is_rendered_from_the_rows() -> None:
    page = render(rows(), json.loads(SOAK.read_text()), json.loads(FUZZ.read_text()))
    assert PAGE.read_text() == page, "write it anew: python -m tests.faults.page"


def test_the_soak_of_the_page_ran_half_an_hour_on_committed_code_and_found_nothing() -> None:
    soak = json.loads(SOAK.read_text())
    assert soak["command"] == "python -m tests.soak --minutes 30 --seed 1"
    assert (soak["problems"], soak["dirty"], soak["duplicates"]) == (0, False, 0)
    assert soak["accounted"] == soak["points"]


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({}, None),
        ({"state": "PASSED"}, "reported"),
        ({"cause": None}, "cause"),
        ({"retried": False}, "retried"),
        ({"code": 0}, "code"),
        ({"lost": 2}, "lost"),
        ({"text": "nothing is damaged"}, "names"),
    ],
)
def test_a_row_detects_a_wrong_report(change: dict[str, Any], difference: str | None) -> None:
    differences = ROW.differences(replace(RIGHT, **change))
    assert set(differences) == ({difference} if difference else set())


def test_rows_that_cannot_be_right_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "ROWS", {})
    fault(Part.point, "once", "ERROR")
    with pytest.raises(ValueError, match="'once'"):
        fault(Part.point, "once", "ERROR")
    with pytest.raises(ValueError, match="only infrastructure causes"):
        fault(Part.point, "other", "ERROR", Cause.crashed, retried=True)
