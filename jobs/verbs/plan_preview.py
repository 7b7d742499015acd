"""What `plan` shows where the scheduler is SLURM: the scripts themselves, arrays, hours."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from jobs.errors import SchedulerError
from jobs.schedulers.slurm.batches import Batch, Batches, cut, make_batches
from jobs.schedulers.slurm.commands import call as call_slurm
from jobs.schedulers.slurm.commands import unused_variables
from jobs.schedulers.slurm.limits import ClusterLimits, ask_limits
from jobs.schedulers.slurm.refusals import explain
from jobs.schedulers.slurm.script import Submission
from jobs.sweeps.folders import runs_dir
from jobs.sweeps.plan import Plan
from jobs.terminal import screen
from jobs.terminal.tables import show_table
from jobs.text import pluralize
from jobs.verbs.sweep import refuse_hopeless, scripts


@dataclass(frozen=True)
class Requests:
    """What `sweep` would submit, once it is known that the cluster would take it.

    Attributes:
        batches: The points by what they ask for.
        submissions: The arrays.
        scripts: A script for each.
        trouble: Why the cluster could not be asked for its limits.
    """

    batches: Batches
    submissions: Sequence[tuple[Submission, Batch]]
    scripts: Sequence[str]
    trouble: str | None


def make_requests(made: Plan) -> Requests:
    """Makes what `sweep` would submit; nothing is shown yet, for a refusal stands alone.

    Args:
        made: The plan.

    Returns:
        The requests, without limits where the cluster cannot be asked.

    Raises:
        UsageError: A request that the cluster would never run.
    """
    limits, trouble = _limits_or_reason()
    batches = make_batches(made.runnable, limits)
    if limits is not None:
        refuse_hopeless(batches)
    sweep = runs_dir(made.config) / "s-<time>-<random>"
    submissions = cut(batches, sweep, limits, itertools.count().__next__)
    return Requests(batches, submissions, scripts(submissions), trouble)


def show_requests(requests: Requests, out: Console) -> None:
    """Shows scripts, arrays, hours, and what SLURM says of each.

    Args:
        requests: What `sweep` would submit.
        out: Where it is shown.
    """
    batches, submissions = requests.batches, requests.submissions
    refusals: dict[str, str] = {}
    for (submission, _), script in zip(submissions, requests.scripts, strict=True):
        waits = f", after submission {submission.number - 1} has ended" if submission.waits else ""
        jobs = pluralize(len(submission.tasks), "job")
        out.rule(f"submission {submission.number}: {jobs}{waits}", align="left")
        screen.say(out, screen.harmless(script))
        if requests.trouble is None:
            said, error = _test_only(script)
            screen.say(out, f"sbatch --test-only: {said}")
            if error is not None:
                told = explain(error, submission.resources)
                refusals[told] = f"submission {submission.number}: {told}"
    shown = screen.table("Submissions", "number", "jobs", "points", "asks for", "minutes each")
    for submission, _ in submissions:
        points = sum(len(slot) for slot in submission.tasks)
        shown.add_row(
            str(submission.number),
            str(len(submission.tasks)),
            str(points),
            _words(submission),
            str(submission.time_min),
        )
    show_table(out, shown)
    trouble = filter(None, [requests.trouble])
    for note in [*batches.notes, *unused_variables(), *trouble, *refusals.values()]:
        screen.say(out, f"Note: {note}")
    screen.say(out, f"Expected: {batches.hours:.2f} job hours, {batches.gpu_hours:.2f} GPU hours")


def _limits_or_reason() -> tuple[ClusterLimits | None, str | None]:
    try:
        return ask_limits(), None
    except SchedulerError as error:
        return None, f"limits are not known: {error}"


def _test_only(script: str) -> tuple[str, str | None]:
    """What sbatch says of a script without submitting it, and why it would refuse it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "submission.sh"
        path.write_text(script, encoding="utf-8")
        answer = call_slurm(["sbatch", "--test-only", f"--chdir={folder}", str(path)])
    said = answer.error or answer.warning or answer.out
    return " ".join(said.split()).removeprefix("sbatch: "), answer.error


def _words(submission: Submission) -> str:
    asked = submission.resources
    words = {
        "partition": asked.partition,
        "gres": asked.gres,
        "gpus-per-node": asked.gpus_per_node,
        "constraint": asked.constraint,
        "mem": None if asked.memory_mib is None else f"{asked.memory_mib}M",
        "cpus": asked.cpus_per_task,
    }
    return " ".join(f"{key}={value}" for key, value in words.items() if value is not None)
