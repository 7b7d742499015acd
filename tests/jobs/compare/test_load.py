"""What a word of `compare` means, and which collections a history is made of."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from jobs.collect.gather import collect
from jobs.compare.load import load_side, stored_collections
from jobs.errors import JobError
from tests.builders.ledger import passed_sweep


def test_a_sweep_is_read_where_it_lies_and_nothing_is_written(tmp_path: Path) -> None:
    sweep = passed_sweep(tmp_path / "runs")
    for word in ("latest", "14", sweep.ledger.sweep_id, f"{sweep.ledger.root}/"):
        assert len(load_side(word, tmp_path / "runs", tmp_path / "results").points) == 3
    assert not (tmp_path / "results").exists()


def test_a_collection_outlives_its_sweep(tmp_path: Path) -> None:
    sweep = passed_sweep(tmp_path / "runs")
    collect(["latest"], tmp_path / "runs", tmp_path / "results")
    shutil.rmtree(tmp_path / "runs")
    found = load_side(sweep.ledger.sweep_id, tmp_path / "runs", tmp_path / "results")
    assert [point.state for point in found.points] == ["PASSED"] * 3
    assert all(point.record for point in found.points)


def test_a_word_that_means_nothing_is_refused(tmp_path: Path) -> None:
    for word in ("14", "no/where", "no/where.json"):
        with pytest.raises(JobError):
            load_side(word, tmp_path / "runs", tmp_path / "results")


def test_a_damaged_collection_is_no_traceback(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "s-1"
    folder.mkdir(parents=True)
    (folder / "collection.json").write_text("{")
    with pytest.raises(JobError):
        load_side(f"{folder}/", tmp_path / "runs", tmp_path / "results")
    assert stored_collections(tmp_path / "results") == []
    assert stored_collections(tmp_path / "none") == []
