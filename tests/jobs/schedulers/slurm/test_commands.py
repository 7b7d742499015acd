"""Calls of SLURM's commands: their environment, their time limit, the meaning of their errors."""

from __future__ import annotations

import pytest

from jobs.schedulers.slurm.commands import (
    TIME_LIMIT_S,
    Answer,
    Meaning,
    call,
    clean_environment,
    unused_variables,
)


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        # As SLURM 22.05 and 24.11 print them.
        ("sbatch: error: Socket timed out on send/recv operation", Meaning.MAY_BE_ACCEPTED),
        ("sbatch: error: Zero Bytes were transmitted or received", Meaning.MAY_BE_ACCEPTED),
        (
            "scancel: error: Kill job error on job id 9: Job/step already completing or completed",
            Meaning.ALREADY_ENDED,
        ),
        ("scancel: error: Job 14 already completed", Meaning.ALREADY_ENDED),
        ("squeue: slurm_load_jobs error: Invalid job id specified", Meaning.UNKNOWN_JOB),
        ("sacct: Slurm accounting storage is disabled", Meaning.NO_ACCOUNTING),
        ("sbatch: error: Invalid qos specification", None),
        (None, None),
    ],
)
def test_the_meaning_of_slurms_messages(error: str | None, meaning: Meaning | None) -> None:
    answer = Answer("", error)
    assert [one for one in Meaning if answer.means(one)] == ([meaning] if meaning else [])


def test_a_failure_is_an_answer_with_a_reason() -> None:
    assert call(["no-such-command"]).error == "no-such-command is not installed here"
    assert call(["sh", "-c", "echo sh: oops >&2; exit 3"]).error == "sh: oops"
    assert call(["sh", "-c", "exit 3"]) == Answer("", "sh exited with code 3", silent=True)
    slow = call(["sleep", "60"], time_limit_s=0.1)
    assert slow == Answer("", "sleep did not answer within 0 s", silent=True)


def test_nothing_of_another_job_is_passed_on() -> None:
    leaked = {"SLURM_JOB_ID": "1", "SBATCH_PARTITION": "x", "SRUN_DEBUG": "1", "SLURMD_NODE": "n"}
    leaked |= {"CUDA_VISIBLE_DEVICES": "0", "PYTHONPATH": "/x", "SQUEUE_FORMAT": "%i"}
    kept = {"SLURM_CONF": "/c", "PATH": "/bin", "HOME": "/h", "CUDA_HOME": "/cuda"}
    assert clean_environment(leaked | kept) == kept


def test_variables_without_effect_are_noted() -> None:
    (note,) = unused_variables({"SBATCH_ACCOUNT": "team", "SLURM_CONF": "/c"})
    assert "SBATCH_ACCOUNT=team" in note
    assert "cluster.account" in note


def test_commands_are_run_without_leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "14")
    monkeypatch.setenv("SLURM_CONF", "/somewhere")
    seen = call(["env"]).out
    assert "SLURM_JOB_ID" not in seen
    assert "SLURM_CONF=/somewhere" in seen


def test_the_time_limit_is_longer_than_a_dead_controller_needs() -> None:
    assert TIME_LIMIT_S >= 20
