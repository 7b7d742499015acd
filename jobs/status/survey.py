"""Where every point of some sweeps or jobs stands now: records first, then the scheduler.

However many jobs there are, squeue and sacct are asked once each.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jobs.record import Record, State
from jobs.schedulers.lock import is_submitting
from jobs.schedulers.slurm.states import TaskState, state_of
from jobs.status.exit_code import exit_code
from jobs.status.job_logs import job_logs, logs_of
from jobs.status.point_history import judge
from jobs.status.point_result import PointResult
from jobs.status.scheduler_query import AskStates, ask, may_change, open_tasks, read_again
from jobs.sweeps.ledger import PlannedPoint
from jobs.sweeps.problem import Problem
from jobs.sweeps.reading import Attempt, SweepFiles, Task, read_sweep
from jobs.sweeps.selection import Selection


@dataclass(frozen=True)
class Row:
    """One point and where it stands.

    Attributes:
        point: Its state, cause and evidence.
        planned: What the ledger says of it.
        node: Where it runs or ran.
        elapsed_s: Seconds that it has run.
        task: What the scheduler says of its job; None where nobody was asked.
    """

    point: PointResult
    planned: PlannedPoint
    node: str = ""
    elapsed_s: float | None = None
    task: TaskState | None = None

    @property
    def label(self) -> str:
        """The point in a few words; also where the plan is damaged."""
        choices = self.planned.choices
        return " ".join(f"{key}={choices[key]}" for key in choices) or self.point.label

    @property
    def finished(self) -> bool:
        """Whether it has an outcome."""
        return self.point.state.finished

    @property
    def under_way(self) -> bool:
        """Whether a job runs it, or will; a point that nobody submitted waits for its user."""
        return self.point.state.under_way


@dataclass(frozen=True)
class Survey:
    """Every point that was asked for.

    Attributes:
        rows: The points, sweep by sweep in the plan's order.
        sweeps: What was read.
        notes: What could not be asked, and how old the answer is that stands for it.
        sending: Whether a process submits or runs points of it that are planned only.
    """

    rows: tuple[Row, ...]
    sweeps: tuple[SweepFiles, ...]
    notes: tuple[str, ...] = ()
    sending: bool = False

    @property
    def totals(self) -> dict[str, int]:
        """How many points are in each state and outcome; they add up to all."""
        counts: dict[str, int] = {}
        for row in self.rows:
            counts[row.point.state] = counts.get(row.point.state, 0) + 1
        return counts

    @property
    def damage(self) -> list[Problem]:
        """What says that a plan could not be read whole."""
        return [one for sweep in self.sweeps for one in sweep.problems if one.of_plan]

    def exit_code(self, *, allow_unsupported: bool) -> int:
        """What `exit_code` says of its points."""
        damaged = bool(self.damage)
        return exit_code(
            map(State, self.totals), allow_unsupported=allow_unsupported, damaged=damaged
        )

    @property
    def under_way(self) -> bool:
        """Whether any point may still change without its user."""
        return self.sending or any(row.under_way for row in self.rows)


def survey(
    selections: Sequence[Selection],
    ask_states: AskStates | None,
    clock: Callable[[], float] = time.time,
) -> Survey:
    """Reads the sweeps, asks the scheduler once, and joins both.

    Args:
        selections: What is meant.
        ask_states: Who is asked; None: nobody.
        clock: Seconds since the epoch.

    Returns:
        A row for each point.
    """
    sweeps: dict[Path, SweepFiles] = {}
    chosen: dict[Path, dict[str, None]] = {}
    for selection in selections:
        root = selection.folder.resolve()
        sweep = sweeps.setdefault(root, read_sweep(root))
        taken = [name for name in sweep.planned if selection.takes(sweep, name)]
        chosen.setdefault(root, {}).update(dict.fromkeys(taken))
    names = [name for root, sweep in sweeps.items() for name in open_tasks(sweep, chosen[root])]
    states, notes = ask(names, list(sweeps.values()), ask_states, clock())
    sweeps = {root: read_again(sweep, states) for root, sweep in sweeps.items()}
    logs: dict[Path, list[Path]] = {}
    rows: list[Row] = []
    sending = []
    for root, sweep in sweeps.items():
        mine = [_row(sweep, name, states, logs, clock()) for name in chosen[root]]
        rows += mine
        if any(row.point.state == "PLANNED" for row in mine) and is_submitting(root):
            sending.append(sweep.sweep_id)
    still = (f"{name}: a process still submits or runs its points" for name in sending)
    return Survey(tuple(rows), tuple(sweeps.values()), (*notes, *still), bool(sending))


def _row(
    sweep: SweepFiles,
    point_id: str,
    states: Mapping[str, TaskState],
    job_logs_of: dict[Path, list[Path]],
    moment: float,
) -> Row:
    task = next(iter(sweep.tasks.get(point_id, [])[-1:]), None)
    folder = sweep.job_folders.get(task.job_id) if task else None
    logs: list[Path] = []
    if may_change(sweep, point_id, task):
        if folder is not None and folder not in job_logs_of:
            job_logs_of[folder] = job_logs(folder)
        here = job_logs_of[folder] if folder is not None else []
        logs = logs_of(folder, here, point_id, task, sweep.shell_logs)
    point = judge(sweep, point_id, states, logs)
    state = state_of(str(task), sweep.names, states) if task else None
    begun = _begun(sweep, point_id, task)
    node = begun.started.host if begun and begun.started else ""
    elapsed: float | None = None
    if point.record is not None:
        elapsed = point.record.duration_s
        node = _named(point.record, task) or point.record.environment.host or node
    elif point.state == "RUNNING" and begun is not None:
        with contextlib.suppress(OSError):  # not by what the node's own clock said
            elapsed = max(0.0, moment - (begun.folder / "started.json").stat().st_mtime)
    elif state is not None and state.final:
        elapsed = state.elapsed_s
    if state is not None and state.node:
        node = state.node
    return Row(point, sweep.planned[point_id], node, elapsed, state)


def _named(record: Record, task: Task | None) -> str:
    """The node of a SLURM job as SLURM calls it, which need not be its host name."""
    if task is None or not task.job_id.isdecimal():
        return ""
    nodes = record.environment.variables.get("SLURM_JOB_NODELIST", "")
    return "" if set(nodes) & set("[,") else nodes


def _begun(sweep: SweepFiles, point_id: str, task: Task | None) -> Attempt | None:
    """Its last attempt that began; one of an earlier job says nothing of the job that counts."""
    for attempt in reversed(sweep.attempts.get(point_id, [])):
        if attempt.started and (task is None or attempt.job_folder == task.job_id):
            return attempt
    return None
