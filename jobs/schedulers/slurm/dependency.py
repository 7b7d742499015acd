"""`cluster.dependency`: the jobs that it names, and conditions that can never be met."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from jobs.errors import InvalidValue
from jobs.schedulers.slurm.task import SlurmTask, array_of

_CONDITION = re.compile(r"(after\w*):([\d_:+]+)")


def dependency_ids(dependency: str) -> list[str]:
    """Return the jobs that a dependency names."""
    return [job_id for _, job_id in _conditions(dependency)]


def dependency_problems(
    dependency: str, states: Mapping[str, SlurmTask]
) -> Iterator[InvalidValue]:
    """Yield conditions that can never be met, and those on jobs that do not exist."""
    unmet = []
    for part in re.split(r"[,?]", dependency):
        impossible = []
        for kind, job_id in _conditions(part):
            tasks = [
                task
                for name, task in states.items()
                if job_id in (name, array_of(name), task.raw_job_id)
            ]
            if not tasks:
                yield _invalid("name existing jobs", kind, job_id, "SLURM would not wait for it")
            elif end := _impossible(kind, tasks):
                impossible.append(
                    _invalid("be satisfiable", kind, job_id, f"the job ended as {end}")
                )
        unmet.append(impossible)
    if "?" not in dependency or all(unmet):  # "?": one condition is enough
        yield from (problem for impossible in unmet for problem in impossible)


def _conditions(dependency: str) -> list[tuple[str, str]]:
    return [
        (kind, part.partition("+")[0])
        for kind, ids in _CONDITION.findall(dependency)
        for part in ids.split(":")
        if part
    ]


def _impossible(kind: str, tasks: list[SlurmTask]) -> str | None:
    """Return the state in which the job ended, if that rules the condition out."""
    wrong = [task for task in tasks if (task.state == "COMPLETED") != (kind == "afterok")]
    if kind not in ("afterok", "afternotok") or not all(task.final for task in tasks):
        return None
    return wrong[0].state if wrong else None


def _invalid(constraint: str, kind: str, job_id: str, remedy: str) -> InvalidValue:
    return InvalidValue("cluster.dependency", constraint, f"{kind}:{job_id}", remedy)
