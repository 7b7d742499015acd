"""Sends submissions to SLURM so that none is lost and none is sent twice.

What a submission is lies in the sweep's folder before sbatch is called, and its id is written
down right after. Between the two the process may die: the job carries the submission's name, by
which `resume` finds it. One process at a time submits for a sweep, and an sbatch that outlives
the process that called it still counts as that process.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from submitit.core.utils import DelayedSubmission

from jobs.files import write_atomic
from jobs.runner.slot import run_slot
from jobs.schedulers.slurm.batches import Batch
from jobs.schedulers.slurm.commands import Answer, clean_environment, said
from jobs.schedulers.slurm.node_archive import pack_entry, take_snapshot
from jobs.schedulers.slurm.refusals import explain
from jobs.schedulers.slurm.script import PICKLE, SUBMISSION_SH, Submission, script_of
from jobs.sweeps.ledger import SUBMISSION_JSON, JobLine, Ledger, now
from jobs.sweeps.source import CHECKOUT
from jobs.terminal.interrupts import interrupts_held
from jobs.text import parse_int

SBATCH_LIMIT_S = 60.0


@dataclass(frozen=True)
class Submitted:
    """What became of one submission.

    Attributes:
        submission: What was sent.
        job_id: The job that SLURM made of it; None: it refused.
        refusal: Why, in SLURM's words, with the key to change.
        unknown: It is not known whether SLURM took it: `resume` will find out.
    """

    submission: Submission
    job_id: str | None
    refusal: str | None = None
    unknown: bool = False


def next_number(ledger: Ledger) -> int:
    """Takes the next free submission number, by making its folder; two callers never share one."""
    folder = ledger.root / "submissions"
    folder.mkdir(exist_ok=True)
    number = max(_numbers(folder), default=-1) + 1
    while True:
        try:
            (folder / str(number)).mkdir()
        except FileExistsError:
            number += 1
        else:
            return number


def root_of(ledger: Ledger, batch: Batch) -> str:
    """The tree that the batch's points run from, as the node sees it."""
    if batch.launch.snapshot:
        return str(take_snapshot(ledger.root))
    container = batch.cluster.container
    if container.image is not None and container.pythonpath is not None:
        return container.pythonpath
    return str(CHECKOUT)


def interpreter_of(batch: Batch) -> str:
    """The interpreter on the node: the container's, the cluster's, or as a default this one."""
    if batch.cluster.container.image is not None:
        return batch.cluster.container.python
    return batch.cluster.python or sys.executable


def submit_all(
    ledger: Ledger, submissions: Sequence[tuple[Submission, Batch]], lock: int, cluster: str
) -> Iterator[Submitted]:
    """Sends submissions one after another.

    Args:
        ledger: The sweep, whose plan is written.
        submissions: What to send; each has its folder.
        lock: The descriptor of `submitting`.
        cluster: SLURM's own name of the cluster, so that no other is asked for these jobs.

    Yields:
        What became of each, as soon as it is known.
    """
    before: str | None = None
    for submission, batch in submissions:
        _prepare(submission, batch, root_of(ledger, batch), cluster)
        with interrupts_held():
            done = _send(ledger, submission, before if submission.waits else None, lock)
        before = done.job_id or before
        yield done


def _prepare(submission: Submission, batch: Batch, root: str, cluster: str) -> None:
    """Writes everything that the job will need; sbatch has not been called yet."""
    python = interpreter_of(batch)
    asked: dict[str, Any] = {
        "name": submission.name,
        "slurm_cluster": cluster,
        "sweep": str(submission.sweep),
        "python": python,
        "root": root,
        "tasks": {str(index): list(ids) for index, ids in enumerate(submission.tasks)},
        "time_min": submission.time_min,
        "warning_s": submission.warning_s,
        "point_time_limit_s": batch.launch.point_time_limit_s,
        "max_log_mib": batch.launch.max_log_mib,
    }
    script = script_of(submission, batch.cluster, python, root)
    path = submission.folder / SUBMISSION_JSON
    delayed = DelayedSubmission(run_slot, str(path))
    delayed.set_timeout(submission.time_min, 0)
    delayed.dump(submission.folder / PICKLE)
    pack_entry(submission.folder)
    write_atomic(submission.folder / SUBMISSION_SH, script)
    # Last: a folder that holds this file holds all of them.
    write_atomic(path, json.dumps(asked, indent=1) + "\n")


def _send(ledger: Ledger, submission: Submission, after: str | None, lock: int) -> Submitted:
    command = sbatch_command(submission, after)
    answer = _call(command, lock)
    if answer.error is None:
        job_id = answer.out.strip().partition(";")[0]
        if job_id.isdecimal():
            tasks = {str(index): list(ids) for index, ids in enumerate(submission.tasks)}
            note_job(ledger, submission.number, tasks, job_id)
            return Submitted(submission, job_id)
        return Submitted(submission, None, f"sbatch answered {answer.out.strip()!r}", unknown=True)
    if _may_have_arrived(answer.error):
        return Submitted(submission, None, answer.error, unknown=True)
    shutil.rmtree(submission.folder)
    return Submitted(submission, None, explain(answer.error, submission.resources))


def sbatch_command(submission: Submission, after: str | None = None) -> list[str]:
    """The command that sends a submission.

    Args:
        submission: Its script must have been written.
        after: A job that must have ended first.
    """
    words = ["sbatch", "--parsable"]
    if after is not None:
        own = [submission.resources.dependency] if submission.resources.dependency else []
        words.append(f"--dependency={','.join([*own, f'afterany:{after}'])}")
    return [*words, str(submission.folder / SUBMISSION_SH)]


def note_job(ledger: Ledger, number: int, tasks: dict[str, list[str]], job_id: str) -> None:
    """Writes a submission's job id down, and lays its script beside the job's files."""
    ledger.add_job(
        JobLine(
            job_id=job_id,
            tasks=tasks,
            scheduler="slurm",
            submitted_at=now(),
            name=f"{ledger.sweep_id}.{number}",
            submission=number,
        )
    )
    folder = ledger.job_folder(job_id)
    with contextlib.suppress(OSError):  # the job makes the folder too, and runs without the copy
        folder.mkdir(exist_ok=True)
        written = ledger.root / "submissions" / str(number) / SUBMISSION_SH
        write_atomic(folder / f"{job_id}_submission.sh", written.read_text(encoding="utf-8"))


def _call(command: list[str], lock: int) -> Answer:
    """Calls sbatch in a session of its own, holding the lock: our end is not its end."""
    try:
        process = subprocess.Popen(
            command,
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=(lock,),
        )
    except OSError as error:
        return Answer("", f"sbatch cannot be run: {error.strerror}")
    with process:
        try:
            out, warning = process.communicate(timeout=SBATCH_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return Answer("", f"sbatch: Timed out after {SBATCH_LIMIT_S:.0f} s")
    stderr = warning.decode("utf-8", "replace")
    if process.returncode == 0:
        return Answer(out.decode("utf-8", "replace"), None, stderr)
    return Answer("", said("sbatch", stderr, process.returncode), stderr)


def _may_have_arrived(error: str) -> bool:
    """Whether the controller may have taken the job although sbatch says no."""
    return any(words in error for words in ("Timed out", "timed out", "Zero Bytes", "ended with"))


def forget(ledger: Ledger) -> None:
    """Removes a sweep of which nothing was ever submitted."""
    if not ledger.jobs() and ledger.root.is_dir():
        shutil.rmtree(ledger.root)


def may_have_been_sent(ledger: Ledger) -> bool:
    """Whether sbatch may have been called for a submission whose id is not known."""
    return any((folder / SUBMISSION_JSON).exists() for folder in left_behind(ledger))


def left_behind(ledger: Ledger) -> list[Path]:
    """Submissions whose job id was never written down."""
    folder = ledger.root / "submissions"
    noted = {line.submission for line in ledger.jobs() if line.scheduler == "slurm"}
    numbers = _numbers(folder) if folder.is_dir() else []
    return [folder / str(number) for number in numbers if number not in noted]


def _numbers(folder: Path) -> list[int]:
    """The submissions of a folder, in order."""
    return sorted(number for name in os.listdir(folder) if (number := parse_int(name)) is not None)
