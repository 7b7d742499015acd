"""The verb `cancel`: ends jobs of sweeps, after asking."""

from __future__ import annotations

import sys

from conf.verbs import Cancel
from jobs.errors import SchedulerError, UsageError
from jobs.schedulers.slurm.commands import call as call_slurm
from jobs.schedulers.slurm.states import ask_queue
from jobs.schedulers.slurm.submission import left_behind
from jobs.status.survey import Survey
from jobs.sweeps.ledger import Ledger
from jobs.terminal import screen
from jobs.text import pluralize
from jobs.verbs.command_line import Call
from jobs.verbs.status import look, named, selected


def cancel(config: Cancel, call: Call) -> int:
    """Cancels every job of the ids that has not ended.

    Args:
        config: `yes` skips the question.
        call: Ids; at least one.

    Returns:
        0 when the jobs were told to end, or had ended; 3 if the user said no.

    Raises:
        UsageError: No id; a local job; or nobody there to answer.
        SchedulerError: scancel refused.
    """
    if not call.ids:
        raise UsageError("cancel must be given ids, got none; for the newest sweep: latest")
    selections = selected(config, call)
    seen = look(selections)
    whole = [Ledger(one.folder) for one in selections if one.target is None]
    # A job that has begun is known by what it left, even where its id was never written down.
    jobs = list(dict.fromkeys([*_jobs(seen), *_unnoted(whole)]))
    out = screen.console()
    if not jobs:
        screen.say(out, "Nothing to cancel: every job has ended.")
        return 0
    ids, told = named(selections, call), pluralize(len(jobs), "job")
    if not config.yes and not _agreed(f"Cancel {told} of {' '.join(call.ids)}?"):
        screen.say(out, "Nothing was cancelled.")
        return 3
    _scancel(jobs)
    look(selections)  # kept beside the sweep: without accounting SLURM soon forgets it
    screen.say(out, f"Cancelled {told}; what has a record keeps it.")
    screen.say(out, f"Next: python launch.py status {ids}")
    return 0


def _jobs(seen: Survey) -> list[str]:
    """The jobs that may still run, each once; local ones cannot be ended from here."""
    open_rows = [row for row in seen.points if row.under_way and row.job_id]
    jobs = dict.fromkeys(row.job_id or "" for row in open_rows)
    local = next((job for job in jobs if job.startswith("local-")), None)
    if local is not None:
        raise UsageError(f"{local} runs in a terminal of its own; press Ctrl-C there")
    return [job for job in jobs if job.partition("_")[0].isdecimal()]


def _unnoted(sweeps: list[Ledger]) -> list[str]:
    """Jobs that were submitted, but whose process died before their ids were written down."""
    names = [f"{one.sweep_id}.{path.name}" for one in sweeps for path in left_behind(one)]
    if not names:
        return []
    rows, error = ask_queue("--me", f"--name={','.join(names)}")
    if error is not None:
        raise SchedulerError(f"it cannot be found out what was submitted: {error}")
    return [row.task.job_id for row in rows if not row.task.final]


def _scancel(words: list[str]) -> None:
    answer = call_slurm(["scancel", *words])
    if answer.error is not None and "already completed" not in answer.error:
        raise SchedulerError(f"the jobs could not be cancelled: {answer.error}")


def _agreed(question: str) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("cancel must be told yes=true where nobody can answer, got no terminal")
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
