"""The line of a log that shows a cause, whatever else the log holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.record import Cause
from jobs.status.log_search import excerpt, find_sign


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
def test_a_line_names_its_cause(tmp_path: Path, line: str, cause: Cause | str) -> None:
    log = tmp_path / "log"
    log.write_text(f"before\n{line}\nafter\n")
    sign = find_sign([log])
    assert sign is not None
    assert sign.cause is Cause(cause)
    assert sign.line == line


def test_a_specific_sign_wins_over_its_consequences(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("slurmstepd: error: oom_kill event\nRuntimeError: worker died\n")
    sign = find_sign([log])
    assert sign is not None
    assert sign.cause is Cause.out_of_memory_host


def test_the_output_of_a_failed_setup_line_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "log"
    told = "ModuleNotFoundError: No module named 'x'"
    log.write_text(f"{told}\nsetup line 1 failed, so the job does: y\nsrun: exit\n")
    sign = find_sign([log])
    assert sign is not None
    assert sign.cause is Cause.launch_failed
    assert sign.before == ("ModuleNotFoundError: No module named 'x'",)


def test_without_a_sign_the_last_line_is_shown_without_a_cause(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("step 1\nstep 2\n\n")
    sign = find_sign([tmp_path / "none", log])
    assert sign is not None
    assert (sign.cause, sign.line) == (None, "step 2")
    assert find_sign([tmp_path / "none"]) is None


def test_only_the_tail_of_a_huge_log_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as handle:
        handle.truncate(2**33)  # sparse: 8 GiB that take no space
        handle.seek(0, 2)
        handle.write(b"\nthe end\n")
    assert excerpt(log)[-1] == "the end"


def test_a_binary_log_is_shown_as_text(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(bytes(range(256)))
    assert excerpt(log)


def test_an_unwritten_record_is_lost_for_its_own_point_only(tmp_path: Path) -> None:
    log = tmp_path / "14_log.out"
    log.write_text(
        "  ERROR lost no record of p-1 could be written: [Errno 28] No space left on device\n"
        "  PASSED\n"
    )
    sign = find_sign([log], "p-1")
    assert sign is not None
    assert sign.cause is Cause.lost
    assert "No space left on device" in sign.line
    other = find_sign([log], "p-2")
    assert other is not None
    assert other.cause is None
