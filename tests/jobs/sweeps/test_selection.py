"""Ids and folders are resolved to sweeps and points, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.errors import LedgerError, UnknownId
from jobs.sweeps.ids import LocalTarget
from jobs.sweeps.ledger import JobLine, now
from jobs.sweeps.reading import read_sweep
from jobs.sweeps.selection import Selection, select
from tests.builders.ledger import FakeSweep, passed_sweep


@pytest.fixture
def sweep(tmp_path: Path) -> FakeSweep:
    """Three points, the tasks of job 14, whose internal id is 16."""
    return passed_sweep(tmp_path / "runs")


def selected(sweep: FakeSweep, word: str) -> list[str]:
    (selection,) = select([word], sweep.ledger.root.parent)
    return selection.points_of(read_sweep(selection.folder))


@pytest.mark.parametrize(
    ("word", "numbers"),
    [
        ("14", [0, 1, 2]),
        ("14.batch", [0, 1, 2]),
        ("16", [0, 1, 2]),
        ("14_1", [1]),
        ("14_[0,2]", [0, 2]),
        ("p-0001", [1]),
        ("latest", [0, 1, 2]),
    ],
)
def test_an_id_selects_points(sweep: FakeSweep, word: str, numbers: list[int]) -> None:
    assert selected(sweep, word) == [f"p-{number:04d}" for number in numbers]


@pytest.mark.parametrize("with_line", [True, False])
def test_a_local_job_is_found_by_its_line_or_its_folder(sweep: FakeSweep, with_line: bool) -> None:
    if with_line:
        line = JobLine(
            job_id="local-1", tasks={"0": ["p-0002"]}, scheduler="local", submitted_at=now()
        )
        sweep.ledger.add_job(line)
    else:
        sweep.attempt("local-1", "p-0002")
    assert selected(sweep, "local-1") == ["p-0002"]


def test_a_point_is_found_by_its_job_if_the_plan_is_damaged(sweep: FakeSweep) -> None:
    sweep.ledger.plan_jsonl.write_text("")
    assert selected(sweep, "p-0001") == ["p-0001"]


def test_repeated_ids_are_one_selection(sweep: FakeSweep) -> None:
    assert len(select(["14_1", "14_1", "p-0001"], sweep.ledger.root.parent)) == 2
    assert str(Selection(sweep.ledger.root)) == sweep.ledger.sweep_id
    assert str(Selection(sweep.ledger.root, LocalTarget("local-1"))) == "local-1"


@pytest.mark.parametrize(
    ("word", "kind"), [("15", "job"), ("14_3", "job"), ("local-2", "job"), ("p-9999", "point")]
)
def test_an_unknown_id_is_refused(sweep: FakeSweep, word: str, kind: str) -> None:
    with pytest.raises(UnknownId) as refused:
        selected(sweep, word)
    assert (refused.value.kind, refused.value.word) == (kind, word)


def test_the_nearest_sweep_is_suggested(sweep: FakeSweep) -> None:
    sweep_id = sweep.ledger.sweep_id
    with pytest.raises(UnknownId) as refused:
        selected(sweep, f"{sweep_id[:-1]}x")
    assert (refused.value.kind, refused.value.suggestion) == ("sweep", sweep_id)


def test_a_path_must_be_the_folder_of_one_sweep(sweep: FakeSweep, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    for name in ("runs", "notes.txt", "nowhere"):
        with pytest.raises(LedgerError) as refused:
            selected(sweep, f"{tmp_path}/{name}")
        assert refused.value.path == tmp_path / name
    assert len(selected(sweep, f"{sweep.ledger.root}/")) == 3
