"""Sends submissions to SLURM so that none is lost and none is sent twice.

Everything that a job needs is in the sweep's folder before sbatch is called, and its id is written
down right after. If the process dies in between, `recovery` finds the job by the submission's
name. One process at a time submits for a sweep, and an sbatch that outlives the process that
called it still holds the sweep's lock.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from submitit.core.utils import DelayedSubmission

from jobs.files import write_atomic
from jobs.runner.slot import run_slot
from jobs.schedulers.scheduler import Accepted, Refused, Reply, Unknown
from jobs.schedulers.slurm.batches import Batch
from jobs.schedulers.slurm.commands import Meaning, call
from jobs.schedulers.slurm.node_archive import pack_entry, take_snapshot
from jobs.schedulers.slurm.refusals import refusal_of
from jobs.schedulers.slurm.script import PICKLE, SUBMISSION_SH, Submission, script_of
from jobs.source import CHECKOUT
from jobs.sweeps.ledger import SNAPSHOT, SUBMISSION_JSON, JobLine, Ledger, now
from jobs.terminal.interrupts import interrupts_held
from jobs.text import parse_int

SBATCH_LIMIT_S = 60.0


def next_number(ledger: Ledger) -> int:
    """Reserve the next free submission number by creating its folder."""
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


def interpreter_of(batch: Batch) -> str:
    """Return the interpreter on the node: the container's, the cluster's, or else this one."""
    if batch.cluster.container.image is not None:
        return batch.cluster.container.python
    return batch.cluster.python or sys.executable


def script_for(submission: Submission, batch: Batch) -> str:
    """Return the script of a submission, exactly as it is sent."""
    root = _checkout_on_node(submission.sweep, batch)
    return script_of(submission, batch.cluster, interpreter_of(batch), root)


def _checkout_on_node(sweep: Path, batch: Batch) -> str:
    container = batch.cluster.container
    if batch.launch.snapshot:
        return str(sweep / SNAPSHOT)
    if container.image is not None and container.pythonpath is not None:
        return container.pythonpath
    return str(CHECKOUT)


def send_all(
    ledger: Ledger, submissions: Sequence[tuple[Submission, Batch]], lock: int, cluster: str
) -> Iterator[Reply]:
    """Send submissions one after another, and yield SLURM's reply to each.

    Args:
        ledger: The sweep, whose plan is written.
        submissions: What to send; each has its folder.
        lock: Descriptor of the lock that `submitting` holds.
        cluster: SLURM's name of the cluster, so that no other is queried for these jobs.
    """
    previous: str | None = None
    for submission, batch in submissions:
        if batch.launch.snapshot:
            take_snapshot(ledger.root)
        _write(submission, batch, cluster)
        with interrupts_held():
            reply = _send(ledger, submission, previous if submission.waits else None, lock)
        if isinstance(reply, Accepted):
            previous = reply.job_id
        yield reply


def _write(submission: Submission, batch: Batch, cluster: str) -> None:
    """Write everything that the job will need."""
    content: dict[str, Any] = {
        "name": submission.name,
        "slurm_cluster": cluster,
        "sweep": str(submission.sweep),
        "python": interpreter_of(batch),
        "root": _checkout_on_node(submission.sweep, batch),
        "tasks": submission.points_by_task,
        "time_min": submission.time_min,
        "warning_s": submission.warning_s,
        "point_time_limit_s": batch.launch.point_time_limit_s,
        "max_log_mib": batch.launch.max_log_mib,
    }
    script = script_for(submission, batch)
    path = submission.folder / SUBMISSION_JSON
    delayed = DelayedSubmission(run_slot, str(path))
    delayed.set_timeout(submission.time_min, 0)
    delayed.dump(submission.folder / PICKLE)
    pack_entry(submission.folder)
    write_atomic(submission.folder / SUBMISSION_SH, script)
    # Last: a folder with this file has all of them.
    write_atomic(path, json.dumps(content, indent=1) + "\n")


def _send(ledger: Ledger, submission: Submission, after: str | None, lock: int) -> Reply:
    answer = call(sbatch_command(submission, after), time_limit_s=SBATCH_LIMIT_S, lock=lock)
    tasks = len(submission.tasks)
    if answer.error is not None:
        if answer.silent or answer.means(Meaning.MAY_BE_ACCEPTED):
            return Unknown(tasks, answer.error)
        shutil.rmtree(submission.folder)
        return Refused(tasks, refusal_of(answer.error, submission.resources))
    job_id = answer.out.strip().partition(";")[0]
    if not job_id.isdecimal():
        return Unknown(tasks, f"unexpected output of sbatch: {answer.out.strip()!r}")
    record_job(ledger, submission.number, submission.points_by_task, job_id)
    shown = f"array {job_id}_[0-{tasks - 1}]" if submission.is_array else f"job {job_id}"
    return Accepted(tasks, job_id, shown)


def sbatch_command(submission: Submission, after: str | None = None) -> list[str]:
    """Return the command that sends a submission, to start after the job `after` has ended."""
    command = ["sbatch", "--parsable"]
    if after is not None:
        own = [submission.resources.dependency] if submission.resources.dependency else []
        command.append(f"--dependency={','.join([*own, f'afterany:{after}'])}")
    return [*command, str(submission.folder / SUBMISSION_SH)]


def record_job(ledger: Ledger, number: int, tasks: dict[str, list[str]], job_id: str) -> None:
    """Write down a submission's job id, and copy its script to the job's files."""
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
    with contextlib.suppress(OSError):  # the job creates the folder too, and needs no copy
        folder.mkdir(exist_ok=True)
        script = ledger.root / "submissions" / str(number) / SUBMISSION_SH
        write_atomic(folder / f"{job_id}_submission.sh", script.read_text(encoding="utf-8"))


def forget(ledger: Ledger) -> None:
    """Remove a sweep of which nothing was ever submitted."""
    if not ledger.jobs() and ledger.root.is_dir():
        shutil.rmtree(ledger.root)


def may_have_been_sent(ledger: Ledger) -> bool:
    """True if sbatch may have been called for a submission whose job id is unknown."""
    return any((folder / SUBMISSION_JSON).exists() for folder in unrecorded_folders(ledger))


def unrecorded_folders(ledger: Ledger) -> list[Path]:
    """Return the folders of submissions whose job id was never written down."""
    folder = ledger.root / "submissions"
    recorded = {line.submission for line in ledger.jobs() if line.scheduler == "slurm"}
    numbers = _numbers(folder) if folder.is_dir() else []
    return [folder / str(number) for number in numbers if number not in recorded]


def _numbers(folder: Path) -> list[int]:
    return sorted(number for name in os.listdir(folder) if (number := parse_int(name)) is not None)
