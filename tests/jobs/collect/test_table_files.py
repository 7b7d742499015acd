"""Parquet, CSV and JSON hold the same table, typed, and run nothing in a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow.parquet
import pytest

from jobs.collect.points_table import COLUMNS, Value, row
from jobs.collect.table_files import csv_text, json_text, write_parquet
from jobs.record import State
from jobs.status.point_result import PointResult
from tests.builders.records import point_config, record
from tests.builders.runs import collected


def rows(**changes: Value) -> list[dict[str, Value]]:
    """One point that passed, some of whose cells are changed, and one that waits."""
    waiting = PointResult("p-2", "s-1", point_config(), State.PENDING)
    return [row(collected(record("p-1", point_config()))) | changes, row(waiting)]


def read_csv(table: list[dict[str, Value]]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_text(table))))


def test_the_three_files_hold_the_same_values(tmp_path: Path) -> None:
    table = rows()
    write_parquet(table, tmp_path / "points.parquet")
    stored = pyarrow.parquet.read_table(tmp_path / "points.parquet")
    assert stored.column_names == list(COLUMNS)
    assert stored.to_pylist() == table == json.loads(json_text(table))
    read = read_csv(table)
    assert read[0]["fprop_speedup"] == str(table[0]["fprop_speedup"])
    assert read[1]["fprop_speedup"] == ""


def test_a_table_without_rows_keeps_its_types(tmp_path: Path) -> None:
    write_parquet([], tmp_path / "points.parquet")
    schema = pyarrow.parquet.read_schema(tmp_path / "points.parquet")
    assert str(schema.field("recipe_fprop_median_ms").type) == "double"
    assert json.loads(json_text([])) == []


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1"])
def test_text_that_a_spreadsheet_would_run_is_made_harmless(text: str) -> None:
    read = read_csv(rows(reason=text))
    assert read[0]["reason"] == f"'{text}".replace("\r", "\n")


def test_a_negative_number_stays_a_number() -> None:
    read = read_csv(rows(duration_s=-0.5))
    assert read[0]["duration_s"] == "-0.5"


@pytest.mark.parametrize("text", ['a "quoted", field\nof two lines', "\ud800 lone", "nul\x00"])
def test_odd_text_breaks_no_file(tmp_path: Path, text: str) -> None:
    table = rows(reason=text)
    write_parquet(table, tmp_path / "points.parquet")
    read = read_csv(table)
    assert len(read) == len(json.loads(json_text(table))) == 2
    assert None not in read[0]
