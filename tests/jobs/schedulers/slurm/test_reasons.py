"""What is told of a job that does not run, in one line that says what to do."""

from __future__ import annotations

import pytest

from jobs.schedulers.slurm.reasons import advice, explained
from jobs.schedulers.slurm.states import TaskState

NODES_DOWN = "Nodes required for job are DOWN, DRAINED or reserved for jobs in other partitions"


@pytest.mark.parametrize(
    ("state", "reason", "told"),
    [
        ("PENDING", "JobHeldUser", "JobHeldUser: scontrol release 14_2 lets it start"),
        ("PENDING", "JobHeldAdmin", "JobHeldAdmin: only an administrator can release it"),
        ("REQUEUE_HOLD", "launch failed requeued held", "scontrol release 14_2"),
        ("REQUEUED", "job requeued in held state", "scontrol release 14_2"),
        ("PENDING", "DependencyNeverSatisfied", "scontrol update jobid=14_2 dependency="),
        ("PENDING", "ReqNodeNotAvail, UnavailableNodes:n1", "sinfo -R says why"),
        ("PENDING", NODES_DOWN, "sinfo -R says why"),
        ("PENDING", NODES_DOWN.replace(" ", "_"), "sinfo -R says why"),
        ("PENDING", "PartitionDown", "its partition starts no jobs now"),
        ("PENDING", "AssocMaxWallDurationPerJobLimit", "never starts as it was asked for"),
        ("SUSPENDED", "", "SUSPENDED: scontrol resume 14_2 lets it go on"),
        ("FAILED", "JobLaunchFailure", "JobLaunchFailure: SLURM could not start its script on n1"),
        ("FAILED", "exit code 127", "exit code 127: a program of its script"),
    ],
)
def test_what_needs_somebody_is_told_with_what_to_do(state: str, reason: str, told: str) -> None:
    assert told in explained(TaskState("14_2", "16", state, reason, node="n1"))


@pytest.mark.parametrize(
    ("reason", "told"),
    [("exit code 127", "is not there on n1"), ("exit code 126", "cannot be run on n1")],
)
def test_an_interpreter_that_did_not_start_is_named(reason: str, told: str) -> None:
    task = TaskState("14", "14", "FAILED", reason, node="n1")
    line = f"{reason}: a program of its script, or its interpreter{{}}, {told}"
    assert explained(task, "/nope/python") == line.format(" /nope/python")
    assert explained(task) == line.format("")


@pytest.mark.parametrize("reason", ["", "Priority", "Resources", "JobArrayTaskLimit", "BeginTime"])
def test_what_passes_by_itself_is_told_as_slurm_tells_it(reason: str) -> None:
    task = TaskState("14", "14", "PENDING", reason)
    assert advice(task) == ""
    assert explained(task) == reason


@pytest.mark.parametrize("reason", ["JobHeldUser", "ReqNodeNotAvail", "DependencyNeverSatisfied"])
def test_an_ended_job_waits_for_nothing(reason: str) -> None:
    assert advice(TaskState("14", "14", "TIMEOUT", reason)) == ""


@pytest.mark.parametrize("reason", ["JobHeldUser", "JobHeldAdmin"])
def test_a_job_that_runs_waits_for_nothing(reason: str) -> None:
    # Seen: scontrol hold of a job that runs; it goes on.
    assert advice(TaskState("14", "14", "RUNNING", reason)) == ""


@pytest.mark.parametrize(
    ("task", "told"),
    [
        # Seen: scontrol hold 14_2 makes a job of its own of that task; scancel 14 ends all of 14.
        (TaskState("14_2", "16", "PENDING", "JobHeldAdmin"), "scancel 14_2 gives it up"),
        (TaskState("14_2", "14", "PENDING", "JobHeldAdmin"), "scancel --state=PENDING 14 gives"),
        (TaskState("14_2", "14", "PENDING", "JobHeldUser"), "scontrol release 14 lets"),
        (TaskState("14", "14", "PENDING", "JobHeldAdmin"), "scancel 14 gives it up"),
    ],
)
def test_what_gives_a_task_up_ends_none_that_runs(task: TaskState, told: str) -> None:
    assert told in advice(task)
