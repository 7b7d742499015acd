"""Resolves the ids of a command to sweeps, jobs and points."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from jobs.errors import LedgerError, UnknownId
from jobs.files import MAX_TABLE_BYTES, read_bounded
from jobs.suggestions import nearest
from jobs.sweeps.ids import (
    FolderTarget,
    JobTarget,
    LatestTarget,
    LocalTarget,
    PointTarget,
    SweepTarget,
    Target,
    parse_target,
)
from jobs.sweeps.ledger import SWEEP_NAME, Ledger, latest, sweeps
from jobs.sweeps.planned_point import PLAN_NAME
from jobs.sweeps.sweep_files import SweepFiles
from jobs.text import parse_int, pluralize


@dataclass(frozen=True)
class Selection:
    """A sweep's folder and the part of it that is meant; no target means all of it."""

    folder: Path
    target: JobTarget | LocalTarget | PointTarget | None = None

    def __str__(self) -> str:
        return str(self.target or self.folder.name)

    def points_of(self, sweep: SweepFiles) -> list[str]:
        """Return the selected points of the sweep in this folder."""
        return [point_id for point_id in sweep.planned if self._selects(sweep, point_id)]

    def _selects(self, sweep: SweepFiles, point_id: str) -> bool:
        target = self.target
        if target is None:
            return True
        if isinstance(target, PointTarget):
            return point_id == target.point_id
        jobs = sweep.jobs_of(point_id)
        if isinstance(target, LocalTarget):
            return target.job_id in jobs
        tasks = [(task.job_id, task.index) for task in sweep.tasks.get(point_id, [])]
        tasks += [(job, None) for job in jobs if target.tasks is None]
        attempts = sweep.attempts.get(point_id, [])
        tasks += [(raw, None) for attempt in attempts for raw in attempt.raw_job_ids]
        return any(_covers(target, job, index) for job, index in tasks)


def select(ids: list[str], runs_dir: Path) -> list[Selection]:
    """Return one selection for each id, without repetition.

    Raises:
        UsageError: A word is not an id, or nothing has this id.
        LedgerError: A folder is not one sweep.
    """
    selections = [_resolve(parse_target(word), word, runs_dir) for word in ids]
    return list(dict.fromkeys(selections))


def _resolve(target: Target, word: str, runs_dir: Path) -> Selection:
    if isinstance(target, FolderTarget):
        _check_folder(target.folder)
        return Selection(target.folder)
    if isinstance(target, LatestTarget):
        return Selection(latest(runs_dir).root)
    if isinstance(target, SweepTarget):
        if not (runs_dir / target.sweep_id).is_dir():
            suggestion = nearest(word, [ledger.root.name for ledger in sweeps(runs_dir)])
            raise UnknownId("sweep", word, runs_dir, suggestion)
        return Selection(runs_dir / target.sweep_id)
    for ledger in reversed(sweeps(runs_dir)):
        if _may_contain(ledger, target):
            return Selection(ledger.root, target)
    raise UnknownId("point" if isinstance(target, PointTarget) else "job", word, runs_dir)


def _check_folder(folder: Path) -> None:
    """Refuse what is not one sweep; a folder of several would hide points that never ran."""
    if not folder.is_dir():
        if folder.exists():
            remedy = "pass a folder, or a .jsonl file of records"
            raise LedgerError(folder, "is neither a folder nor a file of records", remedy)
        raise LedgerError(folder, "does not exist")
    if (folder / PLAN_NAME).exists() or (folder / SWEEP_NAME).exists():
        return
    try:
        inner = sorted(path.parent for path in folder.glob(f"*/{PLAN_NAME}"))
    except OSError:
        return
    if inner:
        remedy = f"pass one of them, for example {inner[-1]}"
        raise LedgerError(folder, f"holds {pluralize(len(inner), 'sweep')}", remedy)


def _may_contain(ledger: Ledger, target: JobTarget | LocalTarget | PointTarget) -> bool:
    """True if a sweep may contain the target; looks no deeper than needed for many sweeps."""
    if isinstance(target, PointTarget):
        # A plan may have been damaged after its points were submitted.
        files = (ledger.plan_jsonl, ledger.jobs_jsonl)
        return any(_contains(path, f'"{target.point_id}"') for path in files)
    if isinstance(target, LocalTarget):
        has_folder = ledger.job_folder(target.job_id).is_dir()
        return has_folder or _contains(ledger.jobs_jsonl, f'"{target.job_id}"')
    try:
        jobs = ledger.jobs()
    except LedgerError:
        jobs = []
    if any(_covers(target, line.job_id, parse_int(i)) for line in jobs for i in line.tasks):
        return True
    if target.tasks is not None:
        return False
    return ledger.job_folder(str(target.job)).is_dir() or _has_raw_id(ledger, target.job)


def _covers(target: JobTarget, job_id: str, index: int | None) -> bool:
    number = parse_int(job_id)
    return number is not None and target.covers(number, index)


def _has_raw_id(ledger: Ledger, raw: int) -> bool:
    """True if a task of an array in the sweep had this internal id."""
    pattern = re.compile(rb'"raw_job_id":\s*"%d"' % raw)
    for path in ledger.root.glob("*/*/attempt-*/*.json"):
        try:
            if pattern.search(read_bounded(path)):
                return True
        except OSError:
            continue
    return False


def _contains(path: Path, text: str) -> bool:
    try:
        return text.encode() in read_bounded(path, MAX_TABLE_BYTES)
    except OSError:
        return False
