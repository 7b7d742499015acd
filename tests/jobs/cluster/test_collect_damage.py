"""Whatever bytes a folder holds, collecting ends with every planned point counted once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.cluster.collect import collect
from jobs.cluster.compare import compare
from jobs.cluster.compare_show import page
from jobs.cluster.ledger import Ledger
from jobs.cluster.report import Plots, render
from tests.jobs.cluster.fake_ledger import passed_sweep

RECORD = "14/p-0001/attempt-1/record.json"
FILES = (RECORD, "14/p-0001/attempt-1/started.json", "plan.jsonl", "jobs.jsonl", "sweep.json")
NO_PLOTS = Plots([], [], [], [], 0)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
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
    found = collect([f"{ledger.root}/"], runs_dir, runs_dir.parent / "results", report=False)
    totals = found.totals
    assert totals.pop("planned") == sum(totals.values()) == len(found.points)
    assert {"p-0000", "p-0001", "p-0002"} <= {point.point_id for point in found.points}
    assert "</html>" in render(found, NO_PLOTS)
    (compared,) = compare([found, found])
    assert "</html>" in page(compared)


def paths_of(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a JSON value."""
    inner: list[tuple[Any, ...]] = []
    if isinstance(value, dict):
        inner = [found for key, held in value.items() for found in paths_of(held, (*path, key))]
    elif isinstance(value, list):
        # The first of a list stands for the others: there are hundreds of samples.
        inner = [
            found
            for index, held in enumerate(value[:1])
            for found in paths_of(held, (*path, index))
        ]
    return [path, *inner]


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_record_with_any_value_anywhere(ledger: Ledger, data: st.DataObject) -> None:
    path = ledger.root / RECORD
    good = path.read_text()
    held = json.loads(good)
    place = data.draw(st.sampled_from(paths_of(held)))
    value = data.draw(json_values)
    if not place:
        held = value
    else:
        part = held
        for key in place[:-1]:
            part = part[key]
        part[place[-1]] = value
    try:
        path.write_text(json.dumps(held))
        assert_counted(ledger)
    finally:
        path.write_text(good)


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
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


def test_a_results_folder_that_cannot_be_written_is_told(ledger: Ledger, tmp_path: Path) -> None:
    blocked = tmp_path / "results"
    blocked.write_text("a file")
    with pytest.raises(OSError, match="results"):
        collect([f"{ledger.root}/"], ledger.root.parent, blocked, report=False)
