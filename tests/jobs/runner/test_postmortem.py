"""A process that left no record has a cause, from its exit status and its output."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.runner.postmortem import TAIL_LINES, ProcessEnd, oom_kills

OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory."


@pytest.mark.parametrize(
    ("end", "cause"),
    [
        (ProcessEnd(launch_error="python: not found"), "launch_failed"),
        (ProcessEnd(returncode=-15, stopped=("cancelled", "Ctrl-C")), "cancelled"),
        (ProcessEnd(returncode=-15, timed_out=True), "timeout"),
        (ProcessEnd(returncode=-9, oom_kills=1), "out_of_memory_host"),
        (ProcessEnd(returncode=-9), "crashed"),
        (ProcessEnd(returncode=-77), "crashed"),  # a signal without a name
        (ProcessEnd(returncode=1), "out_of_memory_gpu"),
        (ProcessEnd(returncode=0, oom_kills=1), "out_of_memory_gpu"),
    ],
    ids=str,
)
def test_the_first_cause_in_order_counts(end: ProcessEnd, cause: str) -> None:
    assert end.cause(["some output", OUT_OF_MEMORY], 10.0)[0] == cause


def test_unlogged_output_is_evidence_without_a_place(tmp_path: Path) -> None:
    output = "".join(f"{number}\n" for number in range(100))
    lines, offset = ProcessEnd(unlogged=output.encode() + b"\xff").last_lines(tmp_path)
    assert lines[-2:] == ["99", "\ufffd"]
    assert len(lines) == TAIL_LINES
    assert offset is None


def test_a_missing_log_has_no_lines(tmp_path: Path) -> None:
    assert ProcessEnd().last_lines(tmp_path) == ([], 0)


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
    for line in ("0::/job_2\n", "2:cpu:/job_1\n", "odd\n"):
        proc.write_text(line)
        assert oom_kills(proc, tmp_path) == 0
    assert oom_kills(tmp_path / "missing", tmp_path) == 0
