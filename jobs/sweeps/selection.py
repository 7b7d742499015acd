"""Finds the sweeps, jobs and points that the words of a command mean."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from jobs.errors import LedgerError, UnknownId, UsageError
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
from jobs.sweeps.ledger import PLAN_NAME, Ledger, latest, sweeps
from jobs.sweeps.reading import SweepFiles
from jobs.text import parse_int


@dataclass(frozen=True)
class Selection:
    """A sweep's folder, and which part of it is meant; no target: all of it."""

    folder: Path
    target: JobTarget | LocalTarget | PointTarget | None = None

    def takes(self, sweep: SweepFiles, point_id: str) -> bool:
        """Whether a point of the sweep is meant."""
        target = self.target
        if target is None:
            return True
        if isinstance(target, PointTarget):
            return point_id == target.point_id
        jobs = {task.job_id for task in sweep.tasks.get(point_id, [])}
        jobs |= {attempt.job_folder for attempt in sweep.attempts.get(point_id, [])}
        if isinstance(target, LocalTarget):
            return target.job_id in jobs
        named = [(task.job_id, task.index) for task in sweep.tasks.get(point_id, [])]
        named += [(job, None) for job in jobs if target.tasks is None]
        named += [(raw, None) for raw in _raw_ids(sweep, point_id)]
        return any(
            (number := parse_int(job)) is not None and target.covers(number, index)
            for job, index in named
        )


def select(words: list[str], runs_dir: Path) -> list[Selection]:
    """Finds what a command's words mean.

    Args:
        words: Job ids in any form, `s-...`, `p-...`, `local-...`, `latest`, or folders.
        runs_dir: Where sweeps lie.

    Returns:
        One selection a word, without repetition.

    Raises:
        UsageError: A word is no id, or means nothing that is there.
    """
    found = [_find(parse_target(word), word, runs_dir) for word in words]
    return list(dict.fromkeys(found))


def _find(target: Target, word: str, runs_dir: Path) -> Selection:
    if isinstance(target, FolderTarget):
        if not target.folder.is_dir():
            if target.folder.exists():
                raise UsageError(
                    f"{word} must be a folder or a file of records, one a line, whose name ends "
                    "in .jsonl, got another file; `compare` also takes published figures in .json"
                )
            raise UsageError(f"folder must exist, got {word}")
        _refuse_many(target.folder, word)
        return Selection(target.folder)
    if isinstance(target, LatestTarget):
        return Selection(latest(runs_dir).root)
    if isinstance(target, SweepTarget):
        folder = runs_dir / target.sweep_id
        if not folder.is_dir():
            meant = nearest(word, [ledger.root.name for ledger in sweeps(runs_dir)])
            hint = f"; did you mean {meant}?" if meant else ""
            raise UsageError(f"no sweep {word} in {runs_dir}{hint}")
        return Selection(folder)
    for ledger in reversed(sweeps(runs_dir)):
        if _may_hold(ledger, target):
            return Selection(ledger.root, target)
    raise UnknownId("point" if isinstance(target, PointTarget) else "job", word, runs_dir)


def _refuse_many(folder: Path, word: str) -> None:
    """A folder of sweeps is no sweep: read as one, what was planned and never ran is lost."""
    if (folder / PLAN_NAME).exists() or (folder / "sweep.json").exists():
        return
    try:
        inner = sorted(path.parent for path in folder.glob(f"*/{PLAN_NAME}"))
    except OSError:
        return
    if inner:
        raise UsageError(
            f"folder must be one sweep's, got {word}, which holds {len(inner)}; "
            f"for example: {inner[-1]}"
        )


def _may_hold(ledger: Ledger, target: JobTarget | LocalTarget | PointTarget) -> bool:
    """Looks only as deep as it must: a folder may hold hundreds of sweeps."""
    if isinstance(target, PointTarget):
        # A plan may have been damaged after its points were submitted.
        files = (ledger.plan_jsonl, ledger.jobs_jsonl)
        return any(_contains(path, f'"{target.point_id}"') for path in files)
    if isinstance(target, LocalTarget):
        return ledger.job_folder(target.job_id).is_dir() or _contains(
            ledger.jobs_jsonl, f'"{target.job_id}"'
        )
    try:
        jobs = ledger.jobs()
    except LedgerError:
        jobs = []
    tasks = [(line.job_id, parse_int(index)) for line in jobs for index in line.tasks]
    if any(
        (number := parse_int(job)) is not None and target.covers(number, index)
        for job, index in tasks
    ):
        return True
    if target.tasks is None and ledger.job_folder(str(target.job)).is_dir():
        return True
    return target.tasks is None and _has_raw_id(ledger, target.job)


def _has_raw_id(ledger: Ledger, raw: int) -> bool:
    """Whether a task of an array there had this number as its own."""
    asked = re.compile(rb'"raw_job_id":\s*"%d"' % raw)
    for path in ledger.root.glob("*/*/attempt-*/*.json"):
        try:
            if asked.search(read_bounded(path)):
                return True
        except OSError:
            continue
    return False


def _contains(path: Path, text: str) -> bool:
    try:
        return text.encode() in read_bounded(path, MAX_TABLE_BYTES)
    except OSError:
        return False


def _raw_ids(sweep: SweepFiles, point_id: str) -> list[str]:
    sources = [
        source
        for attempt in sweep.attempts.get(point_id, [])
        for source in (attempt.started, attempt.record)
        if source is not None
    ]
    return [source.identity.raw_job_id for source in sources if source.identity.raw_job_id]
