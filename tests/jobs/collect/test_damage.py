"""Whatever bytes a folder holds, collecting ends with every planned point counted once."""

from __future__ import annotations

import json
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.collect.gather import collect
from jobs.collect.store import load_collection
from jobs.compare.comparison import compare
from jobs.compare.page import page
from jobs.report.plots.report_plots import Plots
from jobs.report.report import render
from jobs.status.collection import Collection
from jobs.sweeps.ledger import Ledger
from tests.builders.ledger import passed_sweep

RECORD = "14/p-0001/attempt-1/record.json"
FILES = (RECORD, "14/p-0001/attempt-1/started.json", "plan.jsonl", "jobs.jsonl", "sweep.json")

ANY_TIME: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture],
}
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.just(10**400)  # no float can hold it
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["NaN", "Infinity", "-Infinity", "../..", "<script>", "=1+1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    return passed_sweep(tmp_path_factory.mktemp("damage") / "runs").ledger


def assert_counted(ledger: Ledger) -> None:
    runs_dir = ledger.root.parent
    found = collect([f"{ledger.root}/"], runs_dir, runs_dir.parent / "results")
    totals = found.totals
    assert totals.pop("planned") == sum(totals.values()) == len(found.points)
    assert {"p-0000", "p-0001", "p-0002"} <= {point.point_id for point in found.points}
    assert "</html>" in render(found, Plots())
    (compared,) = compare([found, found])
    assert "</html>" in page(compared)


def paths_of(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a JSON value."""
    inner: list[tuple[Any, ...]] = []
    if isinstance(value, dict):
        inner = [found for key, held in value.items() for found in paths_of(held, (*path, key))]
    elif isinstance(value, list):
        # The first of a list stands for the others: there are hundreds of samples.
        inner = [found for held in value[:1] for found in paths_of(held, (*path, 0))]
    return [path, *inner]


@settings(max_examples=25, **ANY_TIME)
@given(data=st.data())
def test_a_record_with_any_value_anywhere(ledger: Ledger, data: st.DataObject) -> None:
    path = ledger.root / RECORD
    good = path.read_text()
    held = json.loads(good)
    place = data.draw(st.sampled_from(paths_of(held)))
    value = data.draw(json_values)
    if place:
        *parents, leaf = place
        reduce(getitem, parents, held)[leaf] = value
    else:
        held = value
    try:
        path.write_text(json.dumps(held))
        assert_counted(ledger)
    finally:
        path.write_text(good)


@settings(max_examples=20, **ANY_TIME)
@given(
    name=st.sampled_from(FILES),
    start=st.integers(0, 3000),
    junk=st.binary(max_size=12),
    cut=st.booleans(),
)
def test_a_file_with_any_bytes_anywhere(
    ledger: Ledger, name: str, start: int, junk: bytes, cut: bool
) -> None:
    path = ledger.root / name
    good = path.read_bytes()
    start = min(start, len(good))
    try:
        path.write_bytes(good[:start] + junk + (b"" if cut else good[start + len(junk) :]))
        assert_counted(ledger)
    finally:
        path.write_bytes(good)


@pytest.fixture
def fresh(tmp_path: Path) -> Ledger:
    """A sweep that a test may damage for good."""
    return passed_sweep(tmp_path / "runs").ledger


def gathered(ledger: Ledger) -> Collection:
    return collect([f"{ledger.root}/"], ledger.root.parent, ledger.root.parent.parent / "out")


def test_a_plan_that_lost_a_line_is_a_problem_and_never_exits_with_0(fresh: Ledger) -> None:
    assert gathered(fresh).exit_code() == 0
    lines = fresh.plan_jsonl.read_text().splitlines(keepends=True)
    fresh.plan_jsonl.write_text("".join(lines[:-1]))
    found = gathered(fresh)
    (problem,) = found.problems
    assert (problem.file, problem.of_plan) == ("plan.jsonl", True)
    assert found.exit_code() == 3
    assert found.folder is not None
    assert load_collection(found.folder).exit_code() == 3


@pytest.mark.parametrize("name", ["plan.jsonl", "sweep.json"])
@pytest.mark.parametrize("damaged", [True, False])
def test_an_unreadable_plan_never_exits_with_0(fresh: Ledger, name: str, damaged: bool) -> None:
    path = fresh.root / name
    text = path.read_text()
    path.unlink()
    if damaged:
        path.write_text(text + "{\n")
    collection = gathered(fresh)
    assert [problem.file.partition(":")[0] for problem in collection.problems] == [name]
    assert collection.exit_code() == 3


def test_a_damaged_plan_is_a_problem_of_its_own_sweep(tmp_path: Path) -> None:
    one, other = (passed_sweep(tmp_path / "runs").ledger for _ in range(2))
    other.plan_jsonl.write_text(other.plan_jsonl.read_text() + "{\n")
    found = collect([f"{one.root}/", f"{other.root}/"], tmp_path / "runs", tmp_path / "out")
    (problem,) = found.problems
    assert problem.file.partition(":")[0] == f"{other.sweep_id}/plan.jsonl"
    assert found.exit_code() == 3


def test_a_record_of_another_point_is_damage(fresh: Ledger) -> None:
    before = gathered(fresh)
    assert before.folder is not None
    for root in (fresh.root, before.folder / "jobs"):
        (target,) = root.glob("*/p-0001/attempt-1/record.json")
        (source,) = root.glob("*/p-0000/attempt-1/record.json")
        target.write_bytes(source.read_bytes())
    what = "is the record of 'p-0000', not of 'p-0001'"
    assert [problem.what for problem in load_collection(before.folder).problems] == [what]
    found = gathered(fresh)
    assert [problem.what for problem in found.problems] == [what]
    point = next(point for point in found.points if point.point_id == "p-0001")
    assert (point.state, point.cause, point.record) == ("ERROR", "lost", None)
    assert point.reason == f"record.json {what}"
    assert found.exit_code() == 1


def test_results_that_cannot_be_written_are_an_error(ledger: Ledger, tmp_path: Path) -> None:
    blocked = tmp_path / "results"
    blocked.write_text("a file")
    with pytest.raises(OSError, match="results"):
        collect([f"{ledger.root}/"], ledger.root.parent, blocked)
