"""What has to hold after a soak, and of every collection meanwhile; each breach is a line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from jobs.record import INFRASTRUCTURE_CAUSES, State
from jobs.schedulers.lock import LOCK
from jobs.schedulers.slurm.submission import left_behind
from jobs.status.scheduler_query import LAST_SEEN
from jobs.sweeps.ledger import PLANNED_JOB, Ledger
from jobs.sweeps.planned_point import PlannedPoint
from jobs.text import pluralize
from tests.soak.faults import Injected
from tests.soak.plan import DUE, GOOD, Asked, act_of
from tests.soak.runs import Run, overlaps, runs_of_points

_KEPT_HIDDEN = frozenset({LOCK, LAST_SEEN})
_HALF = (".tmp", ".part", ".save_tmp")
_TRIED_AGAIN = frozenset(cause.value for cause in INFRASTRUCTURE_CAUSES)
Row = dict[str, Any]


def untrue(ledger: Ledger, rows: Sequence[Row], injected: Injected) -> list[str]:
    """Rows of a collection that say what neither the point's act nor a fault explains.

    Args:
        ledger: The sweep that was collected.
        rows: `points.json`.
        injected: The faults so far.
    """
    planned = {point.point_id: point for point in ledger.plan()}
    found = []
    if sorted(row["point_id"] for row in rows) != sorted(planned):
        found.append(
            f"{ledger.sweep_id}: {pluralize(len(rows), 'point')} shown, {len(planned)} planned"
        )
    for row in (row for row in rows if row["point_id"] in planned):
        point, job = planned[row["point_id"]], (row["job_id"] or "", ledger.sweep_id)
        words = f"{ledger.sweep_id} {row['point_id']} job {job[0]}"
        if not is_true(point, row["state"], row["cause"], job, injected):
            told = f"{row['state']} {row['cause']} {row['reason']!r}"
            found.append(f"{words}: acts {act_of(point)}, but is shown as {told}")
        if row["state"] in GOOD and not good_records(ledger, row["point_id"]):
            found.append(f"{words}: shown as {row['state']} without such a record")
    return found


def is_true(
    point: PlannedPoint,
    state: str,
    cause: str | None,
    job: tuple[str, str],
    injected: Injected,
) -> bool:
    """Whether a state follows from what the point does and what was injected.

    Args:
        point: The point.
        state: What is told of it.
        cause: The cause that is told.
        job: Its job and its sweep.
        injected: The faults so far.
    """
    if not State(state).finished or (state, cause) == DUE[act_of(point)]:
        return True
    if state != "ERROR":
        return False
    if cause == "cancelled":
        return injected.was_cancelled(*job)
    if cause == "timeout":  # a sweep that holds a hang has a short limit for every point
        return point.site["launch"]["point_time_limit_s"] is not None
    if cause == "lost":
        return bool(injected.controller_kills)
    return cause in ("node_fail", "launch_failed") and injected.struck_nodes


def good_records(ledger: Ledger, point_id: str) -> list[Path]:
    """The records of a point that are no ERROR."""
    found = []
    for path in sorted(ledger.root.glob(f"*/{point_id}/attempt-*/record.json")):
        if json.loads(path.read_text())["outcome"] in GOOD:
            found.append(path)
    return found


def wrong_records(ledgers: Iterable[Ledger], injected: Injected) -> list[str]:
    """Records, of any attempt, that say what nothing explains."""
    found = []
    for ledger in ledgers:
        planned = {point.point_id: point for point in ledger.plan()}
        for path in sorted(ledger.root.glob("*/p-*/attempt-*/record.json")):
            record = json.loads(path.read_text())
            point = planned[path.parent.parent.name]
            job = (record["identity"].get("job_id") or PLANNED_JOB, ledger.sweep_id)
            if not is_true(point, record["outcome"], record.get("cause"), job, injected):
                told = f"{record['outcome']} {record.get('cause')} {record.get('reason')!r}"
                found.append(f"{path}: acts {act_of(point)}, but says {told}")
    return found


def not_due(ledgers: Iterable[Ledger], rows: Iterable[Row]) -> dict[str, list[str]]:
    """Points that have not ended as their act has it, when nothing disturbs them any more.

    Args:
        ledgers: Every sweep.
        rows: `points.json` of a collection of all of them.

    Returns:
        By sweep, a line for each such point, also for those that no row tells of.
    """
    shown = {row["point_id"]: row for row in rows}
    found: dict[str, list[str]] = {}
    for ledger in ledgers:
        for point in ledger.plan():
            row = shown.get(point.point_id)
            due = DUE[act_of(point)]
            told = (row["state"], row["cause"]) if row else ("not shown", None)
            if told != due or (due[0] in GOOD and not good_records(ledger, point.point_id)):
                words = f"{point.point_id} is {told[0]} {told[1]}, due {due[0]} {due[1]}"
                found.setdefault(ledger.sweep_id, []).append(words)
    return found


def wrong_plans(ledgers: Sequence[Ledger], asked: Sequence[tuple[Asked, int]]) -> list[str]:
    """Sweeps whose plan is not what was asked, and commands whose sweep is not there.

    Args:
        ledgers: Every sweep.
        asked: What was asked, with the command's exit code.
    """
    planned = {seeds_of(ledger): ledger.sweep_id for ledger in ledgers}
    seeds = {one.seeds for one, _ in asked}
    found = [
        f"{sweep}: nobody asked for its plan" for had, sweep in planned.items() if had not in seeds
    ]
    for one, code in asked:
        there = one.seeds in planned
        if code in (0, 1) and not there:
            found.append(f"seeds {one.seeds}: exit code {code}, and no sweep")
        if code == 2 and there and not _submitted(ledgers, planned[one.seeds]):
            found.append(f"{planned[one.seeds]}: refused with exit code 2, and it stays")
    return found


def seeds_of(ledger: Ledger) -> tuple[int, ...]:
    """`shape.seed` of a sweep's points, each once."""
    return tuple(dict.fromkeys(point.config["shape"]["seed"] for point in ledger.plan()))


def _submitted(ledgers: Sequence[Ledger], sweep_id: str) -> bool:
    return any(one.jobs() for one in ledgers if one.sweep_id == sweep_id)


def duplicates(
    ledgers: Iterable[Ledger], runs: Sequence[Run], kills: Sequence[float]
) -> list[str]:
    """Points that were submitted, or have a good record, twice without a reason.

    Args:
        ledgers: Every sweep.
        runs: What the scheduler says of every job.
        kills: When the controller was killed: what it took just before, it may have forgotten.
    """
    found = []
    by_name = Counter(run.submission for run in runs if run.first)
    for ledger in ledgers:
        for name, count in by_name.items():
            if name.startswith(f"{ledger.sweep_id}.") and count > 1:
                found.append(f"{name}: sbatch took it {count} times")
        for point_id, of_point in runs_of_points(ledger, runs).items():
            found += overlaps(point_id, of_point, kills, _settled(ledger, point_id))
            found += _good_twice(ledger, point_id, of_point)
    return found


def _settled(ledger: Ledger, point_id: str) -> dict[str, float]:
    """When each job left a record of a point that no run of the job replaces."""
    found: dict[str, float] = {}
    for path in ledger.root.glob(f"*/{point_id}/attempt-*/record.json"):
        record = json.loads(path.read_text())
        if record.get("cause") not in _TRIED_AGAIN:
            found.setdefault(record["identity"].get("job_id") or "", path.stat().st_mtime)
    return found


def _good_twice(ledger: Ledger, point_id: str, runs: Sequence[Run]) -> list[str]:
    """Two good records of one run of a job; another run of it was a requeue."""
    good = [json.loads(path.read_text())["identity"] for path in good_records(ledger, point_id)]
    keys = Counter((one["job_id"], one["restart_count"]) for one in good)
    return [
        f"{point_id}: {count} good records of one run of job {job_id}"
        for (job_id, _), count in keys.items()
        if count > 1
    ]


def orphan_submissions(ledgers: Iterable[Ledger], runs: Iterable[Run]) -> list[str]:
    """Submissions without a job, and jobs without a line in `jobs.jsonl`."""
    found, noted = [], set()
    for ledger in ledgers:
        found += [f"{path}: a submission without a job" for path in left_behind(ledger)]
        noted |= {(line.name, line.job_id) for line in ledger.jobs()}
    jobs = {(run.submission, run.job_id.partition("_")[0]) for run in runs}
    return found + [
        f"job {job} ({name}) is in no jobs.jsonl" for name, job in sorted(jobs - noted)
    ]


def orphan_files(runs: Path, results: Path, *empty: Path) -> list[str]:
    """What killed processes left: unfinished files, unfinished sweeps, files in wrong places.

    Args:
        runs: Where sweeps lie.
        results: Where collections lie.
        empty: Folders in which nothing may have been left.
    """
    found = [str(path) for folder in empty for path in sorted(folder.iterdir())]
    for root in (runs, results):
        for path in sorted(root.rglob("*")):
            hidden = path.name.startswith(".") and path.name not in _KEPT_HIDDEN
            snapshot = "snapshot" in path.relative_to(root).parts
            if not snapshot and (hidden or path.name.endswith(_HALF)):
                found.append(f"{path}: unfinished")
    for sweep in sorted(runs.glob("s-*")):
        if not (sweep / "sweep.json").is_file():
            found.append(f"{sweep}: a sweep without a plan")
    return found


def tracebacks(ledgers: Iterable[Ledger]) -> list[str]:
    """Logs of jobs that show one of ours; a point's own log may hold what the point did."""
    found = []
    for ledger in ledgers:
        for path in sorted([*ledger.root.glob("*/*.out"), *ledger.root.glob("*/*.err")]):
            if "Traceback" in path.read_text(errors="replace"):
                found.append(f"{path}: a traceback")
    return found
