"""What a job runs on its node: each point of its slot once, and the truth where it could not."""

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

from jobs.runner.postmortem import oom_kills
from jobs.runner.slot import JOB_UPTIME, time_left_s
from jobs.schedulers.slurm.node_archive import pack_entry
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.launching import install_stand_in

RUN = "import sys; from jobs.runner.slot import run_slot; print(run_slot(sys.argv[1]))"


class Slot:
    """A slot as it lies before its job starts, run without SLURM by a bare interpreter."""

    def __init__(self, sweep: Path, acts: list[int], **changes: object) -> None:
        self.sweep = sweep
        (sweep / "points").mkdir()
        self.points = [f"p-{index}" for index in range(len(acts))]
        for point_id, act in zip(self.points, acts, strict=True):
            config = {"shape": {"seed": act}}
            given = {"point_id": point_id, "sweep_id": "s", "command": "c", "point": config}
            (sweep / "points" / f"{point_id}.json").write_text(json.dumps(given))
        asked = {
            "sweep": str(sweep),
            "python": str(install_stand_in(sweep)),
            "root": "/nowhere",
            "tasks": {"0": ["never"], "3": self.points},
            "time_min": 60,
            "warning_s": 60,
            "point_time_limit_s": None,
            "max_log_mib": None,
        }
        self.file = sweep / "submission.json"
        self.file.write_text(json.dumps(asked | changes))
        self.archive = pack_entry(sweep)

    def start(self, program: str = RUN, **variables: str) -> subprocess.Popen[str]:
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(self.archive)}
        env |= {"SLURM_JOB_ID": "17", "SLURM_ARRAY_JOB_ID": "14", "SLURM_ARRAY_TASK_ID": "3"}
        command = [sys.executable, "-s", "-S", "-c", program, str(self.file)]
        return subprocess.Popen(
            command, env=env | variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, cwd="/",
        )  # fmt: skip

    def run(self, **variables: str) -> str:
        with self.start(**variables) as process:
            out, _ = process.communicate(timeout=50)
        return out

    def records(self) -> list[dict[str, Any]]:
        paths = sorted((self.sweep / "14").glob("p-*/attempt-*/record.json"))
        return [json.loads(path.read_text()) for path in paths]

    def ends(self) -> list[tuple[str, str | None]]:
        return [(record["outcome"], record.get("cause")) for record in self.records()]


def wait(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_every_point_runs_once_under_its_array_job(tmp_path: Path) -> None:
    slot = Slot(tmp_path, [node.PASS, node.RAISES, node.FAIL])
    slot.run()
    assert slot.ends() == [("PASSED", None), ("ERROR", "exception"), ("FAILED", None)]
    assert {record["identity"]["job_id"] for record in slot.records()} == {"14_3"}
    assert {record["identity"]["raw_job_id"] for record in slot.records()} == {"17"}


def test_a_point_whose_record_cannot_be_written_costs_that_point_alone(tmp_path: Path) -> None:
    slot = Slot(tmp_path, [node.PASS, node.PASS])
    (tmp_path / "14").mkdir()
    (tmp_path / "14" / "p-0").write_text("a file where a folder belongs")
    with slot.start() as process:
        out, _ = process.communicate(timeout=50)
    assert process.returncode == os.EX_IOERR
    assert "ERROR lost no record of p-0 could be written: [Errno 17] File exists" in out
    assert "Traceback" not in out
    assert slot.ends() == [("PASSED", None)]


def test_a_second_run_leaves_what_is_finished(tmp_path: Path) -> None:
    slot = Slot(tmp_path, [node.PASS, node.PASS])
    half = tmp_path / "14" / "p-0" / "attempt-1"
    half.mkdir(parents=True)
    (half / "started.json").write_text("{}")
    done = tmp_path / "14" / "p-1" / "attempt-1"
    done.mkdir(parents=True)
    (done / "record.json").write_text('{"outcome": "FAILED", "cause": null, "identity": {}}')
    slot.run(SLURM_RESTART_COUNT="1")
    attempts = sorted(path.name for path in tmp_path.glob("14/p-*/attempt-*"))
    assert attempts == ["attempt-1", "attempt-1", "attempt-2"]
    assert (tmp_path / "14" / "p-0" / "attempt-2" / "record.json").is_file()


def test_the_job_that_is_told_to_end_leaves_the_verdict_to_the_scheduler(tmp_path: Path) -> None:
    slot = Slot(tmp_path, [node.HANGS, node.PASS])
    with slot.start() as process:
        wait(lambda: bool(list(tmp_path.glob("14/p-0/attempt-1/started.json"))))
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
    assert slot.records() == []


def test_a_signal_between_fork_and_exec_is_not_lost(tmp_path: Path) -> None:
    slot = Slot(tmp_path, [node.HANGS, node.PASS])
    told = "import os, signal; os.register_at_fork(before=lambda: os.kill(os.getpid(), 15)); "
    with slot.start(told + RUN) as process:
        out, _ = process.communicate(timeout=50)
    assert process.returncode == 128 + signal.SIGTERM, out
    assert "Traceback" not in out
    assert slot.records() == []


def test_a_moved_time_limit_is_a_timeout_with_a_record_for_every_point(tmp_path: Path) -> None:
    slot = Slot(tmp_path, [node.HANGS, node.PASS])
    with slot.start() as process:
        wait(lambda: bool(list(tmp_path.glob("14/p-0/attempt-1/started.json"))))
        process.send_signal(signal.SIGUSR2)
        assert process.wait(30) == 0
    assert slot.ends() == [("ERROR", "timeout"), ("ERROR", "timeout")]
    reasons = [record["reason"] for record in slot.records()]
    assert "the scheduler warned" in reasons[0]
    assert reasons[1].startswith("not started")


def test_an_early_warning_on_a_short_job_is_no_end(tmp_path: Path) -> None:
    slot = Slot(tmp_path, [node.SLOW_PASS], time_min=1, warning_s=10)
    with slot.start() as process:
        wait(lambda: bool(list(tmp_path.glob("14/p-0/attempt-1/started.json"))))
        process.send_signal(signal.SIGUSR2)
        assert process.wait(30) == 0
    assert slot.ends() == [("PASSED", None)]


def test_the_point_is_ended_before_its_job_is(tmp_path: Path) -> None:
    slot = Slot(tmp_path, [node.HANGS])
    slot.run(SLURM_JOB_START_TIME="1000", SLURM_JOB_END_TIME="1003")
    assert slot.ends() == [("ERROR", "timeout")]
    assert "time limit of 60 min came near" in slot.records()[0]["reason"]


def test_a_job_s_time_is_told_by_no_clock_that_may_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "clock_gettime", lambda clock: 5000.0)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert time_left_s(60) == 3600
    assert (
        time_left_s(60, {f"SLURM_JOB_{one}_TIME": "9" * 5000 for one in ("START", "END")}) == 3600
    )
    monkeypatch.setenv("SLURM_JOB_END_TIME", "1200")
    assert time_left_s(60) == 3600, "the end alone tells nothing to a clock that may be wrong"
    monkeypatch.setenv("SLURM_JOB_START_TIME", "1000")
    assert time_left_s(60) == 200
    monkeypatch.setenv(JOB_UPTIME, "4950.5")
    assert time_left_s(60) == 150.5
    monkeypatch.setenv(JOB_UPTIME, "6000")
    assert time_left_s(60) == 200


def test_memory_kills_are_counted_in_either_cgroup_version(tmp_path: Path) -> None:
    proc = tmp_path / "cgroup"
    proc.write_text("9:name=systemd:/\n4:memory:/slurm/job_1\n0::/unified\n")
    v1 = tmp_path / "memory" / "slurm" / "job_1" / "memory.oom_control"
    v1.parent.mkdir(parents=True)
    v1.write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    assert oom_kills(proc, tmp_path) == 2
    proc.write_text("0::/job_1\n")
    v2 = tmp_path / "job_1" / "memory.events"
    v2.parent.mkdir()
    v2.write_text("low 0\noom 1\noom_kill 3\noom_group_kill 0\n")
    assert oom_kills(proc, tmp_path) == 3
    assert oom_kills(tmp_path / "missing", tmp_path) == 0
