"""How the problems of a configuration read."""

from __future__ import annotations

import pytest

from conf.choices import Projection
from conf.problem import Problem, spelled


def test_a_problem_is_one_sentence() -> None:
    problem = Problem("shape.seq_len", "be at least 1", 0)
    assert str(problem) == "shape.seq_len must be at least 1, got 0"
    problem = Problem("cluster.nice", "be null with a local cluster", 1, "use cluster=slurm")
    assert str(problem) == (
        "cluster.nice must be null with a local cluster, got 1; use cluster=slurm"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "null"), (True, "true"), (1.5, "1.5"), ("", "''"), (Projection.split, "split")],
)
def test_a_value_is_spelled_as_in_yaml(value: object, text: str) -> None:
    assert spelled(value) == text
