"""A terminal shows for how long a point runs and what its log said last; nothing else does."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from jobs.sweeps.ledger import Ledger
from jobs.terminal import running_line as module
from jobs.terminal.console import Console
from jobs.terminal.running_line import last_progress, newest_log, running_line


def log_of(ledger: Ledger, point: str, text: str, age_s: int) -> Path:
    attempt = ledger.point_folder("local-1", point) / "attempt-1"
    attempt.mkdir(parents=True)
    (attempt / "output.log").write_text(text)
    moment = 1_700_000_000 - age_s
    os.utime(attempt, (moment, moment))
    return attempt / "output.log"


def test_the_last_line_of_the_newest_log_is_quoted(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path)
    assert last_progress(newest_log(ledger.root)) == "starting"
    log_of(ledger, "p-1", "[10:00:00] of before\n", age_s=60)
    new = log_of(ledger, "p-2", "[10:00:01] FP32 reference computed\nnoise\x1b[2J\n", age_s=0)
    assert newest_log(ledger.root) == new
    assert last_progress(new) == "FP32 reference computed"
    new.write_text("[10:00:01] \x1b]0;title\x07 and [red]markup[/]\n")
    assert "\x1b" not in last_progress(new)


@pytest.mark.parametrize("terminal", [True, False])
def test_the_line_is_drawn_on_a_terminal_alone_and_goes(
    tmp_path: Path, terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAUSE_S", 0.0)
    ledger = Ledger.create(tmp_path)
    log_of(ledger, "p-1", "[10:00:00] block 3 of 20 [/x]\n", age_s=0)
    text = io.StringIO()
    with running_line(Console(file=text, terminal=terminal, width=80), ledger.root) as tick:
        tick()
        tick()
        drawn = text.getvalue()
    assert ("block 3 of 20 [/x]" in drawn) is terminal
    assert text.getvalue().endswith("\x1b[2K") is terminal or text.getvalue() == ""
