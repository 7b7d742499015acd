"""Every scheduler by its name; another one is a folder here and a line in `_CLASSES`."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from jobs.errors import UnknownName
from jobs.schedulers.scheduler import QueryResult, Scheduler
from jobs.sweeps.sweep_files import SweepFiles

_CLASSES = {
    "slurm": "jobs.schedulers.slurm.scheduler:SlurmScheduler",
    "local": "jobs.schedulers.local.scheduler:LocalScheduler",
}


def scheduler_named(name: str) -> Scheduler:
    """Return the scheduler that `cluster.scheduler` or `sweep.json` names."""
    if name not in _CLASSES:
        raise UnknownName("scheduler", name, choices=tuple(_CLASSES))
    module, _, class_name = _CLASSES[name].partition(":")
    scheduler: Scheduler = getattr(importlib.import_module(module), class_name)()
    return scheduler


def all_schedulers() -> list[Scheduler]:
    """Return every scheduler."""
    return [scheduler_named(name) for name in _CLASSES]


def installed_schedulers() -> list[Scheduler]:
    """Return the schedulers that this machine can use."""
    return [scheduler for scheduler in all_schedulers() if scheduler.installed]


def query_jobs(
    job_ids: Sequence[str],
    sweeps: Sequence[SweepFiles],
    schedulers: Sequence[Scheduler],
    moment: float,
) -> QueryResult:
    """Query each scheduler once for its tasks; see `Scheduler.query`."""
    result = QueryResult()
    for scheduler in schedulers:
        mine = [job_id for job_id in job_ids if scheduler.owns(job_id)]
        if mine:
            result |= scheduler.query(mine, sweeps, moment)
    return result
