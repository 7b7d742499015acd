"""Job states that SLURM does not report, or not any more.

What squeue and sacct last answered is kept beside the sweep, so that a controller that is down
costs age and not knowledge. SLURM also keeps no row of some tasks: a task cancelled while pending
is taken out of its array. The last ones leave one row that they share; those before them leave
none, in squeue and in sacct (observed with 22.05). Any other task that ended is in accounting, or,
without it, in squeue for MinJobAge seconds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter

from jobs.files import read_json, readable_like, write_atomic
from jobs.schedulers.slurm.commands import TIME_LIMIT_S, call
from jobs.schedulers.slurm.query import JobStates
from jobs.schedulers.slurm.task import LOST, SlurmTask, array_of
from jobs.sweeps.sweep_files import SweepFiles
from jobs.text import parse_int

LAST_SEEN = ".last_seen.json"
_TASKS = TypeAdapter(dict[str, SlurmTask])


@dataclass(frozen=True)
class LastSeen:
    """States that SLURM reported before.

    Attributes:
        tasks: By job id as users type it.
        age_s: Seconds since then by this machine's clock; None if there was no answer before.
    """

    tasks: Mapping[str, SlurmTask] = field(default_factory=dict)
    age_s: float | None = None

    @classmethod
    def read(cls, sweeps: Sequence[SweepFiles], moment: float) -> LastSeen:
        """Read what was kept beside the sweeps; damaged files are ignored."""
        tasks: dict[str, SlurmTask] = {}
        times = []
        for sweep in sweeps:
            with contextlib.suppress(
                *(OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError)
            ):
                kept = read_json(sweep.folder / LAST_SEEN)
                time = float(kept["at"])
                tasks |= _TASKS.validate_python(kept["tasks"])
                times.append(time)
        return cls(tasks, moment - min(times) if times else None)

    def keep(self, root: Path, states: Mapping[str, SlurmTask], moment: float) -> None:
        """Keep states beside a sweep, if its folder can be written.

        How a job ended stays known when SLURM forgets it, or is queried for other jobs only.
        """
        ended = {name: task for name, task in self.tasks.items() if task.final}
        known = {name: task for name, task in {**ended, **states}.items() if task.state != LOST}
        plain = {name: dataclasses.asdict(task) for name, task in known.items()}
        with contextlib.suppress(OSError), readable_like(root):
            write_atomic(root / LAST_SEEN, json.dumps({"at": moment, "tasks": plain}) + "\n")

    def with_restarts(self, task: SlurmTask) -> SlurmTask:
        """Return a task with its number of restarts, which accounting does not report."""
        before = self.tasks.get(task.job_id)
        if before is None or task.restarts is not None or task.state == LOST:
            return task
        return replace(task, restarts=before.restarts)

    def was_pending(self, name: str) -> bool:
        """True if the task was pending."""
        return name in self.tasks and self.tasks[name].pending

    def described(self) -> str:
        """Return how old these states are."""
        if self.age_s is None:
            return "no states are known"
        age = max(0.0, self.age_s)
        minutes = f"{age / 60:.0f} min" if age < 7200 else f"{age / 3600:.1f} h"
        return f"showing states from {f'{age:.0f} s' if age < 120 else minutes} ago"


def infer_missing(
    names: Set[str], states: JobStates, seen: LastSeen, started: Set[str]
) -> dict[str, SlurmTask]:
    """Return the state of each task that `states` lacks although squeue has answered.

    `started` are the tasks that left files of their own.
    """
    siblings = {array_of(name): task for name, task in states.tasks.items() if "_" in name}
    # Without accounting: a task that was pending so recently would be in squeue, had it started.
    recent = states.accounting_error is not None and _is_recent(names, seen)
    tasks = {}
    for name in names:
        array = array_of(name)
        before, shared, sibling = (
            seen.tasks.get(name),
            states.tasks.get(array),
            siblings.get(array),
        )
        complete = states.accounting_error is None and array not in states.unsure
        ended = before if before is not None and before.final else None
        if ended is not None and ended.node:
            tasks[name] = ended
        elif name in started:
            tasks[name] = lost(name, states)
        elif shared is not None and shared.final and shared.state != LOST and not shared.node:
            # The row of tasks cancelled while pending; accounting may know by now by whom.
            tasks[name] = replace(shared, job_id=name)
        elif ended is not None:
            tasks[name] = ended
        elif name == array:
            tasks[name] = lost(name, states)
        elif sibling is not None and (complete or (recent and seen.was_pending(name))):
            reason = f"never started: SLURM lists other tasks of {array}, and none for {name}"
            tasks[name] = SlurmTask(
                name, array, "CANCELLED", reason, evidence=sibling.evidence, names=sibling.names
            )
        else:
            tasks[name] = lost(name, states, no_log=True)
    return tasks


def lost(job_id: str, states: JobStates, *, no_log: bool = False) -> SlurmTask:
    """Return the state of a job that neither squeue nor, if it answered, sacct lists."""
    reason = f"squeue does not list job {job_id}, "
    reason += states.accounting_error or "and neither does sacct"
    if no_log:
        reason += "; it left no log: it was cancelled while pending, or no node started it"
    return SlurmTask(job_id, array_of(job_id), LOST, reason)


def _is_recent(names: Set[str], seen: LastSeen) -> bool:
    """True if squeue still lists every job that has ended since it last answered."""
    if seen.age_s is None or not any(map(seen.was_pending, names)):
        return False
    kept_s = _kept_s()
    return kept_s is not None and 0 <= seen.age_s < kept_s


def _kept_s() -> float | None:
    """Return for how long squeue lists an ended job for certain, None if unknown.

    Two answers may lie further apart than the moments at which they were requested.
    """
    answer = call(["scontrol", "show", "config"])
    for key, _, value in (line.partition("=") for line in answer.out.splitlines()):
        if key.strip() == "MinJobAge":
            age_s = parse_int(value.split()[0]) if value.split() else None
            if age_s is None:
                return None
            return age_s - TIME_LIMIT_S if age_s else float("inf")  # 0: never forgets
    return None
