"""What sacct says of a soak's jobs: every run of every task, and whether two runs overlap."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from jobs.sweeps.ledger import Ledger
from tests.slurm_cluster.slurm import SlurmCluster

_FIELDS = "JobID,JobName,State,Submit,End"
_SLACK_S = 1.0  # sacct's times are whole seconds
_UNSAVED_S = 15.0
"""For so long, at most, a killed controller may not have saved what it took."""
_INDICES = re.compile(r"(\d+)_\[([^\]%]*)(?:%\d+)?\]")


@dataclass(frozen=True)
class Run:
    """One run of a job or an array task; a requeue makes another.

    Attributes:
        job_id: As people type it.
        submission: The job's name.
        state: SLURM's word.
        submitted: When it was submitted, seconds since the epoch.
        ended: When it ended; None: the scheduler does not know.
        first: It is the first run of the job's first task.
    """

    job_id: str
    submission: str
    state: str
    submitted: float
    ended: float | None
    first: bool


def ask_runs(cluster: SlurmCluster) -> list[Run]:
    """Every run of every job of a cluster."""
    command = ("sacct", "-n", "-X", "-D", "-P", "-S", "now-1days", "-o", _FIELDS)
    env = ("env", "SLURM_TIME_FORMAT=%s")
    return parse_runs(cluster.run(*env, *command))


def parse_runs(text: str) -> list[Run]:
    """Reads sacct's rows, one for each task, oldest first."""
    runs: list[Run] = []
    seen: set[str] = set()
    for line in text.splitlines():
        ids, name, state, submitted, ended = line.split("|")
        if not name.startswith("s-"):
            continue
        for job_id in expand(ids):
            number = job_id.partition("_")[0]
            runs.append(
                Run(
                    job_id=job_id,
                    submission=name,
                    state=state,
                    submitted=float(submitted),
                    ended=float(ended) if ended.isdecimal() else None,
                    first=number not in seen,
                )
            )
            seen.add(number)
    return sorted(runs, key=lambda run: run.submitted)


def expand(ids: str) -> Iterator[str]:
    """The tasks of one row: `14`, `14_2`, or `14_[0-2,5%2]` for those that never started."""
    match = _INDICES.fullmatch(ids)
    if match is None:
        yield ids
        return
    for part in match[2].split(","):
        low, _, high = part.partition("-")
        for index in range(int(low), int(high or low) + 1):
            yield f"{match[1]}_{index}"


def runs_of_points(ledger: Ledger, runs: Sequence[Run]) -> dict[str, list[Run]]:
    """The runs that each point of a sweep was part of, oldest first."""
    of_task: dict[str, list[Run]] = {}
    for run in runs:
        if run.submission.rpartition(".")[0] == ledger.sweep_id:
            of_task.setdefault(run.job_id, []).append(run)
    found: dict[str, list[Run]] = {}
    for line in ledger.jobs():
        for index, point_ids in line.tasks.items():
            task = line.job_id if len(line.tasks) == 1 else f"{line.job_id}_{index}"
            for point_id in point_ids:
                found.setdefault(point_id, []).extend(of_task.get(task, []))
    return {point: sorted(of, key=lambda run: run.submitted) for point, of in found.items()}


def overlaps(
    point_id: str,
    runs: Sequence[Run],
    kills: Sequence[float],
    settled: Mapping[str, float] = MappingProxyType({}),
) -> list[str]:
    """Submissions of one point while an earlier job might still have run it.

    Args:
        point_id: The point.
        runs: Its runs, oldest first.
        kills: When the controller was killed.
        settled: When each job left a record of the point that stands: it runs other points, or is
            requeued, without running this one again.
    """
    found = []
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
            found.append(f"{point_id}: job {after} was submitted before job {before} had ended")
    return found


def forgotten(runs: Sequence[Run], kills: Sequence[float]) -> bool:
    """Whether a killed controller may have lost a job: accounting then waits for its end."""
    return any(
        run.ended is None and 0 <= kill - run.submitted <= _UNSAVED_S
        for run in runs
        for kill in kills
    )
