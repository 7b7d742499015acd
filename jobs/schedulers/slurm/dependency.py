"""Dependencies on other jobs: which they name, and which of them can never be met."""

from __future__ import annotations

import re
from collections.abc import Mapping

from jobs.schedulers.slurm.states import TaskState

_DEPENDENCY = re.compile(r"(after\w*):([\d_:+]+)")


def dependency_ids(dependency: str | None) -> list[str]:
    """The jobs that a dependency names."""
    found = []
    for _, ids in _DEPENDENCY.findall(dependency or ""):
        found += [part.partition("+")[0] for part in ids.split(":") if part]
    return found


def hopeless_dependency(dependency: str | None, states: Mapping[str, TaskState]) -> list[str]:
    """Dependencies that can never be met, or that mean nothing.

    Args:
        dependency: As `--dependency` takes it.
        states: What the cluster says of the jobs it names.

    Returns:
        A sentence for each.
    """
    unknown: list[str] = []
    unmet: list[list[str]] = []
    for condition in re.split(r"[,?]", dependency or ""):
        found = _problems(condition, states)
        unknown += found[0]
        unmet.append(found[1])
    if "?" in (dependency or "") and not all(unmet):
        return unknown  # one of several conditions is enough
    return unknown + [problem for problems in unmet for problem in problems]


def _problems(condition: str, states: Mapping[str, TaskState]) -> tuple[list[str], list[str]]:
    """What means nothing in one condition, and what of it can never be met."""
    unknown, unmet = [], []
    for kind, ids in _DEPENDENCY.findall(condition):
        for job_id in (part.partition("+")[0] for part in ids.split(":") if part):
            tasks = [task for name, task in states.items() if _is_of(name, task, job_id)]
            if not tasks:
                unknown.append(
                    f"cluster.dependency must name jobs that the cluster knows, got {kind}:"
                    f"{job_id}, which SLURM would not wait for"
                )
                continue
            ended = [task for task in tasks if task.final]
            wrong = [task for task in ended if (task.state == "COMPLETED") != (kind == "afterok")]
            if kind in ("afterok", "afternotok") and wrong and len(ended) == len(tasks):
                unmet.append(
                    f"cluster.dependency must be one that can still be met, got {kind}:{job_id}, "
                    f"which ended as {wrong[0].state}"
                )
    return unknown, unmet


def _is_of(name: str, task: TaskState, job_id: str) -> bool:
    return job_id in (name, name.partition("_")[0], task.raw_job_id)
