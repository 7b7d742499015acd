"""A job runs each point of its slot once, and records the truth about those that could not run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs.record import Record, read_record
from jobs.runner.attempt import NO_RECORD
from jobs.runner.slot import JOB_UPTIME, time_left_s
from jobs.schedulers.slurm.node_archive import pack_entry
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.launching import install_stand_in

RUN = "import sys; from jobs.runner.slot import run_slot; print(run_slot(sys.argv[1]))"


class Slot:
    """A slot as submitted, run without SLURM by a bare interpreter."""

    def __init__(self, sweep: Path) -> None:
        self.sweep = sweep
        self.file = sweep / "submission.json"
        self.archive = pack_entry(sweep)

    def submit(self, *acts: int, **fields: object) -> Slot:
        """Write a submission with one point for each act; `fields` replaces its fields."""
        (self.sweep / "points").mkdir()
        points = [f"p-{index}" for index in range(len(acts))]
        for point_id, act in zip(points, acts, strict=True):
            config = {"shape": {"seed": act}}
            given = {"point_id": point_id, "sweep_id": "s", "command": "c", "point": config}
            (self.sweep / "points" / f"{point_id}.json").write_text(json.dumps(given))
        submission = {
            "sweep": str(self.sweep),
            "python": str(install_stand_in(self.sweep)),
            "root": "/nowhere",
            "tasks": {"0": ["never"], "3": points},
            "time_min": 60,
            "warning_s": 60,
            "point_time_limit_s": None,
            "max_log_mib": None,
        }
        self.file.write_text(json.dumps(submission | fields))
        return self

    def start(self, program: str = RUN, **variables: str) -> subprocess.Popen[str]:
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(self.archive)}
        env |= {"SLURM_JOB_ID": "17", "SLURM_ARRAY_JOB_ID": "14", "SLURM_ARRAY_TASK_ID": "3"}
        command = [sys.executable, "-s", "-S", "-c", program, str(self.file)]
        return subprocess.Popen(
            command, env=env | variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, cwd="/",
        )  # fmt: skip

    def run(self, program: str = RUN, **variables: str) -> tuple[int, str]:
        """Run to the end; return exit code and output."""
        with self.start(program, **variables) as process:
            output, _ = process.communicate(timeout=50)
        assert "Traceback" not in output
        return process.returncode, output

    def run_and_signal(self, number: signal.Signals) -> int:
        """Send a signal once the first point has started; return the exit code."""
        with self.start() as process:
            wait(lambda: bool(list(self.sweep.glob("14/p-0/attempt-1/started.json"))))
            process.send_signal(number)
            return process.wait(30)

    def records(self) -> list[Record]:
        return [read_record(path) for path in sorted(self.sweep.glob("14/p-*/*/record.json"))]

    def outcomes(self) -> list[str]:
        return [f"{record.outcome} {record.cause or ''}".strip() for record in self.records()]


@pytest.fixture
def slot(tmp_path: Path) -> Slot:
    return Slot(tmp_path)


def wait(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def write_record(folder: Path, **fields: Any) -> None:  # noqa: ANN401 - JSON
    folder.mkdir(parents=True)
    content = {"outcome": "FAILED", "cause": None, "identity": {"point_id": "p"}, "config": {}}
    (folder / "record.json").write_text(json.dumps(content | fields))


def test_every_point_runs_once_under_its_array_job(slot: Slot) -> None:
    slot.submit(node.PASS, node.RAISES, node.FAIL).run()
    assert slot.outcomes() == ["PASSED", "ERROR exception", "FAILED"]
    identities = [record.identity for record in slot.records()]
    assert {(one.job_id, one.raw_job_id) for one in identities} == {("14_3", "17")}


def test_a_record_that_cannot_be_written_costs_its_point_alone(slot: Slot) -> None:
    slot.submit(node.PASS, node.PASS)
    (slot.sweep / "14").mkdir()
    (slot.sweep / "14" / "p-0").write_text("a file instead of a folder")
    code, output = slot.run()
    assert code == os.EX_IOERR
    assert set(NO_RECORD.findall(output)) == {"p-0"}
    assert slot.outcomes() == ["PASSED"]


def test_a_requeued_job_keeps_finished_points_and_repeats_the_others(slot: Slot) -> None:
    slot.submit(node.PASS, node.PASS, node.PASS)
    killed = slot.sweep / "14" / "p-0" / "attempt-1"
    killed.mkdir(parents=True)
    (killed / "started.json").write_text("{}")
    write_record(slot.sweep / "14" / "p-1" / "attempt-1")
    write_record(slot.sweep / "14" / "p-2" / "attempt-1", outcome="ERROR", cause="storage")
    slot.run(SLURM_RESTART_COUNT="1")
    assert slot.outcomes() == ["PASSED", "FAILED", "ERROR storage", "PASSED"]
    attempts = [path.name for path in sorted(slot.sweep.glob("14/p-*/attempt-*"))]
    assert attempts == ["attempt-1", "attempt-2", "attempt-1", "attempt-1", "attempt-2"]


def test_a_job_that_is_asked_to_end_leaves_the_cause_to_the_scheduler(slot: Slot) -> None:
    slot.submit(node.HANGS, node.PASS)
    assert slot.run_and_signal(signal.SIGTERM) == 128 + signal.SIGTERM
    assert slot.records() == []


def test_a_signal_between_fork_and_exec_is_not_lost(slot: Slot) -> None:
    slot.submit(node.HANGS, node.PASS)
    kill = "import os, signal; os.register_at_fork(before=lambda: os.kill(os.getpid(), 15)); "
    code, output = slot.run(kill + RUN)
    assert code == 128 + signal.SIGTERM, output
    assert slot.records() == []


def test_a_moved_time_limit_is_a_timeout_with_a_record_for_every_point(slot: Slot) -> None:
    slot.submit(node.HANGS, node.PASS)
    assert slot.run_and_signal(signal.SIGUSR2) == 0
    assert slot.outcomes() == ["ERROR timeout", "ERROR timeout"]
    warned, not_started = (record.reason for record in slot.records())
    assert warned != not_started


def test_an_early_warning_does_not_end_a_short_job(slot: Slot) -> None:
    slot.submit(node.SLOW_PASS, time_min=1, warning_s=10)
    assert slot.run_and_signal(signal.SIGUSR2) == 0
    assert slot.outcomes() == ["PASSED"]


def test_a_point_ends_before_its_job_does(slot: Slot) -> None:
    slot.submit(node.HANGS).run(SLURM_JOB_START_TIME="1000", SLURM_JOB_END_TIME="1003")
    assert slot.outcomes() == ["ERROR timeout"]
    assert "60 min" in slot.records()[0].reason


@pytest.mark.parametrize(
    ("variables", "left_s"),
    [
        ({}, 3600),
        ({"START": "9" * 5000, "END": "9" * 5000}, 3600),
        ({"END": "1200"}, 3600),  # alone, it comes from a clock that may be wrong
        ({"START": "1000", "END": "1200"}, 200),
        ({"START": "1000", "END": "1200", JOB_UPTIME: "4950.5"}, 150.5),
        ({"START": "1000", "END": "1200", JOB_UPTIME: "6000"}, 200),
    ],
    ids=lambda value: str(value)[:30],
)
def test_only_timestamps_of_one_clock_are_subtracted(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], left_s: float
) -> None:
    monkeypatch.setattr(time, "clock_gettime", lambda clock: 5000.0)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    names = {"START": "SLURM_JOB_START_TIME", "END": "SLURM_JOB_END_TIME"}
    env = {names.get(name, name): value for name, value in variables.items()}
    assert time_left_s(60, env) == left_s
