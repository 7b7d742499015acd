"""Asks the scheduler for many jobs at once, and says what it could not be asked.

What squeue and sacct last said is kept beside the sweep, so that a controller that is down costs
age and not knowledge.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pydantic import TypeAdapter

from jobs.files import read_json, readable_like, write_atomic
from jobs.schedulers.local import has_sbatch
from jobs.schedulers.slurm import states as scheduler
from jobs.schedulers.slurm.missing_rows import Seen, without_row
from jobs.schedulers.slurm.states import LOST, Knowledge, TaskState
from jobs.sweeps.sweep_files import SweepFiles

AskStates = Callable[[list[str]], Knowledge]
"""Asks the scheduler for all of these jobs at once, as `states.ask_states` does."""


def whom() -> AskStates | None:
    """Who can be asked here, by every verb alike: SLURM where it is installed, else nobody."""
    return scheduler.ask_states if has_sbatch() else None


LAST_SEEN = ".last_seen.json"
_TASKS = TypeAdapter(dict[str, TaskState])


def ask(
    names: list[str], sweeps: Sequence[SweepFiles], ask_states: AskStates | None, moment: float
) -> tuple[dict[str, TaskState], list[str]]:
    """Asks once for all of these tasks.

    Args:
        names: Tasks that SLURM may know, as people type them.
        sweeps: Their sweeps, in whose folders what is seen is kept.
        ask_states: Who is asked; None: nobody.
        moment: Now, seconds since the epoch.

    Returns:
        States by task, and a note for each command that gave no answer. Of a task that both were
        asked for and neither knows, what `without_row` says; one that nobody could be asked for
        is what it was when it was last seen, or left out.
    """
    if not names or ask_states is None:
        return {}, []
    knowledge = ask_states(names)
    notes = []
    states = dict(knowledge.tasks)
    seen = _last_seen(sweeps, moment)
    if knowledge.queue_error is None:
        began = {name for sweep in sweeps for name in _began(sweep)}
        states |= without_row(set(names) - states.keys(), knowledge, seen, began)
        states = {name: _counted(task, seen.tasks.get(name)) for name, task in states.items()}
        for sweep in sweeps:
            _keep(sweep.folder, seen, states, moment)
    else:
        ended = {name: task for name, task in states.items() if task.final}
        states = {**seen.tasks, **ended}
        old = "nothing" if seen.age_s is None else f"what was seen {_age(seen.age_s)} ago"
        notes.append(f"squeue does not answer ({knowledge.queue_error}): of jobs, {old} is shown")
    if knowledge.accounting_error is not None:
        notes.append(_accounting_note(knowledge))
    return states, notes


def _accounting_note(knowledge: Knowledge) -> str:
    said = knowledge.accounting_error or ""
    if "disabled" in said:
        return "this cluster keeps no accounting: ended jobs are known by their files alone"
    return f"sacct does not answer ({said}): ended jobs are known by their files alone"


def _began(sweep: SweepFiles) -> set[str]:
    """The tasks that left a file of their own, whatever became of it."""
    found = set(sweep.shell_logs)
    for point_id, attempts in sweep.attempts.items():
        folders = {attempt.job_folder for attempt in attempts}
        found |= {str(task) for task in sweep.tasks.get(point_id, []) if task.job_id in folders}
    return found


def _counted(task: TaskState, before: TaskState | None) -> TaskState:
    """With the number of its restarts, which accounting does not tell."""
    if before is None or task.restarts is not None or task.state == LOST:
        return task
    return dataclasses.replace(task, restarts=before.restarts)


def _keep(root: Path, seen: Seen, states: Mapping[str, TaskState], moment: float) -> None:
    """Keeps what was seen; a sweep that is somebody else's cannot be written, and need not.

    How a job ended stays known when the scheduler forgets it, or is asked for other jobs alone.
    """
    ended = {name: task for name, task in seen.tasks.items() if task.final}
    known = {name: task for name, task in {**ended, **states}.items() if task.state != LOST}
    plain = {name: dataclasses.asdict(task) for name, task in known.items()}
    with contextlib.suppress(OSError), readable_like(root):
        write_atomic(root / LAST_SEEN, json.dumps({"at": moment, "tasks": plain}) + "\n")


def _last_seen(sweeps: Sequence[SweepFiles], moment: float) -> Seen:
    found: dict[str, TaskState] = {}
    oldest: float | None = None
    for sweep in sweeps:
        try:
            kept = read_json(sweep.folder / LAST_SEEN)
            at = float(kept["at"])
            found |= _TASKS.validate_python(kept["tasks"])
        except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
            continue
        oldest = at if oldest is None else min(oldest, at)
    return Seen(found, None if oldest is None else moment - oldest)


def _age(seconds: float) -> str:
    seconds = max(0.0, seconds)
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
