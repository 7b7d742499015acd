"""Sentences of the node and the runner; every other test asserts fields."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobs.node.cuda_graph import GraphError
from jobs.node.figures import missed_speedups
from jobs.runner.postmortem import ProcessEnd
from tests.builders.benchmarks import benchmark, speedup
from tests.jobs.node.points import FEW, point


@pytest.mark.parametrize(
    ("rel_l2", "sentence"),
    [
        (None, "the CUDA graph did not compute dx"),
        (
            0.25,
            "dx of the replayed CUDA graph differs from the arm's own by a relative L2 of 0.25; "
            "set benchmark.cuda_graph=false",
        ),
    ],
)
def test_a_graph_error(rel_l2: float | None, sentence: str) -> None:
    assert str(GraphError("dx", rel_l2)) == sentence


@pytest.mark.parametrize(
    ("ratio", "sentence"),
    [
        (1.2, "fprop speedup must be at least 1.3, got 1.200 [1.190, 1.210]"),
        (None, "fprop speedup must be at least 1.3, but every block was throttled"),
    ],
)
def test_a_missed_speed_gate(ratio: float | None, sentence: str) -> None:
    found = None if ratio is None else speedup("speedup", ratio)
    gated = point(benchmark=replace(FEW, min_fprop_speedup=1.3))
    assert missed_speedups(benchmark(fprop_speedup=found), gated) == [sentence]


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (ProcessEnd(launch_error="/x"), "the node's interpreter did not start: /x"),
        (ProcessEnd(timed_out=True), "still running after its limit of 4 s"),
        (ProcessEnd(returncode=-9, oom_kills=1), "the kernel killed it at the job's memory limit"),
        (ProcessEnd(returncode=-11), "the process was ended by SIGSEGV"),
        (ProcessEnd(returncode=3), "the process ended with exit code 3 and left no record"),
    ],
)  # fmt: skip
def test_a_reason_of_a_dead_process(end: ProcessEnd, reason: str) -> None:
    assert end.cause([], 4.0)[1] == reason
