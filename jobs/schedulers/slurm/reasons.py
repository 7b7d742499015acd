"""SLURM's word for why a job does not run, and what its owner can do about it."""

from __future__ import annotations

import re

from jobs.schedulers.slurm.states import WAITING, TaskState, array_of

_OF_WAITING = (
    (
        r"JobHeldUser|requeued (?:in )?held|JobHoldMaxRequeue|^REQUEUE_HOLD",
        "scontrol release {job} lets it start",
    ),
    ("JobHeldAdmin", "only an administrator can release it; scancel {waiting} gives it up"),
    (
        "DependencyNeverSatisfied",
        "scontrol update jobid={job} dependency= lets it start, scancel {waiting} gives it up",
    ),
    (
        r"ReqNodeNotAvail|Nodes.required.for.job.are.DOWN",
        "it waits for nodes that are down, drained or reserved; sinfo -R says why",
    ),
    (
        r"Partition(?:Down|Inactive)",
        "its partition starts no jobs now; scontrol show partition tells more",
    ),
    (
        r"Partition(?:Time|Node)Limit|BadConstraints|Invalid(?:Account|QOS)|MaxWallDuration"
        r"|(?:Account|QOS)NotAllowed|ReservationDeleted",
        "it never starts as it was asked for; scancel {waiting} gives it up",
    ),
)
_OF_RUNNING = (("^SUSPENDED", "scontrol resume {job} lets it go on"),)
_OF_ENDED = (
    (
        "JobLaunchFailure",
        "SLURM could not start its script on {node}: is the folder of its log there, and "
        "writable? slurmd's own log on {node} says more",
    ),
    (
        "exit code 126",
        "a program of its script, or its interpreter{python}, cannot be run on {node}",
    ),
    (
        "exit code 127",
        "a program of its script, or its interpreter{python}, is not there on {node}",
    ),
)


def advice(task: TaskState, python: str | None = None) -> str:
    """What can be done about a job that does not run; empty where it needs nobody's help.

    Args:
        task: What the scheduler says of it.
        python: The interpreter that its script calls, where that is known.
    """
    # One that began may still bear the reason for which it once waited, or will wait again.
    for pattern, text in _patterns(task):
        for word in (task.reason, task.state):
            if re.search(pattern, word):
                job, waiting = _ids(task)
                named = f" {python}" if python else ""
                node = task.node or "its node"
                return text.format(job=job, waiting=waiting, node=node, python=named)
    return ""


def _ids(task: TaskState) -> tuple[str, str]:
    """What scontrol takes for a task, and what scancel takes to end it: none that runs."""
    array = array_of(task.job_id)
    if task.raw_job_id != array:  # SLURM has made it a job of its own; others may go on
        return task.job_id, task.job_id
    return array, array if task.job_id == array else f"--state=PENDING {array}"


def _patterns(task: TaskState) -> tuple[tuple[str, str], ...]:
    if task.final:
        return _OF_ENDED
    return _OF_WAITING if task.state in WAITING else _OF_RUNNING


def explained(task: TaskState, python: str | None = None) -> str:
    """Why a job waits or how it ended, and what can be done about it, in one line."""
    helped = advice(task, python)
    if not helped:
        return task.reason
    return f"{task.reason or task.state}: {helped}"
