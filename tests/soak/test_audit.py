"""The audit of a soak finds each violation, and nothing where there is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from jobs.sweeps.ledger import JobLine, Ledger, SweepInfo, now
from jobs.sweeps.planned_point import PlannedPoint
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.slurm import SlurmCluster
from tests.soak.audit import Audit, Row
from tests.soak.commands import Ended
from tests.soak.injector import CONTROLLER, Faults
from tests.soak.leftovers import leftover_files, leftover_processes
from tests.soak.plan import SweepCommand
from tests.soak.runs import Run, expand, overlaps, parse_runs, runs_of_points


@pytest.fixture
def faults(tmp_path: Path) -> Faults:
    return Faults(tmp_path / "faults.jsonl")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A sweep of two points in job 14: one passes, one raises."""
    ledger = Ledger.create(tmp_path / "runs")
    info = SweepInfo(
        sweep_id=ledger.sweep_id, verb="sweep", command="c", cluster="slurm", scheduler="slurm",
        host="h", user="u", created_at=now(), points=2,
    )  # fmt: skip
    points = [
        PlannedPoint(
            point_id=f"p-{index}",
            index=index,
            config={"shape": {"seed": seed}},
            site={"launch": {"point_time_limit_s": None}},
        )
        for index, seed in enumerate((100 + node.PASS, 200 + node.RAISES))
    ]
    ledger.write_plan(info, points)
    (ledger.root / "submissions" / "0").mkdir(parents=True)
    ledger.add_job(
        JobLine(
            job_id="14",
            tasks={"0": ["p-0"], "1": ["p-1"]},
            scheduler="slurm",
            submitted_at=now(),
            name=f"{ledger.sweep_id}.0",
            submission=0,
        )
    )
    return ledger


@pytest.fixture
def audit(ledger: Ledger, faults: Faults) -> Audit:
    return Audit([ledger], faults)


def add_record(
    ledger: Ledger, point_id: str, job_id: str, outcome: str = "PASSED", cause: str | None = None
) -> Path:
    """Add an attempt with a record and return its folder."""
    folder = ledger.root / job_id.partition("_")[0] / point_id
    folder.mkdir(parents=True, exist_ok=True)
    attempt = folder / f"attempt-{len(list(folder.iterdir())) + 1}"
    attempt.mkdir()
    identity = {"point_id": point_id, "job_id": job_id, "restart_count": 0}
    record = {"identity": identity, "outcome": outcome, "cause": cause, "reason": ""}
    (attempt / "record.json").write_text(json.dumps(record))
    return attempt


def row(point_id: str, state: str, cause: str | None = None) -> Row:
    job_id = f"14_{point_id[-1]}"
    return {"point_id": point_id, "state": state, "cause": cause, "job_id": job_id, "reason": ""}


def run(
    job_id: str, submitted: float, ended: float | None, name: str = "s.0", *, first: bool = True
) -> Run:
    return Run(job_id, name, submitted, ended, first=first)


def test_a_correct_collection_is_accepted(audit: Audit, ledger: Ledger) -> None:
    add_record(ledger, "p-0", "14_0")
    rows = [row("p-0", "PASSED"), row("p-1", "ERROR", "exception")]
    assert audit.wrong_table(ledger, rows) == []
    assert audit.unfinished(rows) == {}
    pending = [row("p-0", "PASSED"), row("p-1", "PENDING")]
    assert audit.wrong_table(ledger, pending) == []
    assert list(audit.unfinished(pending)) == [ledger.sweep_id]


@pytest.mark.parametrize(
    ("state", "cause", "has_record"),
    [
        ("FAILED", None, True),
        ("ERROR", "crashed", True),
        ("ERROR", "cancelled", True),
        ("PASSED", None, False),
    ],
)
def test_a_wrong_state_of_a_passing_point_is_found(
    audit: Audit, ledger: Ledger, state: str, cause: str | None, has_record: bool
) -> None:
    if has_record:
        add_record(ledger, "p-0", "14_0")
    rows = [row("p-0", state, cause), row("p-1", "PENDING")]
    assert len(audit.wrong_table(ledger, rows)) == 1


def test_a_point_that_is_not_shown_is_found(audit: Audit, ledger: Ledger) -> None:
    rows = [row("p-1", "ERROR", "exception")]
    assert len(audit.wrong_table(ledger, rows)) == 1
    assert len(audit.unfinished(rows)[ledger.sweep_id]) == 1


def test_a_fault_explains_only_its_own_cause(audit: Audit, ledger: Ledger, faults: Faults) -> None:
    point = ledger.plan()[0]
    limited = point.model_copy(update={"site": {"launch": {"point_time_limit_s": 8}}})

    def explained(cause: str, of: PlannedPoint = point) -> bool:
        return audit.explains(ledger, of, "ERROR", cause, "14_0")

    assert not any(map(explained, ("cancelled", "node_fail", "launch_failed", "lost", "timeout")))
    assert explained("timeout", limited)
    faults.cancelled.add("14")
    assert explained("cancelled")
    assert not explained("node_fail")
    faults.add("node down", "n1")
    assert explained("node_fail")
    faults.controller_kills.append(0.0)
    assert explained("lost")
    faults.add(CONTROLLER, "slurmctld")
    assert not explained("exception")
    assert faults.counts == {"node down": 1, CONTROLLER: 1}


def test_the_record_of_every_attempt_has_to_be_explained(audit: Audit, ledger: Ledger) -> None:
    add_record(ledger, "p-0", "14_0")
    add_record(ledger, "p-1", "14_1", "ERROR", "exception")
    assert audit.wrong_records() == []
    attempt = add_record(ledger, "p-0", "14_0", "ERROR", "out_of_memory_host")
    (problem,) = audit.wrong_records()
    assert str(attempt) in problem


def test_a_plan_is_that_of_a_command_or_does_not_exist(
    audit: Audit, ledger: Ledger, faults: Faults
) -> None:
    command, other = SweepCommand((), (100, 210)), SweepCommand((), (100,))
    nothing = Audit([], faults)
    assert audit.wrong_plans([(command, 0)]) == []
    assert audit.wrong_plans([(command, -9)]) == []
    assert nothing.wrong_plans([(command, -9)]) == []
    assert len(nothing.wrong_plans([(command, 0)])) == 1
    assert len(audit.wrong_plans([(other, -9)])) == 1
    ledger.jobs_jsonl.unlink()
    assert len(audit.wrong_plans([(command, 2)])) == 1


FIRST = run("14_0", 0.0, 10.0)
REQUEUED = run("14_0", 12.0, 30.0)


@pytest.mark.parametrize(
    ("runs", "kills", "settled", "count"),
    [
        pytest.param([FIRST, run("15_0", 11.0, 20.0)], [], {}, 0, id="after the end"),
        pytest.param([FIRST, run("15_0", 5.0, 20.0)], [], {}, 1, id="before the end"),
        pytest.param([FIRST, run("15_0", 5.0, 20.0)], [], {"14_0": 4.0}, 0, id="settled before"),
        pytest.param([FIRST, run("15_0", 5.0, 20.0)], [], {"14_0": 6.0}, 1, id="settled after"),
        pytest.param([FIRST, REQUEUED], [], {}, 0, id="requeue"),
        pytest.param([FIRST, REQUEUED, run("15_0", 13.0, 40.0)], [], {}, 1, id="during a requeue"),
        pytest.param(
            [run("14_0", 0.0, None), run("15_0", 30.0, 40.0)], [5.0], {}, 0, id="forgotten job"
        ),
        pytest.param(
            [run("14_0", 0.0, None), run("15_0", 30.0, 40.0)], [25.0], {}, 1, id="known job"
        ),
    ],
)
def test_a_second_submission_has_to_wait_for_the_end_of_the_first(
    runs: Sequence[Run], kills: Sequence[float], settled: dict[str, float], count: int
) -> None:
    assert len(overlaps("p-0", runs, kills, settled)) == count


def test_two_good_records_of_one_run_and_two_jobs_of_one_submission_are_found(
    ledger: Ledger, faults: Faults
) -> None:
    name = f"{ledger.sweep_id}.0"
    tasks = [run("14_0", 0.0, 9.0, name), run("14_1", 0.0, 9.0, name, first=False)]
    jobs = [run("14_0", 0.0, 9.0, name), run("15_0", 0.0, 9.0, name)]
    add_record(ledger, "p-0", "14_0")
    assert Audit([ledger], faults, tasks).duplicates() == []
    assert len(Audit([ledger], faults, jobs).duplicates()) == 1
    add_record(ledger, "p-0", "14_0")
    assert len(Audit([ledger], faults, tasks).duplicates()) == 1


def test_submissions_and_jobs_belong_together(ledger: Ledger, faults: Faults) -> None:
    recorded = [run("14_0", 0.0, 9.0, f"{ledger.sweep_id}.0")]
    assert Audit([ledger], faults, recorded).unrecorded_jobs() == []
    (ledger.root / "submissions" / "1").mkdir()
    unrecorded = [*recorded, run("15", 0.0, 9.0, f"{ledger.sweep_id}.1")]
    submission, job = Audit([ledger], faults, unrecorded).unrecorded_jobs()
    assert "submissions/1" in submission
    assert f"15 ({ledger.sweep_id}.1)" in job


def test_unfinished_files_are_found(ledger: Ledger, tmp_path: Path) -> None:
    runs, results, cwd = ledger.root.parent, tmp_path / "results", tmp_path / "cwd"
    results.mkdir()
    cwd.mkdir()
    for name in (".submitting", ".last_seen.json"):
        (ledger.root / name).touch()
    assert leftover_files(runs, results, cwd) == []
    (results / ".points.json.12.part").touch()
    (ledger.root / "14_0_result.pkl.save_tmp").touch()
    (runs / "s-20260101-000000-000000").mkdir()
    (cwd / "core").touch()
    assert len(leftover_files(runs, results, cwd)) == 4


def test_only_a_traceback_in_a_log_of_a_job_is_found(audit: Audit, ledger: Ledger) -> None:
    text = "Traceback (most recent call last)"
    (add_record(ledger, "p-1", "14_1") / "output.log").write_text(text)
    assert audit.tracebacks() == []
    (ledger.root / "14" / "14_1_0_log.err").write_text(text)
    assert len(audit.tracebacks()) == 1


@pytest.mark.parametrize(
    ("code", "output", "problems"),
    [
        (0, "Submitted job 14", 0),
        (-9, "half a li", 0),
        (2, "launch.py: a reason", 0),
        (2, "a reason", 1),
        (1, "Traceback (most recent call last)", 1),
        (-11, "", 1),
    ],
)
def test_what_no_command_may_do(code: int, output: str, problems: int) -> None:
    assert len(Ended("x", "sweep", (), code, output).problems()) == problems


def test_every_run_of_every_task_is_read(ledger: Ledger) -> None:
    name = f"{ledger.sweep_id}.0"
    text = f"14_1|{name}|100|110\n14_1|{name}|112|120\n"
    text += f"14_[0,2-3%2]|{name}|100|105\n15|wrap|100|Unknown\n"
    runs = parse_runs(text)
    assert sorted(run.job_id for run in runs) == ["14_0", "14_1", "14_1", "14_2", "14_3"]
    assert [run.first for run in runs].count(True) == 1
    of_points = runs_of_points(ledger, runs)
    assert [(run.submitted, run.ended) for run in of_points["p-1"]] == [(100, 110), (112, 120)]
    assert list(expand("14")) == ["14"]


def test_a_process_that_names_the_folder_is_found(tmp_path: Path) -> None:
    cluster = SlurmCluster(tmp_path / "cluster")
    assert leftover_processes(cluster, tmp_path, grace_s=0) == []
    command = [sys.executable, "-c", "input()", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=dict(os.environ)) as child:
        (problem,) = leftover_processes(cluster, tmp_path, grace_s=0)
        assert str(child.pid) in problem
        child.communicate(b"\n")
