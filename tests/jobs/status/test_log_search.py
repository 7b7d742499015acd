"""The line of a log that shows a cause, whatever else the log holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.record import Cause
from jobs.status.log_search import LogSign, excerpt, find_sign


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def sign_of(log: Path, text: str, point_id: str | None = None) -> LogSign:
    """The sign in a log of this text."""
    log.write_text(text)
    sign = find_sign([log.with_name("none"), log], point_id)
    assert sign is not None
    return sign


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT x DUE TO TIME LIMIT ***", Cause.timeout),
        ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT x DUE TO PREEMPTION ***", "preempted"),
        ("slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT x ***", Cause.cancelled),
        ("srun: error: Node failure on n2", Cause.node_fail),
        ("srun: error: n1: task 0: Out Of Memory", Cause.out_of_memory_host),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried", Cause.out_of_memory_gpu),
        ("slurmstepd: error: execve(): /no/python: No such file or directory", "launch_failed"),
        ("/usr/bin/env: '/no/python': No such file or directory", Cause.launch_failed),
        ("/spool/slurm_script: line 27: srun: command not found", Cause.launch_failed),
        ("setup line 2 failed, so the job does: module load x", Cause.launch_failed),
        ("the node's interpreter must be Python 3.11 or later, got 3.9", Cause.import_error),
        ("pyxis: [ERROR] failed to import docker image", Cause.container_failed),
        ("ModuleNotFoundError: No module named 'torch'", Cause.import_error),
        ("srun: error: n1: task 0: Segmentation fault (core dumped)", Cause.crashed),
        ("ValueError: bad", Cause.exception),
    ],
)
def test_a_line_names_its_cause(log: Path, line: str, cause: Cause | str) -> None:
    sign = sign_of(log, f"before\n{line}\nafter\n")
    assert (sign.cause, sign.line) == (Cause(cause), line)


def test_a_specific_sign_wins_over_its_consequences(log: Path) -> None:
    sign = sign_of(log, "slurmstepd: error: oom_kill event\nRuntimeError: worker died\n")
    assert sign.cause is Cause.out_of_memory_host


def test_the_output_of_a_failed_setup_line_is_shown(log: Path) -> None:
    output = "ModuleNotFoundError: No module named 'x'"
    sign = sign_of(log, f"{output}\nsetup line 1 failed, so the job does: y\nsrun: exit\n")
    assert (sign.cause, sign.before) == (Cause.launch_failed, (output,))


def test_without_a_sign_the_last_line_is_shown_without_a_cause(log: Path) -> None:
    sign = sign_of(log, "step 1\nstep 2\n\n")
    assert (sign.cause, sign.line) == (None, "step 2")
    assert find_sign([log.with_name("none")]) is None


def test_only_the_tail_of_a_huge_log_is_read(log: Path) -> None:
    with log.open("wb") as handle:
        handle.truncate(2**33)  # sparse: 8 GiB that take no space
        handle.seek(0, 2)
        handle.write(b"\nthe end\n")
    assert excerpt(log)[-1] == "the end"


def test_a_binary_log_is_shown_as_text(log: Path) -> None:
    log.write_bytes(bytes(range(256)))
    assert excerpt(log)


def test_an_unwritten_record_is_lost_for_its_own_point_only(log: Path) -> None:
    line = "ERROR lost no record of p-1 could be written: [Errno 28] No space left on device"
    sign = sign_of(log, f"  {line}\n  PASSED\n", "p-1")
    assert sign.cause is Cause.lost
    assert "No space left on device" in sign.line
    assert sign_of(log, f"  {line}\n  PASSED\n", "p-2").cause is None
