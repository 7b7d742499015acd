"""Submits the batches of a sweep, and tells what became of each."""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import Iterator, Sequence

from rich.console import Console

from jobs.errors import JobError, PartlySubmitted, SubmissionRefused
from jobs.schedulers.rejected import record_rejected
from jobs.schedulers.slurm.batches import Batches, cut
from jobs.schedulers.slurm.commands import unused_variables
from jobs.schedulers.slurm.limits import ClusterLimits
from jobs.schedulers.slurm.script import Submission
from jobs.schedulers.slurm.submission import (
    Submitted,
    forget,
    may_have_been_sent,
    next_number,
    submit_all,
)
from jobs.sweeps.ledger import Ledger
from jobs.terminal import screen
from jobs.terminal.interrupts import NOTHING_STARTED
from jobs.text import pluralize, shell_quote


def submit_batches(
    ledger: Ledger, batches: Batches, limits: ClusterLimits, lock: int, *, new: bool = False
) -> list[Submitted]:
    """Submits batches for a sweep whose plan is written.

    Args:
        ledger: The sweep.
        batches: What to submit.
        limits: What the cluster takes.
        lock: The descriptor of `submitting`.
        new: Nothing of the sweep was ever submitted before.

    Returns:
        What became of each submission; after a refusal the rest is recorded as rejected.

    Raises:
        SubmissionRefused: The cluster took nothing; of a new sweep nothing stays.
    """
    for note in [*batches.notes, *unused_variables()]:
        screen.say(screen.console(), f"Note: {note}")
    for warning in batches.warnings:
        screen.say(screen.console(), f"Warning: {warning}")
    done: list[Submitted] = []
    submissions = cut(batches, ledger.root, limits, lambda: next_number(ledger))
    for one in submit_all(ledger, submissions, lock, limits.name):
        done.append(one)
        if one.job_id is None:
            break  # what SLURM refuses once it refuses again
    if done and done[-1].job_id is None and not done[-1].unknown:
        rest = [submission for submission, _ in submissions[len(done) - 1 :]]
        _give_up(ledger, done[-1], rest, taken=len(done) > 1, new=new)
    return done


def _give_up(
    ledger: Ledger, refused: Submitted, rest: Sequence[Submission], *, taken: bool, new: bool
) -> None:
    for submission in rest:
        shutil.rmtree(submission.folder, ignore_errors=True)
    if not taken:
        if new:
            forget(ledger)
        raise SubmissionRefused(refused.refusal or "the submission was refused")
    for submission in rest:
        for point_id in itertools.chain.from_iterable(submission.tasks):
            record_rejected(ledger, point_id, refused.refusal or "")


@contextlib.contextmanager
def cut_short_told(ledger: Ledger, places: str, *, new: bool) -> Iterator[None]:
    """Says what Ctrl-C or an error has left of a submission; of a new sweep nothing unsent stays.

    Args:
        ledger: The sweep.
        places: What the next commands must repeat.
        new: Nothing of the sweep was ever submitted before.

    Raises:
        PartlySubmitted: In place of an error that came after a part was submitted.
    """
    before = len(ledger.jobs())
    out, ids = screen.console(), ledger.sweep_id + places
    try:
        yield
    except KeyboardInterrupt:
        if _sent(ledger, before):
            screen.say(out, "\nInterrupted: what was submitted goes on, the rest was not sent.")
            screen.say(out, f"To submit the rest: python launch.py resume {ids}")
            screen.say(out, f"To end what was: python launch.py cancel {ids}")
        else:
            told = NOTHING_STARTED if new else "nothing was submitted, and the sweep stays."
            screen.say(out, f"\nInterrupted: {told}")
            if new:
                forget(ledger)
        raise
    except (OSError, JobError) as error:
        if _sent(ledger, before):
            raise PartlySubmitted(_words(error), f"python launch.py resume {ids}") from error
        if new:
            forget(ledger)
        raise
    except BaseException:  # a mistake of ours: the same, and its traceback
        if new and not _sent(ledger, before):
            forget(ledger)
        raise


def _sent(ledger: Ledger, before: int) -> bool:
    """Whether anything was submitted since, or may have been."""
    return len(ledger.jobs()) > before or may_have_been_sent(ledger)


def _words(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return str(error)


def show_submitted(
    ledger: Ledger, done: Sequence[Submitted], places: str, out: Console, *, waits: bool
) -> None:
    """Shows the job ids and the next command.

    Args:
        ledger: The sweep.
        done: What became of each submission.
        places: What the next command must repeat.
        out: Where it is shown.
        waits: Whether this command itself goes on to wait, and needs no `status`.
    """
    for one in done:
        tasks = len(one.submission.tasks)
        if one.job_id is None:
            doubt = "it is not known whether SLURM took it: " if one.unknown else ""
            screen.say(out, f"Not submitted: {pluralize(tasks, 'job')}: {doubt}{one.refusal}")
        elif tasks == 1:
            screen.say(out, f"Submitted job {one.job_id}")
        else:
            screen.say(out, f"Submitted array {one.job_id}_[0-{tasks - 1}]")
    screen.say(out, f"Sweep {ledger.sweep_id}: {shell_quote(ledger.root)}")
    if any(one.job_id is None for one in done):
        screen.say(out, f"Next: python launch.py resume {ledger.sweep_id}{places}")
        return
    if not waits:
        screen.say(out, f"Next: python launch.py status {ledger.sweep_id}{places}")
