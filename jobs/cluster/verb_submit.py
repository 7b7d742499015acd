"""What `run`, `sweep` and `plan` do where the scheduler is SLURM, and what they show."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from conf.choices import Share
from jobs.cluster import screen
from jobs.cluster.batches import Batch, Batches, cut, make_batches
from jobs.cluster.command_line import Call
from jobs.cluster.commands import call as call_slurm
from jobs.cluster.fit import dependency_ids, hopeless_dependency
from jobs.cluster.ledger import Ledger
from jobs.cluster.limits import ClusterLimits, ask_limits
from jobs.cluster.local import record_unsupported
from jobs.cluster.plan import Plan, runs_dir, write_ledger
from jobs.cluster.rejected import record_rejected
from jobs.cluster.script import Submission, script_of
from jobs.cluster.source import CHECKOUT
from jobs.cluster.states import ask_states
from jobs.cluster.submit import (
    Submitted,
    forget,
    interpreter_of,
    next_number,
    submit_all,
    submitting,
)
from jobs.errors import SubmissionError, UsageError


def submit_plan(made: Plan, call: Call) -> int:
    """Writes the ledger and submits every point that can run.

    Args:
        made: The plan.
        call: The command.

    Returns:
        The exit code: 0, or 1 if only a part was taken.

    Raises:
        UsageError: A request that the cluster would never run; nothing was written.
        SubmissionError: The cluster cannot be reached, or took nothing; nothing stays.
    """
    limits = ask_limits()
    batches = make_batches(made.runnable, limits)
    _refuse_hopeless(batches)
    launch = made.config.launch
    mode = 0o750 if launch.share is Share.group else 0o700
    ledger = Ledger.create(runs_dir(made.config), mode=mode)
    try:
        # A name that SLURM would change is told before the plan is written.
        _scripts(cut(batches, ledger.root, limits, itertools.count().__next__))
        write_ledger(made, ledger, verb=call.verb, command=call.command)
        for point in made.unsupported:
            record_unsupported(point, ledger)
    except UsageError:
        forget(ledger)
        raise
    return submit_batches(ledger, batches, limits)


def submit_batches(ledger: Ledger, batches: Batches, limits: ClusterLimits | None) -> int:
    """Submits batches for a sweep whose plan is written; the exit code is 0, or 1 for a part.

    Raises:
        SubmissionError: The cluster took nothing of a new sweep; the sweep is removed again.
    """
    out = screen.console()
    done: list[Submitted] = []
    with submitting(ledger) as lock:
        submissions = cut(batches, ledger.root, limits, lambda: next_number(ledger))
        for one in submit_all(ledger, submissions, lock):
            done.append(one)
            if one.refusal is not None and not one.unknown:
                break  # what SLURM refuses once it refuses again
        refused = [one for one in done if one.job_id is None]
        if refused and not refused[0].unknown:
            rest = [submission for submission, _ in submissions[len(done) - 1 :]]
            _give_up(ledger, refused[0], rest, submissions)
    for note in batches.notes:
        out.print(f"Note: {note}", markup=False)
    show_submitted(ledger, done, out)
    return 1 if refused else 0


def _give_up(
    ledger: Ledger,
    refused: Submitted,
    rest: Sequence[Submission],
    everything: Sequence[tuple[Submission, Batch]],
) -> None:
    import shutil

    for submission in rest:
        shutil.rmtree(submission.folder, ignore_errors=True)
    if not ledger.jobs() and len(rest) == len(everything):
        forget(ledger)
        raise SubmissionError(refused.refusal or "the submission was refused")
    for submission in rest:
        for point_id in itertools.chain.from_iterable(submission.tasks):
            record_rejected(ledger, point_id, refused.refusal or "")


def show_submitted(ledger: Ledger, done: Sequence[Submitted], out: Console) -> None:
    """Shows the job ids and the next commands."""
    for one in done:
        tasks = len(one.submission.tasks)
        if one.job_id is None:
            doubt = "it is not known whether SLURM took it: " if one.unknown else ""
            out.print(f"Not submitted: {tasks} jobs: {doubt}{one.refusal}", markup=False)
        elif tasks == 1:
            out.print(f"Submitted job {one.job_id}", markup=False)
        else:
            out.print(f"Submitted array {one.job_id}_[0-{tasks - 1}]", markup=False)
    out.print(f"Sweep {ledger.sweep_id}: {ledger.root}", markup=False, soft_wrap=True)
    if any(one.job_id is None for one in done):
        out.print(f"Next: python launch.py resume {ledger.sweep_id}", markup=False)
        return
    out.print(
        f"Next: python launch.py status {ledger.sweep_id}   (cancel, logs, collect likewise)",
        markup=False,
    )


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
        _refuse_hopeless(batches)
    sweep = runs_dir(made.config) / "s-<time>-<random>"
    submissions = cut(batches, sweep, limits, itertools.count().__next__)
    for (submission, _), script in zip(submissions, _scripts(submissions), strict=True):
        out.rule(f"submission {submission.number}: {len(submission.tasks)} jobs", align="left")
        out.print(screen.harmless(script), markup=False, soft_wrap=True)
        if limits is not None:
            out.print(f"sbatch --test-only: {_test_only(script)}", markup=False, soft_wrap=True)
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
    out.print(shown)
    for note in [*batches.notes, *([trouble] if trouble else [])]:
        out.print(f"Note: {note}", markup=False)
    out.print(
        f"Expected: {batches.hours:.2f} job hours, {batches.gpu_hours:.2f} GPU hours", markup=False
    )
    return 0


def _limits_or_reason() -> tuple[ClusterLimits | None, str | None]:
    try:
        return ask_limits(), None
    except SubmissionError as error:
        return None, f"limits are not known: {error}"


def _scripts(submissions: Sequence[tuple[Submission, Batch]]) -> list[str]:
    found = []
    for submission, batch in submissions:
        container = batch.cluster.container
        inside = container.pythonpath if container.image is not None else None
        root = str(submission.sweep / "snapshot") if batch.launch.snapshot else inside
        python = interpreter_of(batch)
        found.append(script_of(submission, batch.cluster, python, root or str(CHECKOUT)))
    return found


def _test_only(script: str) -> str:
    """What sbatch says of a script without submitting it."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "submission.sh"
        path.write_text(script, encoding="utf-8")
        answer = call_slurm(["sbatch", "--test-only", f"--chdir={folder}", str(path)])
    said = answer.error or answer.warning or answer.out
    return " ".join(said.split()).removeprefix("sbatch: ")


def _refuse_hopeless(batches: Batches) -> None:
    dependencies = {batch.resources.dependency for batch in batches.batches} - {None}
    for dependency in dependencies:
        ids = dependency_ids(dependency)
        problems = hopeless_dependency(dependency, ask_states(ids).tasks) if ids else []
        if problems:
            raise UsageError("\n".join(problems))


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
