"""Finds the jobs of submissions whose ids were never written down, because the process died."""

from __future__ import annotations

import re
import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from jobs.errors import SchedulerUnavailable, WrongCluster
from jobs.files import read_json
from jobs.schedulers.slurm.commands import call
from jobs.schedulers.slurm.states import ask_queue
from jobs.schedulers.slurm.submission import left_behind, note_job
from jobs.sweeps.ledger import SUBMISSION_JSON, Ledger

_BATCH_LOG = re.compile(r"(\d+)(?:_\d+)?_batch\.out")


def recover(ledger: Ledger, cluster: str) -> list[str]:
    """Writes down what was submitted, and removes what never was.

    The caller holds the sweep's right to submit, so no sbatch of an earlier process still runs.

    Args:
        ledger: The sweep.
        cluster: The name of the cluster that will be asked.

    Returns:
        A line for each submission that was found.

    Raises:
        SchedulerError: The cluster is not the one that the sweep was submitted to, or cannot be
            asked; nothing may be submitted then.
    """
    for path in sorted((ledger.root / "submissions").glob(f"*/{SUBMISSION_JSON}")):
        known = _read(path.parent).get("slurm_cluster", cluster)
        if known != cluster:
            raise WrongCluster(known, cluster)
    behind = left_behind(ledger)
    written = {path: _read(path) for path in behind}
    names = {f"{ledger.sweep_id}.{path.name}": path for path in behind if written[path]}
    found = {path: job for path in names.values() if (job := _by_its_log(path))}
    missing = {name: path for name, path in names.items() if path not in found}
    if missing:
        asked = _by_name(list(missing), _since(ledger))
        found |= {missing[name]: job for name, job in asked.items() if name in missing}
    said = []
    for path in behind:
        if path in found:
            note_job(ledger, int(path.name), written[path]["tasks"], found[path])
            said.append(f"submission {path.name} had become job {found[path]}")
        else:
            shutil.rmtree(path)
    return said


def _read(folder: Path) -> dict[str, Any]:
    try:
        asked = read_json(folder / SUBMISSION_JSON)
    except (OSError, ValueError):
        return {}
    return asked if isinstance(asked, dict) else {}


def _by_its_log(folder: Path) -> str | None:
    """The job that has begun to write its log there."""
    for path in folder.iterdir():
        match = _BATCH_LOG.fullmatch(path.name)
        if match is not None:
            return match[1]
    return None


def _by_name(names: list[str], since: str) -> dict[str, str]:
    """The jobs of these names, from squeue, and from sacct where squeue has forgotten them."""
    listed = ",".join(names)
    rows, error = ask_queue("--me", f"--name={listed}")
    if error is not None:
        raise SchedulerUnavailable("find out what was submitted already", error)
    found = {row.name: row.task.job_id.partition("_")[0] for row in rows}
    window = (f"--starttime={since}", "--format=JobID,JobName")
    answer = call(["sacct", "-n", "-X", "--parsable2", f"--name={listed}", *window])
    # Without accounting: what squeue has forgotten left its log, or was cancelled before it ran.
    for line in answer.out.splitlines():
        job_id, _, name = line.partition("|")
        number = job_id.partition("_")[0]
        if number.isdecimal():
            found.setdefault(name, number)
    return found


def _since(ledger: Ledger) -> str:
    """A day before the sweep was made, local time as sacct reads it."""
    made = datetime.fromisoformat(ledger.info().created_at).astimezone()
    return (made - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%S")
