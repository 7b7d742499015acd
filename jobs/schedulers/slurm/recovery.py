"""Jobs of submissions whose ids were never written down, because the process died."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from jobs.errors import SchedulerUnavailable, WrongCluster
from jobs.files import read_json
from jobs.schedulers.slurm.commands import call
from jobs.schedulers.slurm.query import QueueRow, query_queue
from jobs.schedulers.slurm.submission import record_job, unrecorded_folders
from jobs.schedulers.slurm.task import array_of
from jobs.sweeps.ledger import SUBMISSION_JSON, Ledger

_BATCH_LOG = re.compile(r"(\d+)(?:_\d+)?_batch\.out")


def recover(ledger: Ledger, cluster: str) -> list[str]:
    """Write down what was submitted, remove what never was, and return the recovered job ids.

    The caller holds the sweep's lock, so no sbatch of an earlier process still runs.

    Raises:
        WrongCluster: The sweep was submitted to another cluster.
        SchedulerUnavailable: squeue does not answer; nothing may be submitted.
    """
    for path in sorted((ledger.root / "submissions").glob(f"*/{SUBMISSION_JSON}")):
        submitted_to = _content(path.parent).get("slurm_cluster", cluster)
        if submitted_to != cluster:
            raise WrongCluster(submitted_to, cluster)
    folders = unrecorded_folders(ledger)
    contents = {folder: _content(folder) for folder in folders}
    jobs = {folder: job for folder in folders if contents[folder] and (job := _by_log(folder))}
    missing = {
        _name(ledger, folder): folder
        for folder in folders
        if contents[folder] and folder not in jobs
    }
    if missing:
        by_name = _by_name(list(missing), _day_before(ledger))
        jobs |= {missing[name]: job for name, job in by_name.items() if name in missing}
    for folder in folders:
        if folder in jobs:
            record_job(ledger, int(folder.name), contents[folder]["tasks"], jobs[folder])
        else:
            shutil.rmtree(folder)
    return list(jobs.values())


def unrecorded_jobs(ledgers: Sequence[Ledger]) -> list[str]:
    """Return the jobs of such submissions that have not ended; nothing is written down."""
    names = [_name(one, folder) for one in ledgers for folder in unrecorded_folders(one)]
    rows = _queued(names) if names else []
    return [row.task.job_id for row in rows if not row.task.final]


def _name(ledger: Ledger, folder: Path) -> str:
    return f"{ledger.sweep_id}.{folder.name}"


def _content(folder: Path) -> dict[str, Any]:
    try:
        content = read_json(folder / SUBMISSION_JSON)
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _by_log(folder: Path) -> str | None:
    """Return the job that has started to write its log there."""
    matches = (_BATCH_LOG.fullmatch(path.name) for path in folder.iterdir())
    return next((match[1] for match in matches if match is not None), None)


def _queued(names: Sequence[str]) -> list[QueueRow]:
    rows, error = query_queue("--me", f"--name={','.join(names)}")
    if error is not None:
        raise SchedulerUnavailable("find out what was already submitted", error)
    return rows


def _by_name(names: Sequence[str], since: str) -> dict[str, str]:
    """Return jobs by name, from squeue, and from sacct if squeue has forgotten them."""
    jobs = {row.name: array_of(row.task.job_id) for row in _queued(names)}
    window = (f"--name={','.join(names)}", f"--starttime={since}", "--format=JobID,JobName")
    answer = call(["sacct", "-n", "-X", "--parsable2", *window])
    # Without accounting: a job that squeue has forgotten left its log, or was cancelled before.
    for line in answer.out.splitlines():
        job_id, _, name = line.partition("|")
        if array_of(job_id).isdecimal():
            jobs.setdefault(name, array_of(job_id))
    return jobs


def _day_before(ledger: Ledger) -> str:
    """Return the day before the sweep was created, local time as sacct reads it."""
    created = datetime.fromisoformat(ledger.info().created_at).astimezone()
    return (created - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%S")
