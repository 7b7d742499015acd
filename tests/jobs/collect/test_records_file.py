"""A file of records: collected, compared and kept like what has folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobs.collect.gather import collect
from jobs.collect.records_file import load_records
from jobs.collect.store import load_collection
from jobs.compare.comparison import compare
from jobs.compare.load import load_side
from jobs.errors import RecordError, WrongIds
from tests.builders.runs import run

H200 = Path(__file__).parents[3] / "docs" / "results" / "h200.jsonl"


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def lines_of(scale: float = 1.0) -> list[str]:
    records = [point.record for point in run(scale=scale).points]
    return [record.model_dump_json() for record in records if record is not None]


def test_records_make_the_same_folder_as_jobs(tmp_path: Path) -> None:
    made = collect([str(H200)], tmp_path / "runs", tmp_path / "results")
    assert made.folder == tmp_path / "results" / "h200"
    names = {path.name for path in made.folder.iterdir()}
    assert {"points.csv", "points.parquet", "junit.xml", "review.md", "records"} <= names
    again = load_collection(made.folder)
    assert [point.record for point in again.points] == [point.record for point in made.points]
    assert again.totals == made.totals
    assert made.totals["planned"] == len(H200.read_text().splitlines())


def test_records_can_be_compared(tmp_path: Path) -> None:
    sides = [load_side(str(H200), tmp_path, tmp_path) for _ in range(2)]
    (found,) = compare(sides)
    assert found.exit_code in (0, 3)
    assert not found.only_first


def test_lines_are_records_or_named_records_of_which_the_last_counts(tmp_path: Path) -> None:
    first, second = lines_of()
    named = [
        json.dumps({"name": "a", "record": json.loads(line)}) for line in (first, second, first)
    ]
    assert len(load_records(written(tmp_path / "bare.jsonl", first, second)).points) == 2
    (point,) = load_records(written(tmp_path / "named.jsonl", *named)).points
    assert point.record == run().points[0].record


def test_a_line_that_is_not_a_record_is_a_problem(tmp_path: Path) -> None:
    path = written(tmp_path / "some.jsonl", lines_of()[0], "{", '{"record": {}}', "[" * 10_000)
    made = load_records(path)
    assert len(made.points) == 1
    assert [problem.file for problem in made.problems] == [f"some.jsonl:{n}" for n in (2, 3, 4)]


@pytest.mark.parametrize("text", ["", "{}", "\x00"])
def test_a_file_without_records_is_refused(tmp_path: Path, text: str) -> None:
    path = written(tmp_path / "none.jsonl", text)
    with pytest.raises(RecordError):
        collect([str(path)], tmp_path / "runs", tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_a_missing_file_and_a_file_beside_ids_are_refused(tmp_path: Path) -> None:
    missing = str(tmp_path / "no.jsonl")
    for words, error in (([missing], RecordError), ([str(H200), "latest"], WrongIds)):
        with pytest.raises(error):
            collect(words, tmp_path / "runs", tmp_path / "results")
