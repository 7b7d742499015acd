"""Reads a sweep's folder as it is found: running, partial, damaged, or copied from elsewhere.

Nothing here trusts the folder: a link that leaves it, a file that is no regular file, a line that
is no JSON and a name that is no id each become a `Problem`, and reading goes on.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from jobs.cluster.collect_points import Problem
from jobs.errors import RecordError
from jobs.record import MAX_RECORD_BYTES, Record, Started, read_record

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,127}")
LOG_ENDS = ("_log.out", "_log.err")
_ATTEMPT = re.compile(r"attempt-(\d{1,6})")



@dataclass(frozen=True)
class PlannedPoint:
    """One line of `plan.jsonl`."""

    point_id: str
    config: dict[str, Any]
    command: str | None = None


@dataclass(frozen=True)
class FoundAttempt:
    """One attempt's folder and what could be read in it."""

    point_id: str
    job_folder: str
    number: int
    folder: Path
    started: Started | None = None
    record: Record | None = None


@dataclass
class FoundSweep:
    """What a sweep's folder holds.

    Attributes:
        sweep_id: The sweep, by its folder's name where `sweep.json` cannot say.
        folder: Where it lies.
        about: What `sweep.json` held.
        planned: The points, in the plan's order.
        jobs: Job ids of each point in the order of submission, from `jobs.jsonl`.
        attempts: Attempts of each point, oldest first.
        job_folders: The folders of jobs that are there.
        problems: What could not be read.
    """

    sweep_id: str
    folder: Path
    about: dict[str, Any] = field(default_factory=dict)
    planned: dict[str, PlannedPoint] = field(default_factory=dict)
    jobs: dict[str, list[str]] = field(default_factory=dict)
    attempts: dict[str, list[FoundAttempt]] = field(default_factory=dict)
    job_folders: dict[str, Path] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def read_sweep(folder: Path) -> FoundSweep:
    """Reads everything of one sweep's folder that can be read.

    Args:
        folder: `runs/<sweep_id>`, or a copy of one.

    Returns:
        What is there; points that only an attempt or `jobs.jsonl` names are planned points too.
    """
    sweep = FoundSweep(folder.name, folder)
    _read_about(sweep)
    _read_plan(sweep)
    _read_jobs(sweep)
    _read_folders(sweep)
    for point_id in [*sweep.jobs, *sweep.attempts]:
        if point_id not in sweep.planned:
            sweep.planned[point_id] = PlannedPoint(point_id, _config_from(sweep, point_id))
    for attempts in sweep.attempts.values():
        attempts.sort(key=lambda attempt: _age(sweep, attempt))
    return sweep


def _read_about(sweep: FoundSweep) -> None:
    path = sweep.folder / "sweep.json"
    if not path.exists():
        return
    text = _text(sweep, path)
    about = _parsed(sweep, path, text) if text is not None else None
    if isinstance(about, dict):
        sweep.about = about
        named = about.get("sweep_id")
        sweep.sweep_id = named if isinstance(named, str) and _NAME.fullmatch(named) else sweep.sweep_id


def _read_plan(sweep: FoundSweep) -> None:
    path = sweep.folder / "plan.jsonl"
    if not path.exists():
        sweep.problems.append(Problem("plan.jsonl", "is missing: points are taken from records"))
        return
    for where, line in _lines(sweep, path):
        point_id, config = line.get("point_id"), line.get("point")
        if not _is_name(point_id) or not isinstance(config, dict):
            sweep.problems.append(Problem(where, "is no planned point"))
            continue
        command = line.get("command")
        sweep.planned[point_id] = PlannedPoint(
            point_id, config, command if isinstance(command, str) else None
        )


def _read_jobs(sweep: FoundSweep) -> None:
    path = sweep.folder / "jobs.jsonl"
    if not path.exists():
        return
    for where, line in _lines(sweep, path):
        job_id, points = line.get("job_id"), line.get("points")
        if not _is_name(job_id) or not isinstance(points, list):
            sweep.problems.append(Problem(where, "is no submitted job"))
            continue
        for point_id in points:
            if _is_name(point_id):
                sweep.jobs.setdefault(point_id, []).append(job_id)


def _read_folders(sweep: FoundSweep) -> None:
    """Finds attempts and jobs at any depth: a copy may have lost or gained a level."""
    for name, folders, files in os.walk(sweep.folder, onerror=_noted(sweep)):
        folder = Path(name)
        for link in [sub for sub in folders if (folder / sub).is_symlink()]:
            sweep.problems.append(Problem(_inside(sweep, folder / link), "is a link: not followed"))
        folders[:] = sorted(sub for sub in folders if _is_name(sub))
        match = _ATTEMPT.fullmatch(folder.name)
        if match is not None and folder != sweep.folder:
            point_folder, job_folder = folder.parent, folder.parent.parent
            sweep.job_folders.setdefault(job_folder.name, job_folder)
            attempt = FoundAttempt(
                point_folder.name,
                job_folder.name,
                int(match[1]),
                folder,
                _started(sweep, folder / "started.json"),
                _record(sweep, folder / "record.json"),
            )
            sweep.attempts.setdefault(attempt.point_id, []).append(attempt)
            folders.clear()
        elif any(file.endswith(LOG_ENDS) for file in files):
            sweep.job_folders.setdefault(folder.name, folder)


def _noted(sweep: FoundSweep) -> Callable[[OSError], None]:
    def note(error: OSError) -> None:
        where = _inside(sweep, Path(error.filename)) if error.filename else "."
        sweep.problems.append(Problem(where, f"cannot be read: {error.strerror}"))

    return note


def _started(sweep: FoundSweep, path: Path) -> Started | None:
    text = _text(sweep, path) if path.exists() else None
    if text is None:
        return None
    try:
        return Started.model_validate_json(text)
    except ValidationError as error:
        sweep.problems.append(Problem(_inside(sweep, path), _first(error)))
        return None


def _record(sweep: FoundSweep, path: Path) -> Record | None:
    if not path.exists() or not _is_ours(sweep, path):
        return None
    try:
        return read_record(path)
    except RecordError as error:
        sweep.problems.append(Problem(_inside(sweep, path), str(error).removeprefix(f"{path} ")))
        return None


def _config_from(sweep: FoundSweep, point_id: str) -> dict[str, Any]:
    records = [attempt.record for attempt in sweep.attempts.get(point_id, []) if attempt.record]
    return records[-1].config if records else {}


def _age(sweep: FoundSweep, attempt: FoundAttempt) -> tuple[int, str, int]:
    folders = [job.split("_")[0] for job in sweep.jobs.get(attempt.point_id, [])]
    known = folders.index(attempt.job_folder) if attempt.job_folder in folders else -1
    started = attempt.started.started_at if attempt.started else ""
    return known, started, attempt.number


def _lines(sweep: FoundSweep, path: Path) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for number, line in enumerate((_text(sweep, path) or "").splitlines(), start=1):
        where = f"{path.name}:{number}"
        parsed = _parsed(sweep, path, line, where) if line.strip() else None
        if isinstance(parsed, dict):
            found.append((where, parsed))
    return found


def _parsed(sweep: FoundSweep, path: Path, text: str, where: str | None = None) -> Any:  # noqa: ANN401 - JSON
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", str(error))
        sweep.problems.append(Problem(where or _inside(sweep, path), f"is no JSON: {reason}"))
        return None


def _text(sweep: FoundSweep, path: Path) -> str | None:
    if not _is_ours(sweep, path):
        return None
    try:
        if path.stat().st_size > 64 * MAX_RECORD_BYTES:
            sweep.problems.append(Problem(_inside(sweep, path), "is too large to be read"))
            return None
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        sweep.problems.append(Problem(_inside(sweep, path), f"cannot be read: {error.strerror}"))
        return None


def _is_ours(sweep: FoundSweep, path: Path) -> bool:
    """Whether this is a regular file that lies inside the sweep's folder, links followed."""
    try:
        inside = path.resolve().is_relative_to(sweep.folder.resolve())
        regular = stat.S_ISREG(path.stat().st_mode)
    except OSError as error:
        sweep.problems.append(Problem(_inside(sweep, path), f"cannot be read: {error.strerror}"))
        return False
    if not inside or not regular:
        what = "is no regular file" if inside else "is a link that leaves the folder"
        sweep.problems.append(Problem(_inside(sweep, path), what))
    return inside and regular


def _inside(sweep: FoundSweep, path: Path) -> str:
    return str(path.relative_to(sweep.folder))


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"is no started.json: {'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
