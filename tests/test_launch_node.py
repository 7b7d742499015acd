"""Points run by the real node: records of a multirun, and a process killed at any moment."""

from __future__ import annotations

import pytest

from jobs.record import Cause, Outcome, Started, read_record
from tests.killed_node import AFTER_STARTED, AT_RECORD, BEFORE_STARTED, IN_VALIDATION, install
from tests.launcher import Launcher

pytestmark = pytest.mark.timeout(180)  # nine processes import torch; a busy machine takes long
MOMENTS = {128: BEFORE_STARTED, 256: AFTER_STARTED, 384: IN_VALIDATION, 512: AT_RECORD}


def test_a_multirun_leaves_a_record_each_and_one_table(launcher: Launcher) -> None:
    words = ["--multirun", "shape=tiny", "shape.seq_len=128,256", "recipe=bf16,mxfp8"]
    text = launcher.output(*words, "benchmark=off", "tolerance=none")
    records = launcher.records()
    assert all(record.outcome is Outcome.PASSED for record in records)
    points = [(one.config["shape"]["seq_len"], one.config["recipe"]["name"]) for one in records]
    assert points == [(128, "bf16"), (128, "mxfp8"), (256, "bf16"), (256, "mxfp8")]
    rows = [line.split()[0] for line in text.splitlines() if line.lstrip()[:2] == "p-"]
    assert rows == [record.identity.point_id for record in records]
    assert list(launcher.cwd.iterdir()) == []


def test_a_run_claims_no_speed_of_an_emulated_arm(launcher: Launcher) -> None:
    short = {"blocks": 2, "iterations_per_block": 1, "warmup_max_iterations": 3}
    words = [f"benchmark.{key}={value}" for key, value in short.items()]
    result = launcher("benchmark=quick", *words)
    record = launcher.record()
    assert result.code == 0, record.reason
    for start in ("[PERF] b=1 s=128:", "  Fprop speedup:", "PASSED"):
        (line,) = (line for line in result.out.splitlines() if line.startswith(start))
        assert "emulated" in line
    for title in ("Availability", "Accuracy", "Time"):
        assert title in result.out


def test_a_point_killed_at_any_moment_is_an_error_without_a_half_file(launcher: Launcher) -> None:
    axis = ",".join(map(str, MOMENTS))
    python = f"cluster.python={install(launcher.folder, MOMENTS)}"
    result = launcher("sweep", f"shape.seq_len={axis}", "benchmark=off", python)
    assert (result.code, result.err) == (1, "")
    records = launcher.records()
    assert len(records) == len(MOMENTS)
    for record in records:
        assert (record.outcome, record.cause) == (Outcome.ERROR, Cause.crashed), record.reason
        assert "SIGKILL" in record.reason
        assert record.evidence[0].lines[-1] == "about to be killed"
    for attempt in launcher.ledger().root.glob("local-*/*/attempt-1"):
        record = read_record(attempt / "record.json")
        begun = MOMENTS[record.config["shape"]["seq_len"]] != BEFORE_STARTED
        names = {file.name for file in attempt.iterdir()}
        assert names == {"output.log", "record.json"} | ({"started.json"} if begun else set())
        if begun:
            started = Started.model_validate_json((attempt / "started.json").read_text())
            assert started.identity == record.identity
