"""Dependencies that can never be met are problems of their key."""

from __future__ import annotations

import pytest

from jobs.schedulers.slurm.dependency import dependency_ids, dependency_problems
from jobs.schedulers.slurm.task import SlurmTask

STATES = {
    "14_0": SlurmTask("14_0", "15", "FAILED"),
    "14_1": SlurmTask("14_1", "14", "COMPLETED"),
    "20": SlurmTask("20", "20", "RUNNING"),
    "21": SlurmTask("21", "21", "COMPLETED"),
}


def test_the_jobs_of_a_dependency() -> None:
    assert dependency_ids("afterok:14:20,afterany:21+5,singleton") == ["14", "20", "21"]


@pytest.mark.parametrize(
    ("dependency", "values"),
    [
        ("afterok:14", ["afterok:14"]),
        ("afternotok:21", ["afternotok:21"]),
        ("afterok:99", ["afterok:99"]),
        *((met, []) for met in ("afterany:14", "afterok:20:21", "afternotok:20", "singleton", "")),
        # One is enough.
        ("afterok:14?afterok:20", []),
        ("afternotok:21?singleton", []),
        ("afterok:14?afternotok:21", ["afterok:14", "afternotok:21"]),
        ("afterok:20?afterok:99", ["afterok:99"]),
    ],
)
def test_conditions_that_can_never_be_met(dependency: str, values: list[str]) -> None:
    problems = list(dependency_problems(dependency, STATES))
    assert [problem.value for problem in problems] == values
    assert {problem.key for problem in problems} <= {"cluster.dependency"}
