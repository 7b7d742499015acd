"""Sweeps and collections written before the layout of 2026-12 are read with the same states."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from jobs.collect.gather import collect
from jobs.collect.store import load_collection
from jobs.compare.comparison import compare
from jobs.compare.load import load_side
from jobs.record import Cause, State
from jobs.status.survey import survey
from jobs.sweeps.selection import select

DATA = Path(__file__).parents[2] / "data"
LOCAL, SLURM = "s-20261207-114506-d29df4", "s-20261207-114604-bb04b2"
STATES: dict[str, list[tuple[State, Cause | None]]] = {
    LOCAL: [(State.PASSED, None), (State.PASSED, None)],
    SLURM: [
        (State.PASSED, None),
        (State.FAILED, None),
        (State.UNSUPPORTED, None),
        (State.ERROR, Cause.crashed),
        (State.ERROR, Cause.cancelled),
    ],
}


@pytest.fixture
def runs_dir(tmp_path: Path) -> Path:
    """A copy of the sweeps, whose caches may be written."""
    shutil.copytree(DATA / "sweeps", tmp_path / "runs")
    return tmp_path / "runs"


@pytest.mark.parametrize("sweep_id", [LOCAL, SLURM])
def test_every_reader_shows_the_same_states(runs_dir: Path, tmp_path: Path, sweep_id: str) -> None:
    seen = survey(select([sweep_id], runs_dir), [])
    assert [(point.state, point.cause) for point in seen.points] == STATES[sweep_id]
    assert all(not sweep.problems for sweep in seen.sweeps)
    collection = collect([sweep_id], runs_dir, tmp_path / "results")
    assert [(point.state, point.cause) for point in collection.points] == STATES[sweep_id]
    assert collection.problems == []
    (found,) = compare([collection, load_side(sweep_id, runs_dir, tmp_path)])
    assert len(found.points) == len(STATES[sweep_id])


@pytest.mark.parametrize(
    ("word", "count"),
    [
        ("43268000", 5),
        ("43268000_[1-2]", 2),
        ("43268004", 1),
        ("p-acb37dcb731d", 1),
        ("latest", 5),
    ],
)
def test_any_id_finds_their_points(runs_dir: Path, word: str, count: int) -> None:
    assert len(survey(select([word], runs_dir), []).points) == count


def test_a_collection_is_read_with_its_records() -> None:
    collection = load_collection(DATA / "collections" / SLURM)
    assert [(point.state, point.cause) for point in collection.points] == STATES[SLURM]
    assert [point.record is not None for point in collection.points] == [True] * 4 + [False]
    assert collection.problems == []


def test_sweeps_in_a_snapshot_of_the_sources_are_not_read(runs_dir: Path) -> None:
    shutil.copytree(runs_dir / SLURM, runs_dir / LOCAL / "snapshot" / "tests" / "data" / SLURM)
    assert len(survey(select([LOCAL], runs_dir), []).points) == len(STATES[LOCAL])
