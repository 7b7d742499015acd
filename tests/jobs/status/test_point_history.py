"""What is told of a point whose job ended before it came to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobs.schedulers.scheduler import QueryResult
from jobs.schedulers.slurm.task import SlurmTask
from jobs.status.job_logs import JobLogs
from jobs.status.point_history import PointHistory
from jobs.sweeps.ledger import SUBMISSION_JSON, JobLine
from jobs.sweeps.reading import read_sweep
from tests.builders.ledger import FakeSweep
from tests.builders.records import asked


@pytest.mark.parametrize("text", [json.dumps({"python": "/nope/python"}), "[]", "{", None])
def test_an_interpreter_that_is_not_on_the_node_is_named(tmp_path: Path, text: str | None) -> None:
    sweep = FakeSweep.plan(tmp_path, [asked()])
    folder = sweep.ledger.root / "submissions" / "0"
    folder.mkdir(parents=True)
    if text is not None:
        (folder / SUBMISSION_JSON).write_text(text)
    line = JobLine(
        job_id="14",
        tasks={"0": ["p-0000"]},
        scheduler="slurm",
        submitted_at="2025-11-03T07:59:30.000+00:00",
        submission=0,
    )
    sweep.ledger.add_job(line)
    states = {"14": SlurmTask("14", "14", "FAILED", "exit code 127", node="n1")}
    sweep_files = read_sweep(sweep.ledger.root)
    history = PointHistory(sweep_files, "p-0000", JobLogs.of_sweep(sweep_files))
    point = history.with_answer(QueryResult(states), 0.0)
    assert (point.state, point.cause) == ("ERROR", "launch_failed")
    named = bool(text and "nope" in text)
    assert ("/nope/python" in point.reason) == named
