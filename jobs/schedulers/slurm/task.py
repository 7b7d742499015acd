"""SLURM's names of states and reasons, translated into phases, causes and advice."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from jobs.record import Cause
from jobs.schedulers.scheduler import Phase, TaskState

LOST = "LOST"
"""A state of ours: SLURM answered, and does not list the job."""

_PHASES: Mapping[str, Phase] = {
    **dict.fromkeys(("PENDING", "CONFIGURING"), Phase.PENDING),
    **dict.fromkeys(("REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED"), Phase.REQUEUED),
    **dict.fromkeys(("RUNNING", "SUSPENDED", "RESIZING", "SIGNALING"), Phase.RUNNING),
    **dict.fromkeys(("STAGE_OUT", "STOPPED"), Phase.RUNNING),
    "COMPLETING": Phase.ENDING,
    LOST: Phase.LOST,
}
_CAUSES: Mapping[str, Cause] = {
    "TIMEOUT": Cause.timeout,
    "DEADLINE": Cause.timeout,
    "OUT_OF_MEMORY": Cause.out_of_memory_host,
    "NODE_FAIL": Cause.node_fail,
    "BOOT_FAIL": Cause.node_fail,
    "PREEMPTED": Cause.preempted,
    "CANCELLED": Cause.cancelled,
    "REVOKED": Cause.cancelled,
    "LAUNCH_FAILED": Cause.launch_failed,
    LOST: Cause.lost,
}
_STATES = (*_PHASES, *_CAUSES, "COMPLETED", "FAILED", "SPECIAL_EXIT", "RECONFIG_FAIL")
# The exit codes of a shell and of env for a program that cannot be run; the entry has others.
_NOT_RUN = frozenset({"exit code 126", "exit code 127"})

_PENDING_ADVICE = (
    (
        r"JobHeldUser|requeued (?:in )?held|JobHoldMaxRequeue|^REQUEUE_HOLD",
        "start it with scontrol release {job}",
    ),
    (
        "JobHeldAdmin",
        "only an administrator can release it; give up with scancel {pending}",
    ),
    (
        "DependencyNeverSatisfied",
        "start it with scontrol update jobid={job} dependency=, or give up with scancel {pending}",
    ),
    (
        r"ReqNodeNotAvail|Nodes.required.for.job.are.DOWN",
        "waiting for nodes that are down, drained or reserved; sinfo -R shows why",
    ),
    (
        r"Partition(?:Down|Inactive)",
        "the partition starts no jobs at present; see scontrol show partition",
    ),
    (
        r"Partition(?:Time|Node)Limit|BadConstraints|Invalid(?:Account|QOS)|MaxWallDuration"
        r"|(?:Account|QOS)NotAllowed|ReservationDeleted",
        "this request will never start; give up with scancel {pending}",
    ),
)
_RUNNING_ADVICE = (("^SUSPENDED", "continue it with scontrol resume {job}"),)
_FINAL_ADVICE = (
    (
        "JobLaunchFailure",
        "SLURM could not start the job script on {node}; check that the folder of its log "
        "exists there and is writable, and slurmd's log on {node}",
    ),
    ("exit code 126", "command cannot be executed on {node}: {python}a command of cluster.setup"),
    ("exit code 127", "command not found on {node}: {python}a command of cluster.setup"),
)


@dataclass(frozen=True)
class SlurmTask(TaskState):
    """A task in SLURM; `state` is SLURM's word, or LOST, or REQUEUED if it waits to run again."""

    @property
    def phase(self) -> Phase:
        """Where the job stands; every state that is not known is an end."""
        return _PHASES.get(self.state, Phase.ENDED)

    @property
    def cause(self) -> Cause | None:
        """Cause by SLURM's state, or by a reason that says that the script never ran."""
        if self.state in _CAUSES:
            return _CAUSES[self.state]
        not_run = "Launch" in self.reason or self.reason in _NOT_RUN
        return Cause.launch_failed if self.final and not_run else None

    def advice(self, python: str | None = None) -> str:
        """Return the advice for SLURM's reason in this phase.

        A job that has started may still carry the reason for which it once waited.
        """
        table = _PENDING_ADVICE if self.pending else _RUNNING_ADVICE
        for pattern, text in _FINAL_ADVICE if self.final else table:
            if re.search(pattern, self.reason) or re.search(pattern, self.state):
                return text.format(
                    job=self.job_id if self._separate else array_of(self.job_id),
                    pending=self._scancel_words(),
                    node=self.node or "its node",
                    python=f"{python}, or " if python else "",
                )
        return ""

    def lost(self, reason: str) -> SlurmTask:
        """Return the same task as one that SLURM does not list."""
        return SlurmTask(self.job_id, self.raw_job_id, LOST, reason, evidence=self.evidence)

    @property
    def _separate(self) -> bool:
        """True if SLURM has split the task off its array; the array's other tasks may run."""
        return self.raw_job_id != array_of(self.job_id)

    def _scancel_words(self) -> str:
        """Return what scancel takes to end this task and no running one."""
        array = array_of(self.job_id)
        alone = self._separate or self.job_id == array
        return self.job_id if alone else f"--state=PENDING {array}"


def array_of(job_id: str) -> str:
    """Return the array of a task, as users type it; of any other job, the job."""
    return job_id.partition("_")[0]


def full_state(text: str) -> str:
    """Return SLURM's state without "by 1000", completed if a narrow column has cut it."""
    word = text.split()[0] if text.split() else "UNKNOWN"
    if not word.endswith("+"):
        return word
    stem = word[:-1]
    return next((state for state in _STATES if state.startswith(stem)), stem)
