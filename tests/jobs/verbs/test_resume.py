"""`resume` and `repro` without a scheduler, and verbs without anything to work on."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.errors import LedgerError, NoSweep, SchedulerUnavailable, WrongIds
from jobs.schedulers.slurm.limits import ClusterLimits
from jobs.schedulers.slurm.query import JobStates
from jobs.schedulers.slurm.scheduler import SlurmScheduler
from jobs.schedulers.slurm.task import SlurmTask
from jobs.verbs import scope
from tests.builders.ledger import FakeSweep
from tests.fake_node import install
from tests.launcher import Launcher
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.launching import FAST, install_stand_in


def outcomes(launcher: Launcher) -> list[str]:
    return [record.outcome.value for record in launcher.records()]


def test_repro_runs_the_same_point_again(launcher: Launcher, tmp_path: Path) -> None:
    words = (f"cluster.python={install_stand_in(tmp_path)}", *FAST)
    assert launcher("run", *words, f"shape.seed={node.PASS}").code == 0
    (first,) = launcher.records()
    again = launcher("repro", first.identity.point_id)
    assert again.code == 0, again
    one, other = launcher.records()
    assert one.identity.point_id == other.identity.point_id
    assert one.identity.sweep_id != other.identity.sweep_id
    assert one.config == other.config


@pytest.mark.parametrize("verb", ["status", "logs", "resume"])
def test_a_verb_without_a_sweep_is_refused(launcher: Launcher, verb: str) -> None:
    assert isinstance(launcher(verb).refused(), NoSweep)


@pytest.mark.parametrize("verb", ["repro", "cancel"])
def test_a_verb_without_an_id_is_refused(launcher: Launcher, verb: str) -> None:
    error = launcher(verb).refused()
    assert isinstance(error, WrongIds)
    assert (error.verb, list(error.given)) == (verb, [])


def test_status_and_cancel_of_what_ran_here(launcher: Launcher, tmp_path: Path) -> None:
    words = (f"cluster.python={install_stand_in(tmp_path)}", *FAST)
    launcher("sweep", *words, f"shape.seed={node.PASS},{100 + node.FAIL}")
    shown = launcher("status")
    assert shown.code == 0
    assert "2 points: 1 FAILED, 1 PASSED" in shown.out
    assert "local-" in shown.out
    header, *rows = shown.out.splitlines()[:3]
    assert {row.index(word) for row in rows for word in ("PASSED", "FAILED") if word in row} == {
        header.index("state")
    }
    assert "Nothing to cancel" in launcher("cancel", "latest").out
    assert launcher("status", "watch=true").code == 0


def test_a_point_whose_plan_is_damaged_costs_that_point_alone(
    launcher: Launcher, tmp_path: Path
) -> None:
    python = f"cluster.python={install(tmp_path, {128: 'kill', 256: 'kill'})}"
    assert launcher("sweep", "shape.seq_len=128,256", python).code == 1
    ledger = launcher.ledger()
    first, second = ledger.plan_jsonl.read_text().splitlines(keepends=True)
    name = ledger.plan()[0].point_id
    ledger.plan_jsonl.write_text(first.replace('"exclude":null', '"exclude":[]') + second)
    install(tmp_path)
    resumed = launcher("resume")
    assert (resumed.code, resumed.err) == (1, "")
    assert "ERROR (lost)  " in resumed.out
    assert "PASSED  ends as PASSED" in resumed.out.splitlines()
    assert isinstance(launcher("repro", name).refused(), LedgerError)


def test_a_plan_that_lost_points_never_ends_with_0(launcher: Launcher, tmp_path: Path) -> None:
    python = f"cluster.python={install(tmp_path)}"
    assert launcher("sweep", "shape.seq_len=128,256", python).code == 0
    ledger = launcher.ledger()
    first, _ = ledger.plan_jsonl.read_text().splitlines(keepends=True)
    ledger.plan_jsonl.write_text(first)
    resumed = launcher("resume")
    assert resumed.code == 3
    assert "damaged: plan.jsonl: " in resumed.out


@pytest.mark.parametrize(
    ("states", "code", "told"),
    [
        (
            ("COMPLETING", "COMPLETING"),
            3,
            "Still ending: 2 jobs, 14_0, 14_1; resume again when they have ended",
        ),
        (
            ("COMPLETING", "PENDING"),
            3,
            "Still ending: 1 job, 14_0; resume again when they have ended",
        ),
        (("RUNNING", "PENDING"), 0, ""),
    ],
)
def test_a_job_that_still_ends_is_named_and_never_ends_with_0(
    launcher: Launcher,
    monkeypatch: pytest.MonkeyPatch,
    states: tuple[str, ...],
    code: int,
    told: str,
) -> None:
    sweep = FakeSweep.plan(launcher.runs_dir, [{}, {}])
    sweep.submit("14", list(sweep.points))
    tasks = {f"14_{i}": SlurmTask(f"14_{i}", "1", state) for i, state in enumerate(states)}
    limits = ClusterLimits("site", "24.11", 1001, 10_000)
    monkeypatch.setattr("jobs.schedulers.slurm.scheduler.query_limits", lambda: limits)
    slurm = SlurmScheduler(lambda ids: JobStates(tasks))
    monkeypatch.setattr(scope, "installed_schedulers", lambda: [slurm])
    result = launcher("resume", sweep.ledger.sweep_id)
    assert (result.code, result.err) == (code, ""), result
    *before, last = result.out.splitlines()
    assert last == f"Nothing to submit of {sweep.ledger.sweep_id}: 2 points have a job under way."
    assert [line for line in before if not line.startswith("Note: ")] == ([told] if told else [])


def test_nothing_is_submitted_while_the_queue_does_not_answer(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = FakeSweep.plan(launcher.runs_dir, [{}, {}])
    sweep.submit("14", list(sweep.points)[:1])
    limits = ClusterLimits("site", "24.11", 1001, 10_000)
    monkeypatch.setattr("jobs.schedulers.slurm.scheduler.query_limits", lambda: limits)
    slurm = SlurmScheduler(lambda ids: JobStates({}, queue_error="a text that nobody compares"))
    monkeypatch.setattr(scope, "installed_schedulers", lambda: [slurm])
    result = launcher("resume", sweep.ledger.sweep_id)
    assert result.code == 2
    assert isinstance(result.error, SchedulerUnavailable)
    assert result.error.detail == "a text that nobody compares"
    assert [line.job_id for line in sweep.ledger.jobs()] == ["14"]
