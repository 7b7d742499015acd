"""Summary lines of the GPU machine's tests and of compute-sanitizer are kept verbatim."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tools.gpu import checks as gpu_checks
from tools.gpu.checks import run_check

RECORD = Path(__file__).parents[2] / "docs" / "results" / "h200_checks.json"


def test_a_command_is_kept_with_its_summary_lines() -> None:
    program = "print('noise'); print('=== 3 passed, 1 skipped in 2 s ==='); raise SystemExit(3)"
    found = run_check(("python", "-c", program))
    assert (found["exit_code"], found["says"]) == (3, ["3 passed, 1 skipped in 2 s"])
    missing = run_check(("no-such-program", "x"))
    assert missing["exit_code"] == 1
    assert "no-such-program" in missing["says"][0]


def test_a_failed_command_fails_the_run_and_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = (("python", "-c", "raise SystemExit(1)"), ("python", "-c", "print('2 passed')"))
    monkeypatch.setattr(gpu_checks, "COMMANDS", commands)
    monkeypatch.setattr(gpu_checks, "machine", lambda commit: {"commit": commit})
    out = tmp_path / "checks.json"
    assert gpu_checks.main(["--output", str(out), "--commit", "abc"]) == 1
    found = json.loads(out.read_text())
    assert [one["exit_code"] for one in found["checks"]] == [1, 0]
    assert found["machine"] == {"commit": "abc"}


def test_the_committed_run_is_of_these_commands_and_clean() -> None:
    checks = json.loads(RECORD.read_text())["checks"]
    assert [one["exit_code"] for one in checks] == [0] * len(gpu_checks.COMMANDS)
    for one, words in zip(checks, gpu_checks.COMMANDS, strict=True):
        assert one["command"].endswith(shlex.join(words))
        assert one["says"]
