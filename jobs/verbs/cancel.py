"""The verb `cancel`: ends jobs of sweeps."""

from __future__ import annotations

import sys

from conf.verbs import Cancel
from jobs.errors import NotInteractive, WrongIds
from jobs.schedulers.registry import all_schedulers, installed_schedulers
from jobs.sweeps.ledger import Ledger
from jobs.terminal.console import Console
from jobs.text import pluralize
from jobs.verbs.command_line import Call
from jobs.verbs.scope import Scope


def cancel(config: Cancel, call: Call) -> int:
    """Cancel every job of the ids that has not ended, after a question unless `yes` is set.

    Returns 0 if the jobs were cancelled or had ended, 3 if the user declined.
    """
    if not call.ids:
        raise WrongIds("cancel", "at least one id", example="cancel latest")
    scope = Scope.of_call(config, call)
    points = scope.survey().points
    job_ids = [point.job_id for point in points if point.under_way and point.job_id]
    # A job that has started is known by its files, even if its id was never written down.
    sweeps = [Ledger(part.folder) for part in scope.selections if part.target is None]
    for scheduler in installed_schedulers():
        job_ids += scheduler.unrecorded_jobs(sweeps)
    jobs = {
        scheduler: [job_id for job_id in dict.fromkeys(job_ids) if scheduler.owns(job_id)]
        for scheduler in all_schedulers()
    }
    for scheduler, owned in jobs.items():
        if problem := scheduler.cancel_problem(owned):
            raise problem
    total = sum(map(len, jobs.values()))
    out = Console()
    if not total:
        out.print_line("Nothing to cancel: every job has ended.")
        return 0
    if not config.yes and not _confirmed(f"Cancel {pluralize(total, 'job')}?"):
        out.print_line("Nothing was cancelled.")
        return 3
    for scheduler, owned in jobs.items():
        if owned:
            scheduler.cancel(owned)
    scope.survey()  # keeps the states beside the sweep: without accounting SLURM forgets them
    out.print_line(f"Cancelled {pluralize(total, 'job')}; existing records are kept.")
    out.print_line(f"Next: python launch.py status {scope.ids}")
    return 0


def _confirmed(question: str) -> bool:
    if not sys.stdin.isatty():
        raise NotInteractive("pass yes=true")
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
