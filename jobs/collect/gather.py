"""`collect`: from job ids to one folder with every log, record, table and page."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jobs.collect.files import LEDGER_FILES, copy_file, copy_job, copy_shell_logs
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
from jobs.errors import UsageError
from jobs.files import private_files, remove_partial_files
from jobs.schedulers.slurm.states import TaskState
from jobs.status.collection import Collection
from jobs.status.job_logs import job_logs, logs_of
from jobs.status.point_history import judge
from jobs.status.point_result import PointResult, Quote
from jobs.status.scheduler_query import AskStates, ask, open_tasks, read_again
from jobs.sweeps.problem import Problem
from jobs.sweeps.reading import SweepFiles, Task, read_sweep
from jobs.sweeps.selection import Selection, select

_LONGEST_NAME = 80


@private_files()
def collect(
    words: list[str],
    runs_dir: Path,
    results_dir: Path,
    *,
    ask_states: AskStates | None = None,
) -> Collection:
    """Gathers everything of some jobs, sweeps or folders into `results_dir/<name>/`.

    Doing it again changes nothing unless the sources changed; it works while jobs run.

    Args:
        words: Job ids in any form, `s-...`, `p-...`, `local-...`, `latest`, folders of sweeps, or
            folders of collections, which are gathered anew from their own files; or one file of
            records, a line each (`docs/results/h200.jsonl`).
        runs_dir: Where sweeps lie.
        results_dir: Where collections lie.
        ask_states: Asks the scheduler, once for all jobs; None: nobody is asked.

    Returns:
        The collection, with the folder it was written to.

    Raises:
        UsageError: A word is no id, or means nothing that is there.
        RecordError: A folder's `collection.json` is damaged.
        OSError: The results cannot be written.
    """
    selections = [] if _is_file(words) else select(words, runs_dir)
    if not selections:
        collection = gather_records(Path(words[0]).expanduser(), results_dir)
    elif len(selections) == 1 and (selections[0].folder / STORE_NAME).is_file():
        collection = load_collection(selections[0].folder)
    else:
        found = _read(selections)
        folder = results_dir / _name(selections)
        folder.mkdir(parents=True, exist_ok=True)
        remove_partial_files(folder)
        collection = _gather(folder.name, found, folder, ask_states)
    write_tables(collection)
    return collection


def read_points(
    words: list[str], runs_dir: Path, ask_states: AskStates | None = None
) -> Collection:
    """Reads what `collect` would gather and copies nothing.

    Args:
        words: As for `collect`.
        runs_dir: Where sweeps lie.
        ask_states: As for `collect`.

    Returns:
        A collection without a folder of its own.

    Raises:
        UsageError: A word is no id, or means nothing that is there.
        RecordError: A folder's `collection.json` is damaged.
    """
    if _is_file(words):
        return load_records(Path(words[0]).expanduser())
    selections = select(words, runs_dir)
    if len(selections) == 1 and (selections[0].folder / STORE_NAME).is_file():
        return load_collection(selections[0].folder)
    return _gather(_name(selections), _read(selections), None, ask_states)


def _is_file(words: list[str]) -> bool:
    files = [word for word in words if is_records_file(word)]
    if files and len(words) > 1:
        raise UsageError(f"a file of records must be given alone, got {files[0]} and others")
    return bool(files)


def write_tables(collection: Collection) -> None:
    """Writes `collection.json`, the tables, the JUnit file and the review block.

    Args:
        collection: A collection that has a folder.
    """
    folder = collection.folder
    assert folder is not None
    rows = [row(point) for point in collection.points]
    save_collection(collection)
    text = json_text(rows)
    if not holds(folder / "points.json", text) or not (folder / "points.parquet").is_file():
        # First: the next collection takes it for current where points.json is.
        write_parquet(rows, folder / "points.parquet")
    write_if_changed(folder / "points.json", text)
    write_if_changed(folder / "points.csv", csv_text(rows))
    write_if_changed(folder / "junit.xml", junit_text(collection))
    write_if_changed(folder / "review.md", review_text(collection))


Found = list[tuple[SweepFiles, list[str]]]


def _read(selections: list[Selection]) -> Found:
    """Every sweep that is meant, once, and which of its points are."""
    chosen: dict[Path, tuple[SweepFiles, list[str]]] = {}
    for selection in selections:
        root = selection.folder.resolve()
        sweep, point_ids = chosen.get(root) or (read_sweep(root), [])
        if not sweep.planned and not any((root / name).exists() for name in LEDGER_FILES):
            raise UsageError(
                "folder must hold a sweep, a collection or attempts of points, "
                f"got {selection.folder}"
            )
        taken = [name for name in sweep.planned if selection.takes(sweep, name)]
        chosen[root] = (sweep, list(dict.fromkeys(point_ids + taken)))
    return list(chosen.values())


def _gather(
    name: str, found: Found, folder: Path | None, ask_states: AskStates | None
) -> Collection:
    names = [name for sweep, point_ids in found for name in open_tasks(sweep, point_ids)]
    states, notes = ask(names, [sweep for sweep, _ in found], ask_states, time.time())
    found = [(read_again(sweep, states), point_ids) for sweep, point_ids in found]
    points: list[PointResult] = []
    problems: list[Problem] = []
    sweeps: dict[str, dict[str, Any]] = {}
    jobs: dict[str, None] = {}
    for sweep, point_ids in found:
        places = _copy(sweep, point_ids, folder, jobs) if folder else sweep.job_folders
        logs = {place: job_logs(place) for place in places.values()}
        points += [_point(sweep, point_id, states, places, logs, folder) for point_id in point_ids]
        prefix = f"{sweep.sweep_id}/" if len(found) > 1 else ""
        problems += [
            Problem(prefix + problem.file, problem.what)
            for problem in sweep.problems
            if not _of_others(problem, sweep, point_ids)
        ]
        sweeps[sweep.sweep_id] = sweep.info.model_dump(mode="json") if sweep.info else {}
    return Collection(name, points, folder, sweeps, problems, list(jobs), notes)


def _of_others(problem: Problem, sweep: SweepFiles, point_ids: list[str]) -> bool:
    """Whether a problem is of a point that was not asked for."""
    others = sweep.planned.keys() & set(problem.file.split("/"))
    return bool(others) and others.isdisjoint(point_ids)


def _copy(
    sweep: SweepFiles, point_ids: list[str], folder: Path, jobs: dict[str, None]
) -> dict[str, Path]:
    """Copies the jobs that ran these points; tells where each job's files went."""
    for name in LEDGER_FILES:
        if (sweep.folder / name).is_file():
            copy_file(sweep, sweep.folder / name, folder / "sweeps" / sweep.sweep_id / name)
    whole = len(point_ids) == len(sweep.planned)
    wanted = {attempt.job_folder for name in point_ids for attempt in sweep.attempts.get(name, [])}
    tasks = {task for name in point_ids for task in sweep.tasks.get(name, [])}
    wanted |= {task.job_id for task in tasks}
    places: dict[str, Path] = {}
    for name in sorted({*sweep.job_folders, *_with_shell_log(sweep, tasks)}):
        if not whole and name not in wanted:
            continue
        place = name if name not in jobs else f"{name}.{sweep.sweep_id}"
        jobs[place] = None
        places[name] = folder / "jobs" / place
        own = {task for task in tasks if task.job_id == name}
        if name in sweep.job_folders:
            source = sweep.job_folders[name]
            copy_job(sweep, source, places[name], point_ids, set() if whole else own)
        copy_shell_logs(sweep, own, places[name])
    return places


def _with_shell_log(sweep: SweepFiles, tasks: Iterable[Task]) -> set[str]:
    return {task.job_id for task in tasks if str(task) in sweep.shell_logs}


def _point(
    sweep: SweepFiles,
    point_id: str,
    states: dict[str, TaskState],
    places: dict[str, Path],
    job_logs_of: dict[Path, list[Path]],
    folder: Path | None,
) -> PointResult:
    task = next(iter(sweep.tasks.get(point_id, [])[-1:]), None)
    attempts = sweep.attempts.get(point_id, [])
    place = places.get(task.job_id if task else attempts[-1].job_folder if attempts else "")
    here = job_logs_of[place] if place else []
    logs = logs_of(place, here, point_id, task, {} if folder else sweep.shell_logs)
    point = judge(sweep, point_id, states, logs)
    if folder is None:
        return point
    quotes = [_relative(quote, folder) for quote in point.evidence]
    record_file = None
    if point.record is not None and place is not None:
        path = place / point_id / f"attempt-{point.attempt}" / "record.json"
        record_file = str(path.relative_to(folder)) if path.is_file() else None
    names = [str(path.relative_to(folder)) for path in logs]
    return dataclasses.replace(point, evidence=quotes, record_file=record_file, logs=names)


def _relative(quote: Quote, folder: Path) -> Quote:
    if quote.file is None or not Path(quote.file).is_relative_to(folder):
        return quote
    return Quote(quote.lines, str(Path(quote.file).relative_to(folder)))


def _name(selections: list[Selection]) -> str:
    """The collection's name: what was asked, short enough for a folder."""
    words = [
        str(selection.target) if selection.target else selection.folder.resolve().name
        for selection in selections
    ]
    name = re.sub(r"[^A-Za-z0-9_.+-]", "_", "+".join(words)) or "collection"
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
