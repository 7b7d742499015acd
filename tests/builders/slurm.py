"""A SLURM that answers from a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobs.schedulers.slurm.query import JobStates
from jobs.schedulers.slurm.scheduler import SlurmScheduler
from jobs.schedulers.slurm.task import SlurmTask


class FakeSlurm(SlurmScheduler):
    """SLURM with fixed answers, which notes what it was queried for."""

    def __init__(self, states: JobStates | None = None) -> None:
        """Answer with these states, which a test may replace."""
        super().__init__(self._reply)
        self.states = states or JobStates()
        self.queries: list[list[str]] = []

    def _reply(self, job_ids: list[str]) -> JobStates:
        self.queries.append(list(job_ids))
        return self.states


def job_states(
    states: Mapping[str, str],
    *,
    queue_error: str | None = None,
    accounting_error: str | None = None,
    no_accounting: bool = False,
    **fields: Any,  # noqa: ANN401 - any field of a task
) -> JobStates:
    """An answer with SLURM's word for each task; `fields` are the same for all of them."""
    tasks = {job_id: SlurmTask(job_id, job_id, word, **fields) for job_id, word in states.items()}
    return JobStates(tasks, queue_error, accounting_error, no_accounting=no_accounting)


def slurm(states: Mapping[str, str], **more: Any) -> FakeSlurm:  # noqa: ANN401 - as job_states
    """A SLURM that answers as `job_states` says."""
    return FakeSlurm(job_states(states, **more))
