"""What became of tasks that SLURM was asked for and has no row of.

SLURM takes a task that is cancelled as it waits out of its array. The last ones leave one row
that they share; those before them leave none, in squeue and in sacct (seen with 22.05). Any other
task that ended is in accounting, or, without it, in squeue for MinJobAge seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace

from jobs.schedulers.slurm.commands import TIME_LIMIT_S, call
from jobs.schedulers.slurm.states import LOST, WAITING, Knowledge, TaskState, array_of
from jobs.text import parse_int


@dataclass(frozen=True)
class Seen:
    """What the scheduler said when it was last asked.

    Attributes:
        tasks: By job id as people type it.
        age_s: Seconds since then by this machine's clock; None: it never was asked.
    """

    tasks: Mapping[str, TaskState] = field(default_factory=dict)
    age_s: float | None = None


def without_row(
    names: Set[str], knowledge: Knowledge, seen: Seen, began: Set[str]
) -> dict[str, TaskState]:
    """Tells of each task what became of it; where nothing shows it, it is LOST.

    Args:
        names: Tasks that were asked for, and that `knowledge` lacks; squeue has answered.
        knowledge: The answer.
        seen: The answer before.
        began: Tasks that left files of their own.
    """
    rows = knowledge.tasks
    siblings = {array_of(name): task for name, task in rows.items() if "_" in name}
    # Without accounting: what waited so short a time ago would be in squeue, had it begun since.
    recent = knowledge.accounting_error is not None and _recent(names, seen)
    found = {}
    for name in names:
        array = array_of(name)
        before, rest, sibling = seen.tasks.get(name), rows.get(array), siblings.get(array)
        complete = knowledge.accounting_error is None and array not in knowledge.unsure
        ended = before if before is not None and before.final else None
        if ended is not None and ended.node:
            found[name] = ended
        elif name in began:
            found[name] = lost(name, knowledge)
        elif rest is not None and _shared(rest):
            # Accounting may have come to know since then by whom.
            found[name] = replace(rest, job_id=name)
        elif ended is not None:
            found[name] = ended
        elif name == array:
            found[name] = lost(name, knowledge)
        elif sibling is not None and (complete or (recent and _waited(seen, name))):
            found[name] = _cancelled(name, sibling)
        else:
            found[name] = lost(name, knowledge, left_nothing=True)
    return found


def lost(job_id: str, knowledge: Knowledge, *, left_nothing: bool = False) -> TaskState:
    """The state of a job that neither command knows, where both or squeue alone could be asked."""
    silent = knowledge.accounting_error
    reason = f"squeue knows no job {job_id}, " + (silent or "and sacct knows none either")
    if left_nothing:
        reason += "; it left no log: it was cancelled as it waited, or no node began it"
    return TaskState(job_id, array_of(job_id), LOST, reason)


def _cancelled(name: str, sibling: TaskState) -> TaskState:
    array = array_of(name)
    reason = f"it never started: SLURM has other tasks of {array}, and no row of {name}"
    return TaskState(
        name, array, "CANCELLED", reason, evidence=sibling.evidence, names=sibling.names
    )


def _shared(rest: TaskState) -> bool:
    """Whether an array's own row is of those that were cancelled as they waited."""
    return rest.final and rest.state != LOST and not rest.node


def _waited(seen: Seen, name: str) -> bool:
    before = seen.tasks.get(name)
    return before is not None and before.state in WAITING


def _recent(names: Set[str], seen: Seen) -> bool:
    """Whether squeue lists whatever ended since it answered last."""
    if seen.age_s is None or not any(_waited(seen, name) for name in names):
        return False
    kept_s = _kept_s()
    return kept_s is not None and 0 <= seen.age_s < kept_s


def _kept_s() -> float | None:
    """For how long squeue surely lists a job that has ended; None where that is not known.

    Two answers may lie further apart than the moments at which they were asked for.
    """
    answer = call(["scontrol", "show", "config"])
    for key, _, value in (line.partition("=") for line in answer.out.splitlines()):
        if key.strip() == "MinJobAge":
            seconds = parse_int(value.split()[0]) if value.split() else None
            if seconds is None:
                return None
            return seconds - TIME_LIMIT_S if seconds else float("inf")  # 0: for ever
    return None
