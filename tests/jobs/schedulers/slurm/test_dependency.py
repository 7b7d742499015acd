"""Dependencies that can never be met are told."""

from __future__ import annotations

from jobs.schedulers.slurm.dependency import dependency_ids, hopeless_dependency
from jobs.schedulers.slurm.states import TaskState


def test_dependencies_that_can_never_be_met() -> None:
    states = {
        "14_0": TaskState("14_0", "15", "FAILED"),
        "14_1": TaskState("14_1", "14", "COMPLETED"),
        "20": TaskState("20", "20", "RUNNING"),
        "21": TaskState("21", "21", "COMPLETED"),
    }
    assert dependency_ids("afterok:14:20,afterany:21+5,singleton") == ["14", "20", "21"]
    assert "ended as FAILED" in hopeless_dependency("afterok:14", states)[0]
    assert "ended as COMPLETED" in hopeless_dependency("afternotok:21", states)[0]
    assert "which SLURM would not wait for" in hopeless_dependency("afterok:99", states)[0]
    for met in ("afterany:14", "afterok:20:21", "afternotok:20", "singleton", None):
        assert hopeless_dependency(met, states) == []
    for met in ("afterok:14?afterok:20", "afternotok:21?singleton"):  # one is enough
        assert hopeless_dependency(met, states) == []
    assert len(hopeless_dependency("afterok:14?afternotok:21", states)) == 2
    (unknown,) = hopeless_dependency("afterok:20?afterok:99", states)
    assert "got afterok:99" in unknown
