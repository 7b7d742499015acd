"""Every scheduler is found by its name and by its job ids, and answers for its own jobs alone."""

from __future__ import annotations

import pytest

from conf import choices
from jobs.errors import NotCancellable, UnknownName
from jobs.schedulers.local.scheduler import LocalScheduler
from jobs.schedulers.registry import all_schedulers, query_jobs, scheduler_named
from jobs.schedulers.slurm.query import JobStates
from jobs.schedulers.slurm.scheduler import SlurmScheduler
from jobs.schedulers.slurm.task import SlurmTask


def test_every_choice_of_the_configuration_is_a_scheduler() -> None:
    assert {one.name for one in choices.Scheduler} == {one.name for one in all_schedulers()}
    with pytest.raises(UnknownName) as caught:
        scheduler_named("pbs")
    assert set(caught.value.choices) == {"slurm", "local"}


@pytest.mark.parametrize(
    ("job_id", "name"),
    [("14", "slurm"), ("14_2", "slurm"), ("local-12ab", "local"), ("planned", None), ("", None)],
)
def test_the_owner_of_a_job_id(job_id: str, name: str | None) -> None:
    owners = [one.name for one in all_schedulers() if one.owns(job_id)]
    assert owners == ([name] if name else [])


def test_a_scheduler_is_queried_once_for_its_own_jobs() -> None:
    queries: list[list[str]] = []

    def states(job_ids: list[str]) -> JobStates:
        queries.append(job_ids)
        return JobStates({"14": SlurmTask("14", "14", "RUNNING")})

    schedulers = [SlurmScheduler(states), LocalScheduler()]
    result = query_jobs(["14", "local-1"], [], schedulers, 0.0)
    assert queries == [["14"]]
    assert (set(result.tasks), result.unreachable) == ({"14"}, None)
    query_jobs(["local-1"], [], schedulers, 0.0)
    assert len(queries) == 1


def test_only_its_own_terminal_ends_a_local_job() -> None:
    problem = LocalScheduler().cancel_problem(["local-1"])
    assert isinstance(problem, NotCancellable)
    assert problem.job_id == "local-1"
    assert LocalScheduler().cancel_problem([]) is None
    assert SlurmScheduler().cancel_problem(["14"]) is None


def test_what_slurm_does_not_list_is_unreachable_only_if_squeue_failed() -> None:
    for error in (None, "squeue: no controller"):
        scheduler = SlurmScheduler(lambda ids, error=error: JobStates({}, queue_error=error))  # type: ignore[misc]
        assert scheduler.query(["14"], [], 0.0).unreachable == error
