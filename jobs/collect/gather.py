"""Collections: logs, records and tables of any ids in one folder."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from jobs.collect.files import LEDGER_FILES, SweepCopy
from jobs.collect.junit import junit_text
from jobs.collect.points_table import row
from jobs.collect.records_file import gather_records, is_records_file, load_records
from jobs.collect.review import review_text
from jobs.collect.store import (
    STORE_NAME,
    holds,
    load_collection,
    save_collection,
    write_if_changed,
)
from jobs.collect.table_files import csv_text, json_text, write_parquet
from jobs.errors import LedgerError, WrongIds
from jobs.files import private_files, remove_partial_files
from jobs.schedulers.scheduler import Scheduler
from jobs.status.collection import Collection
from jobs.status.job_logs import JobLogs
from jobs.status.point_history import PointHistory
from jobs.status.point_result import PointResult, Quote
from jobs.status.survey import survey
from jobs.sweeps.file_problem import FileProblem
from jobs.sweeps.selection import Selection, select

_LONGEST_NAME = 80


@private_files()
def collect(
    ids: list[str],
    runs_dir: Path,
    results_dir: Path,
    *,
    schedulers: Sequence[Scheduler] = (),
) -> Collection:
    """Gather everything of some ids in `results_dir/<name>/`.

    Repeating it changes nothing unless the sources changed; it may run while jobs do. Besides ids
    it accepts folders of sweeps, the folder of a collection, which is rebuilt from its own files,
    and a file of records.
    """
    file = _records_file(ids)
    if file is not None:
        collection = gather_records(file, results_dir)
    else:
        selections = select(ids, runs_dir)
        collection = _stored(selections) or _gather(selections, results_dir, schedulers)
    write_tables(collection)
    return collection


def read_points(
    ids: list[str], runs_dir: Path, schedulers: Sequence[Scheduler] = ()
) -> Collection:
    """Return what `collect` would gather, without copying or writing anything."""
    file = _records_file(ids)
    if file is not None:
        return load_records(file)
    selections = select(ids, runs_dir)
    return _stored(selections) or _gather(selections, None, schedulers)


def write_tables(collection: Collection) -> None:
    """Write `collection.json`, the tables, the JUnit file and the review block."""
    folder = collection.folder
    assert folder is not None
    rows = [row(point) for point in collection.points]
    save_collection(collection)
    text = json_text(rows)
    if not holds(folder / "points.json", text) or not (folder / "points.parquet").is_file():
        # First: an unchanged points.json marks the parquet file as current.
        write_parquet(rows, folder / "points.parquet")
    write_if_changed(folder / "points.json", text)
    write_if_changed(folder / "points.csv", csv_text(rows))
    write_if_changed(folder / "junit.xml", junit_text(collection))
    write_if_changed(folder / "review.md", review_text(collection))


def _records_file(ids: list[str]) -> Path | None:
    files = [name for name in ids if is_records_file(name)]
    if files and len(ids) > 1:
        raise WrongIds("collect", "a file of records only without other ids", ids)
    return Path(files[0]).expanduser() if files else None


def _stored(selections: list[Selection]) -> Collection | None:
    if len(selections) == 1 and (selections[0].folder / STORE_NAME).is_file():
        return load_collection(selections[0].folder)
    return None


def _gather(
    selections: list[Selection], results_dir: Path | None, schedulers: Sequence[Scheduler]
) -> Collection:
    """Return a collection of the selections, with a folder if there is a `results_dir`."""
    overview = survey(selections, schedulers)
    for sweep in overview.sweeps:
        if not sweep.planned and not any((sweep.folder / name).exists() for name in LEDGER_FILES):
            problem = "contains no sweep, no collection and no attempts of points"
            raise LedgerError(sweep.folder, problem)
    name = _name(selections)
    folder = results_dir / name if results_dir else None
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        remove_partial_files(folder)
    points: list[PointResult] = []
    problems: list[FileProblem] = []
    jobs: dict[str, None] = {}
    for sweep in overview.sweeps:
        histories = [point for point in overview.points if point.sweep is sweep]
        point_ids = [point.point_id for point in histories]
        if folder is None:
            points += [history.result() for history in histories]
        else:
            logs = JobLogs(SweepCopy(sweep, point_ids, folder, jobs).places, {})
            points += [_copied(replace(h, job_logs=logs), folder) for h in histories]
        prefix = f"{sweep.sweep_id}/" if len(overview.sweeps) > 1 else ""
        others = sweep.planned.keys() - set(point_ids)
        problems += [
            FileProblem(prefix + problem.file, problem.what)
            for problem in sweep.problems
            if others.isdisjoint(problem.file.split("/"))
        ]
    infos = {
        sweep.sweep_id: sweep.info.model_dump(mode="json") if sweep.info else {}
        for sweep in overview.sweeps
    }
    notes = list(overview.answer.notes)
    return Collection(name, points, folder, infos, problems, list(jobs), notes)


def _copied(history: PointHistory, folder: Path) -> PointResult:
    """Return the result with paths of the copies, relative to the collection's folder."""
    point, logs = history.result(), history.logs
    record_file = None
    place = history.job_logs.folders.get(history.job_folder)
    if history.latest is not None and history.record is not None and place is not None:
        path = place / point.point_id / history.latest.folder.name / "record.json"
        record_file = str(path.relative_to(folder)) if path.is_file() else None
    quotes = [_relative(quote, folder) for quote in point.evidence]
    names = [str(path.relative_to(folder)) for path in logs]
    return replace(point, evidence=quotes, record_file=record_file, logs=names)


def _relative(quote: Quote, folder: Path) -> Quote:
    if quote.file is None or not Path(quote.file).is_relative_to(folder):
        return quote
    return Quote(quote.lines, str(Path(quote.file).relative_to(folder)))


def _name(selections: Sequence[Selection]) -> str:
    """Return the ids as the name of a folder, shortened if necessary."""
    names = [str(part.target or part.folder.resolve().name) for part in selections]
    name = re.sub(r"[^A-Za-z0-9_.+-]", "_", "+".join(names)) or "collection"
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
