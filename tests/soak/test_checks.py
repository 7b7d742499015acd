"""The soak's checks see each breach, and nothing where there is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.sweeps.ledger import JobLine, Ledger, SweepInfo, now
from jobs.sweeps.planned_point import PlannedPoint
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.slurm import SlurmCluster
from tests.soak import checks
from tests.soak.commands import Ended, wrong_with
from tests.soak.faults import CONTROLLER, Injected
from tests.soak.orphans import orphan_processes
from tests.soak.plan import Asked
from tests.soak.runs import Run, expand, overlaps, parse_runs, runs_of_points


@pytest.fixture
def injected(tmp_path: Path) -> Injected:
    return Injected(tmp_path / "faults.jsonl")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A sweep of two points in job 14: one passes, one raises."""
    made = Ledger.create(tmp_path / "runs")
    info = SweepInfo(
        sweep_id=made.sweep_id,
        verb="sweep",
        command="python launch.py sweep",
        cluster="slurm",
        scheduler="slurm",
        host="login",
        user="me",
        created_at=now(),
        points=2,
    )
    seeds = (100 + node.PASS, 200 + node.RAISES)
    points = [
        PlannedPoint(
            point_id=f"p-{index}",
            index=index,
            config={"shape": {"seed": seed}},
            site={"launch": {"point_time_limit_s": None}},
        )
        for index, seed in enumerate(seeds)
    ]
    made.write_plan(info, points)
    submit(made, 0, "14")
    return made


def submit(ledger: Ledger, number: int, job_id: str) -> None:
    (ledger.root / "submissions" / str(number)).mkdir(parents=True)
    ledger.add_job(
        JobLine(
            job_id=job_id,
            tasks={"0": ["p-0"], "1": ["p-1"]},
            scheduler="slurm",
            submitted_at=now(),
            name=f"{ledger.sweep_id}.{number}",
            submission=number,
        )
    )


def limited(point: PlannedPoint) -> PlannedPoint:
    return point.model_copy(update={"site": {"launch": {"point_time_limit_s": 8}}})


def record(
    ledger: Ledger, point_id: str, job_id: str, outcome: str = "PASSED", cause: str | None = None
) -> Path:
    """Adds an attempt."""
    folder = ledger.root / job_id.partition("_")[0] / point_id
    folder.mkdir(parents=True, exist_ok=True)
    attempt = folder / f"attempt-{len(list(folder.iterdir())) + 1}"
    attempt.mkdir()
    identity = {"point_id": point_id, "job_id": job_id, "restart_count": 0}
    held = {"identity": identity, "outcome": outcome, "cause": cause, "reason": ""}
    (attempt / "record.json").write_text(json.dumps(held))
    return attempt


def shown(point_id: str, state: str, cause: str | None = None) -> checks.Row:
    job_id = f"14_{point_id[-1]}"
    return {"point_id": point_id, "state": state, "cause": cause, "job_id": job_id, "reason": ""}


def run(job_id: str, submitted: float, ended: float | None, name: str = "s.0") -> Run:
    return Run(job_id, name, "COMPLETED", submitted, ended, first=True)


def test_a_collection_that_tells_the_truth_is_taken(ledger: Ledger, injected: Injected) -> None:
    record(ledger, "p-0", "14_0")
    rows = [shown("p-0", "PASSED"), shown("p-1", "ERROR", "exception")]
    assert checks.untrue(ledger, rows, injected) == []
    assert checks.not_due([ledger], rows) == {}
    waiting = [shown("p-0", "PASSED"), shown("p-1", "PENDING")]
    assert checks.untrue(ledger, waiting, injected) == []
    (late,) = checks.not_due([ledger], waiting)[ledger.sweep_id]
    assert late == "p-1 is PENDING None, due ERROR exception"


@pytest.mark.parametrize(
    ("state", "cause", "words"),
    [
        ("FAILED", None, "acts 0, but is shown as FAILED"),
        ("ERROR", "crashed", "acts 0, but is shown as ERROR crashed"),
        ("ERROR", "cancelled", "acts 0, but is shown as ERROR cancelled"),
        ("PASSED", None, "shown as PASSED without such a record"),
    ],
)
def test_a_lie_about_a_passing_point_is_seen(
    ledger: Ledger, injected: Injected, state: str, cause: str | None, words: str
) -> None:
    rows = [shown("p-0", state, cause), shown("p-1", "PENDING")]
    assert words in checks.untrue(ledger, rows, injected)[0]


def test_a_point_that_is_not_shown_is_seen(ledger: Ledger, injected: Injected) -> None:
    rows = [shown("p-1", "PENDING")]
    assert checks.untrue(ledger, rows, injected) == [
        f"{ledger.sweep_id}: 1 point shown, 2 planned"
    ]
    assert checks.not_due([ledger], rows)[ledger.sweep_id][0].startswith("p-0 is not shown")


def test_what_was_injected_excuses_its_own_cause_alone(ledger: Ledger, injected: Injected) -> None:
    job = ("14_0", ledger.sweep_id)

    def excused(cause: str) -> bool:
        return checks.is_true(point, "ERROR", cause, job, injected)

    point = ledger.plan()[0]
    assert not any(map(excused, ("cancelled", "node_fail", "launch_failed", "lost", "timeout")))
    assert checks.is_true(limited(point), "ERROR", "timeout", job, injected)
    injected.cancelled.add("14")
    assert excused("cancelled")
    assert not excused("node_fail")
    injected.note("node down", "n1")
    assert excused("node_fail")
    injected.controller_kills.append(0.0)
    assert excused("lost")
    injected.note(CONTROLLER, "slurmctld")
    assert not excused("exception")
    assert injected.counts == {"node down": 1, CONTROLLER: 1}


def test_the_record_of_any_attempt_has_to_be_true(ledger: Ledger, injected: Injected) -> None:
    record(ledger, "p-0", "14_0")
    record(ledger, "p-1", "14_1", "ERROR", "exception")
    assert checks.wrong_records([ledger], injected) == []
    record(ledger, "p-0", "14_0", "ERROR", "out_of_memory_host")
    (line,) = checks.wrong_records([ledger], injected)
    assert "says ERROR out_of_memory_host" in line


def test_a_plan_is_what_was_asked_or_nothing(ledger: Ledger) -> None:
    asked = Asked((), (100, 210))
    assert checks.wrong_plans([ledger], [(asked, 0)]) == []
    assert checks.wrong_plans([ledger], [(asked, -9)]) == []
    assert checks.wrong_plans([], [(asked, -9)]) == []
    assert "and no sweep" in checks.wrong_plans([], [(asked, 0)])[0]
    assert "nobody asked" in checks.wrong_plans([ledger], [(Asked((), (100,)), -9)])[0]
    ledger.jobs_jsonl.unlink()
    assert "refused with exit code 2" in checks.wrong_plans([ledger], [(asked, 2)])[0]


def test_a_second_submission_has_to_wait_for_the_end_of_the_first() -> None:
    first = run("14_0", 0.0, 10.0)
    assert overlaps("p-0", [first, run("15_0", 11.0, 20.0)], []) == []
    (line,) = overlaps("p-0", [first, run("15_0", 5.0, 20.0)], [])
    assert line == "p-0: job 15_0 was submitted before job 14_0 had ended"
    assert overlaps("p-0", [first, run("15_0", 5.0, 20.0)], [], {"14_0": 4.0}) == []
    assert overlaps("p-0", [first, run("15_0", 5.0, 20.0)], [], {"14_0": 6.0}) != []
    requeued = run("14_0", 12.0, 30.0)
    assert overlaps("p-0", [first, requeued], []) == []
    assert overlaps("p-0", [first, requeued, run("15_0", 13.0, 40.0)], []) != []


def test_a_job_that_a_killed_controller_forgot_has_no_end() -> None:
    runs = [run("14_0", 0.0, None), run("15_0", 30.0, 40.0)]
    assert overlaps("p-0", runs, [5.0]) == []
    assert overlaps("p-0", runs, [25.0]) != []


def test_good_records_of_one_run_and_submissions_that_sbatch_took_twice_are_seen(
    ledger: Ledger,
) -> None:
    name = f"{ledger.sweep_id}.0"
    runs = [run("14_0", 0.0, 9.0, name), run("14_1", 0.0, 9.0, name)]
    once = [runs[0], Run("14_1", name, "COMPLETED", 0.0, 9.0, first=False)]
    record(ledger, "p-0", "14_0")
    assert checks.duplicates([ledger], once, []) == []
    assert checks.duplicates([ledger], runs, []) == [f"{name}: sbatch took it 2 times"]
    record(ledger, "p-0", "14_0")
    assert "2 good records" in checks.duplicates([ledger], once, [])[0]


def test_submissions_and_jobs_belong_together(ledger: Ledger) -> None:
    known = [run("14_0", 0.0, 9.0, f"{ledger.sweep_id}.0")]
    assert checks.orphan_submissions([ledger], known) == []
    (ledger.root / "submissions" / "1").mkdir()
    other = [*known, run("15", 0.0, 9.0, f"{ledger.sweep_id}.1")]
    left = checks.orphan_submissions([ledger], other)
    assert [line.rpartition("/")[2] for line in left] == [
        "1: a submission without a job",
        f"job 15 ({ledger.sweep_id}.1) is in no jobs.jsonl",
    ]


def test_files_that_are_not_whole_are_seen(ledger: Ledger, tmp_path: Path) -> None:
    runs, results, cwd = ledger.root.parent, tmp_path / "results", tmp_path / "cwd"
    results.mkdir()
    cwd.mkdir()
    for name in (".submitting", ".last_seen.json"):
        (ledger.root / name).touch()
    assert checks.orphan_files(runs, results, cwd) == []
    (results / ".points.json.12.part").touch()
    (ledger.root / "14_0_result.pkl.save_tmp").touch()
    (runs / "s-20260101-000000-000000").mkdir()
    (cwd / "core").touch()
    assert len(checks.orphan_files(runs, results, cwd)) == 4


def test_a_traceback_of_ours_is_seen_and_that_of_a_point_is_not(ledger: Ledger) -> None:
    (record(ledger, "p-1", "14_1") / "output.log").write_text("Traceback (most recent call last)")
    assert checks.tracebacks([ledger]) == []
    (ledger.root / "14" / "14_1_0_log.err").write_text("Traceback (most recent call last)")
    assert len(checks.tracebacks([ledger])) == 1


@pytest.mark.parametrize(
    ("code", "said", "wrong"),
    [
        (0, "Submitted job 14", []),
        (-9, "half a li", []),
        (2, "launch.py: seed must be", []),
        (2, "seed must be", ["x: exit code 2 without a line that says why"]),
        (1, "Traceback (most recent call last)", ["x: a traceback"]),
        (-11, "", ["x: exit code -11"]),
    ],
)
def test_what_no_command_may_do(code: int, said: str, wrong: list[str]) -> None:
    assert wrong_with(Ended("sweep", (), code, f"the command\n{said}"), "x") == wrong


def test_every_run_of_every_task_is_read(ledger: Ledger) -> None:
    name = f"{ledger.sweep_id}.0"
    text = f"14_1|{name}|REQUEUED|100|110\n14_1|{name}|COMPLETED|112|120\n"
    text += f"14_[0,2-3%2]|{name}|CANCELLED by 0|100|105\n15|wrap|COMPLETED|100|Unknown\n"
    runs = parse_runs(text)
    assert sorted(run.job_id for run in runs) == ["14_0", "14_1", "14_1", "14_2", "14_3"]
    assert [run.first for run in runs].count(True) == 1
    of = runs_of_points(ledger, runs)
    assert [(run.submitted, run.ended) for run in of["p-1"]] == [(100, 110), (112, 120)]
    assert list(expand("14")) == ["14"]


def test_a_process_that_names_the_folder_is_an_orphan(tmp_path: Path) -> None:
    cluster = SlurmCluster(tmp_path / "cluster")
    assert orphan_processes(cluster, tmp_path, grace_s=0) == []
    command = [sys.executable, "-c", "input()", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=dict(os.environ)) as child:
        (line,) = orphan_processes(cluster, tmp_path, grace_s=0)
        assert line.startswith(f"process {child.pid} is left: ")
        child.communicate(b"\n")
