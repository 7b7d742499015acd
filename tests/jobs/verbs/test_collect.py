"""collect as a user types it: what it says, writes and ends with."""

from __future__ import annotations

import os
import stat

import pytest

from jobs.record import Outcome
from tests.builders.ledger import FakeSweep, passed_sweep
from tests.builders.records import point_config, record
from tests.launcher import Launcher


def ended(launcher: Launcher, outcome: Outcome) -> None:
    sweep = FakeSweep.plan(launcher.runs_dir, [point_config()])
    sweep.submit("14", ["p-0000"], array=False)
    sweep.attempt("14", "p-0000", record("p-0000", point_config(), outcome, job_id="14"))


@pytest.mark.parametrize(
    ("outcome", "code", "allowed"),
    [
        (Outcome.PASSED, 0, 0),
        (Outcome.FAILED, 1, 1),
        (Outcome.ERROR, 1, 1),
        (Outcome.UNSUPPORTED, 3, 0),
    ],
)
def test_the_exit_code_follows_from_the_outcome(
    launcher: Launcher, outcome: Outcome, code: int, allowed: int
) -> None:
    ended(launcher, outcome)
    assert launcher("collect", "14", "report=false").code == code
    assert launcher("collect", "14", "report=false", "allow_unsupported=true").code == allowed


def test_a_folder_without_points_is_refused(launcher: Launcher) -> None:
    (launcher.cwd / "empty").mkdir()
    assert launcher("collect", "./empty", "report=false").code == 2


def test_files_and_problems_are_listed(launcher: Launcher) -> None:
    sweep = passed_sweep(launcher.runs_dir)
    (sweep.ledger.root / "14/p-0001/attempt-1/record.json").write_text("{")
    result = launcher("collect", "latest", "report=false")
    assert result.code == 1
    assert "damaged: 14/p-0001/attempt-1/record.json: " in result.out
    assert f"Collected: {launcher.results_dir / sweep.ledger.sweep_id}" in result.out
    assert "3 planned" in result.out
    assert "Files: points.csv, points.parquet, points.json, junit.xml, review.md" in result.out
    assert f"latest is {sweep.ledger.sweep_id}" in result.out


def test_a_collection_is_private_whatever_the_umask(launcher: Launcher) -> None:
    sweep = passed_sweep(launcher.runs_dir)
    (sweep.ledger.root / "14/p-0001/attempt-1/record.json").chmod(0o644)
    before = os.umask(0o022)
    try:
        assert launcher("collect", "latest").code == 0
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)
    found = [launcher.results_dir, *launcher.results_dir.rglob("*")]
    assert {path.name for path in found} >= {"report.html", "points.parquet", "plots", "14"}
    modes = {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in found}
    assert modes == {(True, 0o700), (False, 0o600)}
