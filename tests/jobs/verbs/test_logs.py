"""`logs` prints the end of each log, and counts what precedes it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jobs.status.log_search import TAIL_BYTES
from jobs.terminal.console import Console
from jobs.verbs.logs import show_log
from tests.builders.ledger import FakeSweep
from tests.launcher import Launcher


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "output.log"


def test_earlier_lines_are_counted(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_text("one\ntwo\nthree\n")
    show_log(log, 2, Console())
    _, note, *lines = capsys.readouterr().out.splitlines()
    assert ("1 earlier line" in note, "lines=3" in note) == (True, True)
    assert lines == ["two", "three"]
    show_log(log, 3, Console())
    assert "[..." not in capsys.readouterr().out


@pytest.mark.parametrize("end", ["\n", "\r", " "])
def test_skipped_bytes_are_noted(log: Path, capsys: pytest.CaptureFixture[str], end: str) -> None:
    log.write_text(f"{'x' * 1023}{end}" * 100 + "the end\n", newline="")
    show_log(log, 2, Console())
    _, note, *lines = capsys.readouterr().out.splitlines()
    skipped = re.search(rf"(\d+) bytes skipped.*{log}", note)
    assert skipped is not None
    assert log.read_bytes()[int(skipped[1]) :].startswith(b"x" * 1023)
    assert int(skipped[1]) >= 100 * 1024 + 8 - TAIL_BYTES
    assert lines[-1].endswith("the end")
    log.write_text("short\n")
    show_log(log, 2, Console())
    assert "[..." not in capsys.readouterr().out


def test_logs_of_the_point_and_of_its_job_are_printed_once(launcher: Launcher) -> None:
    sweep = FakeSweep.plan(launcher.runs_dir, [{}, {}])
    sweep.submit("14", list(sweep.points), array=False)
    sweep.job_log("14_0_log.out", "from the job\n")
    assert launcher("logs", "p-0000").out.count("from the job") == 1
    sweep.attempt("14", "p-0000", log="from the point\n")
    result = launcher("logs", "14")
    assert result.code == 0
    assert [result.out.count(f"from the {name}") for name in ("job", "point")] == [1, 1]


def test_without_a_log_the_exit_code_is_3(launcher: Launcher) -> None:
    FakeSweep.plan(launcher.runs_dir, [{}])
    assert launcher("logs").code == 3
    assert "lines" in launcher("logs", "lines=0").refusal()
