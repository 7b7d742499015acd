"""`status` prints every point, the totals and the next command."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from jobs.schedulers.lock import submitting
from jobs.status.survey import Survey, survey
from jobs.sweeps.selection import Selection
from jobs.terminal.console import Console
from jobs.verbs.scope import Scope
from jobs.verbs.status import _watch, as_table, duration
from tests.builders.ledger import FakeSweep
from tests.builders.slurm import slurm
from tests.launcher import Launcher


def overview(folder: Path, *words: str, **fields: str) -> Survey:
    """A sweep with one point for each of SLURM's words."""
    sweep = FakeSweep.plan(folder, [{} for _ in words])
    ids = list(sweep.points)
    sweep.submit("14", ids)
    for number, word in enumerate(words):
        if word == "RUNNING":
            sweep.attempt("14", ids[number])
    states = {f"14_{number}": word for number, word in enumerate(words)}
    return survey([Selection(sweep.ledger.root)], [slurm(states, **fields)])


def test_a_table_that_is_too_long_keeps_the_totals_and_the_most_urgent_points(
    tmp_path: Path,
) -> None:
    points = overview(tmp_path, "PENDING", "PENDING", "TIMEOUT")
    complete = as_table(points).plain
    assert as_table(points, height=20).plain == complete
    lines = as_table(points, height=5).plain.splitlines()
    assert len(lines) == 5
    assert [line.split()[0] for line in lines[1:3]] == ["p-0002", "2"]
    assert lines[-1] == complete.splitlines()[-1] == "3 points: 1 ERROR, 2 PENDING"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_row_is_cut_and_not_wrapped(tmp_path: Path, width: int) -> None:
    points = overview(tmp_path, "PENDING", "PENDING", reason="Priority " * 30)
    rows = as_table(points, width=width).plain.splitlines()[:3]
    assert max(map(len, rows)) <= width
    assert all("PENDING" in row and row.endswith("…") for row in rows[1:])
    assert "Priority Priority" in as_table(points).plain


def test_notes_of_the_scheduler_are_shown(tmp_path: Path) -> None:
    points = overview(tmp_path, "PENDING", queue_error="no controller")
    assert as_table(points).plain.endswith(f"Note: {points.notes[0]}")


def test_durations_have_units() -> None:
    assert [duration(s) for s in (None, 0.4, 61, 3725)] == ["", "0 s", "1:01 min", "1:02:05 h"]


@pytest.mark.parametrize(
    ("words", "verb"), [(("PENDING", "RUNNING"), "status"), (("PENDING", "TIMEOUT"), "collect")]
)
def test_collect_is_suggested_once_a_point_has_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], verb: str
) -> None:
    Scope((), "s-1").show_next(overview(tmp_path, *words), Console())
    assert f"launch.py {verb} s-1" in capsys.readouterr().out


def test_a_watch_waits_for_a_process_that_is_still_submitting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = FakeSweep.plan(tmp_path, [{}, {}]).ledger
    selections = [Selection(ledger.root)]
    assert not survey(selections, []).under_way  # nobody will submit it
    lock = contextlib.ExitStack()
    lock.enter_context(submitting(ledger))
    points = survey(selections, [])
    assert (points.under_way, points.submitting) == (True, (ledger.sweep_id,))
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        lock.close()

    monkeypatch.setattr("jobs.verbs.status.time.sleep", pause)
    monkeypatch.setattr("jobs.verbs.scope.installed_schedulers", list)
    _watch(Scope(tuple(selections), ledger.sweep_id), 2.0, Console())
    assert pauses == [2.0]
    assert "2 points: 2 PLANNED" in capsys.readouterr().out


@pytest.mark.parametrize("seconds", ["0.5", "1e9"])
def test_an_interval_is_a_second_to_a_day(launcher: Launcher, seconds: str) -> None:
    FakeSweep.plan(launcher.runs_dir, [{}])
    assert "interval_s" in launcher("status", "watch=true", f"interval_s={seconds}").refusal()
