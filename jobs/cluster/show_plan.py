"""What `plan` shows where the scheduler is SLURM: the scripts themselves, arrays, hours."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

from rich.console import Console

from jobs.cluster import screen
from jobs.cluster.batches import cut, make_batches
from jobs.cluster.commands import call as call_slurm
from jobs.cluster.commands import unused_variables
from jobs.cluster.limits import ClusterLimits, ask_limits
from jobs.cluster.narrow import show_table
from jobs.cluster.plan import Plan, runs_dir
from jobs.cluster.refusal import explain
from jobs.cluster.script import Submission
from jobs.cluster.verb_submit import refuse_hopeless, scripts
from jobs.errors import SubmissionError
from jobs.text import counted


def show_plan(made: Plan, out: Console) -> int:
    """Shows what `sweep` would submit: scripts, arrays, hours, and what SLURM says of each.

    Args:
        made: The plan.
        out: Where it is shown.

    Returns:
        0; a cluster that cannot be asked is told, and the scripts are shown without its limits.

    Raises:
        UsageError: A request that the cluster would never run.
    """
    limits, trouble = _limits_or_reason()
    batches = make_batches(made.runnable, limits)
    if limits is not None:
        refuse_hopeless(batches)
    sweep = runs_dir(made.config) / "s-<time>-<random>"
    submissions = cut(batches, sweep, limits, itertools.count().__next__)
    refusals: dict[str, str] = {}
    for (submission, _), script in zip(submissions, scripts(submissions), strict=True):
        waits = f", after submission {submission.number - 1} has ended" if submission.waits else ""
        jobs = counted(len(submission.tasks), "job")
        out.rule(f"submission {submission.number}: {jobs}{waits}", align="left")
        screen.say(out, screen.harmless(script))
        if limits is not None:
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
    notes = [*batches.notes, *unused_variables(), *filter(None, [trouble]), *refusals.values()]
    for note in notes:
        screen.say(out, f"Note: {note}")
    screen.say(out, f"Expected: {batches.hours:.2f} job hours, {batches.gpu_hours:.2f} GPU hours")
    return 0


def _limits_or_reason() -> tuple[ClusterLimits | None, str | None]:
    try:
        return ask_limits(), None
    except SubmissionError as error:
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
