"""The runs of a soak's jobs, as sacct reports them, and whether two runs overlap."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from jobs.sweeps.ledger import Ledger
from tests.slurm_cluster.slurm import SlurmCluster

_FIELDS = "JobID,JobName,Submit,End"
_SLACK_S = 1.0  # sacct's times are whole seconds
_UNSAVED_S = 15.0
"""Longest time during which a controller has not saved a job that it accepted."""
_INDICES = re.compile(r"(\d+)_\[([^\]%]*)(?:%\d+)?\]")


@dataclass(frozen=True)
class Run:
    """One run of a job or an array task; a requeue makes another.

    Attributes:
        job_id: Job id as users type it.
        submission: The job's name.
        submitted: When it was submitted, seconds since the epoch.
        ended: When it ended; None if the scheduler does not know.
        first: True for the first run of the job's first task.
    """

    job_id: str
    submission: str
    submitted: float
    ended: float | None
    first: bool


def query_runs(cluster: SlurmCluster) -> list[Run]:
    """Query every run of every job of a cluster."""
    command = ("sacct", "-n", "-X", "-D", "-P", "-S", "now-1days", "-o", _FIELDS)
    env = ("env", "SLURM_TIME_FORMAT=%s")
    return parse_runs(cluster.run(*env, *command))


def parse_runs(text: str) -> list[Run]:
    """Return the runs of sacct's rows, oldest first."""
    runs: list[Run] = []
    known: set[str] = set()
    for line in text.splitlines():
        ids, name, submitted, ended = line.split("|")
        if not name.startswith("s-"):
            continue
        for job_id in expand(ids):
            number = job_id.partition("_")[0]
            runs.append(
                Run(
                    job_id=job_id,
                    submission=name,
                    submitted=float(submitted),
                    ended=float(ended) if ended.isdecimal() else None,
                    first=number not in known,
                )
            )
            known.add(number)
    return sorted(runs, key=lambda run: run.submitted)


def expand(ids: str) -> Iterator[str]:
    """Return the tasks of a row: `14`, `14_2`, or `14_[0-2,5%2]` for tasks that never started."""
    match = _INDICES.fullmatch(ids)
    if match is None:
        yield ids
        return
    for part in match[2].split(","):
        low, _, high = part.partition("-")
        for index in range(int(low), int(high or low) + 1):
            yield f"{match[1]}_{index}"


def runs_of_points(ledger: Ledger, runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Return the runs of each point of a sweep, oldest first."""
    of_task: dict[str, list[Run]] = {}
    for run in runs:
        if run.submission.rpartition(".")[0] == ledger.sweep_id:
            of_task.setdefault(run.job_id, []).append(run)
    runs_of: dict[str, list[Run]] = {}
    for line in ledger.jobs():
        for index, point_ids in line.tasks.items():
            task = line.job_id if len(line.tasks) == 1 else f"{line.job_id}_{index}"
            for point_id in point_ids:
                runs_of.setdefault(point_id, []).extend(of_task.get(task, []))
    return {
        point: sorted(of_point, key=lambda run: run.submitted)
        for point, of_point in runs_of.items()
    }


def overlaps(
    point_id: str,
    runs: Sequence[Run],
    kills: Sequence[float],
    settled: Mapping[str, float] = MappingProxyType({}),
) -> list[str]:
    """Return the submissions of a point while an earlier job might still have run it.

    Args:
        point_id: The point.
        runs: Its runs, oldest first.
        kills: When the controller was killed.
        settled: When each job left a final record of the point: it may still run other points, or
            be requeued, but does not run this one again.
    """
    problems = []
    jobs = {run.job_id: [other for other in runs if other.job_id == run.job_id] for run in runs}
    for (before, earlier), (after, later) in zip(
        list(jobs.items()), list(jobs.items())[1:], strict=False
    ):
        submitted = min(run.submitted for run in later)
        ends = [run.ended for run in earlier]
        known = [end for end in ends if end is not None]
        if settled.get(before, submitted + _SLACK_S) <= submitted:
            continue
        if len(known) < len(ends) and forgotten(earlier, kills):
            continue
        if len(known) < len(ends) or max(known) > submitted + _SLACK_S:
            problems.append(f"{point_id}: job {after} was submitted before job {before} had ended")
    return problems


def forgotten(runs: Sequence[Run], kills: Sequence[float]) -> bool:
    """Return True if a killed controller may have lost a job, whose end accounting never gets."""
    return any(
        run.ended is None and 0 <= kill - run.submitted <= _UNSAVED_S
        for run in runs
        for kill in kills
    )
