"""Advice for jobs that do not run, in one line."""

from __future__ import annotations

import pytest

from jobs.schedulers.slurm.task import SlurmTask

NODES_DOWN = "Nodes required for job are DOWN, DRAINED or reserved for jobs in other partitions"


@pytest.mark.parametrize(
    ("state", "reason", "expected"),
    [
        ("PENDING", "JobHeldUser", "scontrol release 14_2"),
        ("PENDING", "JobHeldAdmin", "only an administrator"),
        ("REQUEUE_HOLD", "launch failed requeued held", "scontrol release 14_2"),
        ("REQUEUED", "job requeued in held state", "scontrol release 14_2"),
        ("PENDING", "DependencyNeverSatisfied", "scontrol update jobid=14_2 dependency="),
        ("PENDING", "ReqNodeNotAvail, UnavailableNodes:n1", "sinfo -R"),
        ("PENDING", NODES_DOWN, "sinfo -R"),
        ("PENDING", NODES_DOWN.replace(" ", "_"), "sinfo -R"),
        ("PENDING", "PartitionDown", "scontrol show partition"),
        ("PENDING", "AssocMaxWallDurationPerJobLimit", "scancel 14_2"),
        ("SUSPENDED", "", "scontrol resume 14_2"),
        ("FAILED", "JobLaunchFailure", "n1"),
        ("FAILED", "exit code 127", "command not found on n1"),
    ],
)
def test_a_job_that_needs_action_has_advice(state: str, reason: str, expected: str) -> None:
    assert expected in SlurmTask("14_2", "16", state, reason, node="n1").explained()


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("exit code 127", "command not found"), ("exit code 126", "command cannot be executed")],
)
def test_an_interpreter_that_did_not_start_is_named(reason: str, expected: str) -> None:
    task = SlurmTask("14", "14", "FAILED", reason, node="n1")
    alone, named = task.explained(), task.explained("/nope/python")
    assert all(line.startswith(f"{reason}: {expected} on n1: ") for line in (alone, named))
    assert ("/nope/python" in alone, "/nope/python" in named) == (False, True)


@pytest.mark.parametrize("reason", ["", "Priority", "Resources", "JobArrayTaskLimit", "BeginTime"])
def test_a_reason_that_passes_by_itself_is_quoted(reason: str) -> None:
    task = SlurmTask("14", "14", "PENDING", reason)
    assert task.advice() == ""
    assert task.explained() == reason


@pytest.mark.parametrize("reason", ["JobHeldUser", "ReqNodeNotAvail", "DependencyNeverSatisfied"])
def test_an_ended_job_waits_for_nothing(reason: str) -> None:
    assert SlurmTask("14", "14", "TIMEOUT", reason).advice() == ""


@pytest.mark.parametrize("reason", ["JobHeldUser", "JobHeldAdmin"])
def test_a_job_that_runs_waits_for_nothing(reason: str) -> None:
    # Seen: scontrol hold of a job that runs; it goes on.
    assert SlurmTask("14", "14", "RUNNING", reason).advice() == ""


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        # Seen: scontrol hold 14_2 makes a job of its own of that task; scancel 14 ends all of 14.
        (SlurmTask("14_2", "16", "PENDING", "JobHeldAdmin"), "scancel 14_2"),
        (SlurmTask("14_2", "14", "PENDING", "JobHeldAdmin"), "scancel --state=PENDING 14"),
        (SlurmTask("14_2", "14", "PENDING", "JobHeldUser"), "scontrol release 14"),
        (SlurmTask("14", "14", "PENDING", "JobHeldAdmin"), "scancel 14"),
    ],
)
def test_what_gives_a_task_up_ends_none_that_runs(task: SlurmTask, expected: str) -> None:
    assert expected in task.advice()
