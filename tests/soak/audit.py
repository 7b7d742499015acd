"""What must hold of the sweeps of a soak: each violation is reported as one line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.record import INFRASTRUCTURE_CAUSES, State
from jobs.schedulers.slurm.submission import unrecorded_folders
from jobs.sweeps.ledger import PLANNED_JOB, Ledger
from jobs.sweeps.planned_point import PlannedPoint
from tests.soak.injector import Faults
from tests.soak.plan import EXPECTED, GOOD, SweepCommand, act_of
from tests.soak.runs import Run, overlaps, runs_of_points

_RETRIED = frozenset(cause.value for cause in INFRASTRUCTURE_CAUSES)
Row = dict[str, Any]
"""A row of `points.json`."""


@dataclass(frozen=True)
class Audit:
    """The checks of all sweeps; each method returns a line for every violation.

    Attributes:
        ledgers: Every sweep.
        faults: The faults that were injected.
        runs: Every run of every job, as the scheduler reports them.
    """

    ledgers: Sequence[Ledger]
    faults: Faults
    runs: Sequence[Run] = ()

    def wrong_table(self, ledger: Ledger, rows: Sequence[Row]) -> list[str]:
        """Rows of a sweep's collection that neither the point's act nor a fault explains."""
        planned = {point.point_id: point for point in ledger.plan()}
        problems = []
        if sorted(row["point_id"] for row in rows) != sorted(planned):
            problems.append(f"{ledger.sweep_id}: {len(rows)} points shown, {len(planned)} planned")
        for row in (row for row in rows if row["point_id"] in planned):
            point, job_id = planned[row["point_id"]], row["job_id"] or ""
            name = f"{ledger.sweep_id} {row['point_id']} job {job_id}"
            state, cause = row["state"], row["cause"]
            if not self.explains(ledger, point, state, cause, job_id):
                shown = f"{state} {cause} {row['reason']!r}"
                problems.append(f"{name}: act {act_of(point)} is shown as {shown}")
            if state in GOOD and not good_records(ledger, row["point_id"]):
                problems.append(f"{name}: shown as {state} without such a record")
        return problems

    def explains(
        self, ledger: Ledger, point: PlannedPoint, state: str, cause: str | None, job_id: str
    ) -> bool:
        """True if a state follows from the point's act or from an injected fault."""
        if not State(state).finished or (state, cause) == EXPECTED[act_of(point)]:
            return True
        if state != "ERROR":
            return False
        if cause == "cancelled":
            return self.faults.cancelled_job(job_id, ledger.sweep_id)
        if cause == "timeout":  # a sweep with a hang has a short limit for every point
            return point.site["launch"]["point_time_limit_s"] is not None
        if cause == "lost":
            return bool(self.faults.controller_kills)
        return cause in ("node_fail", "launch_failed") and self.faults.struck_nodes

    def wrong_records(self) -> list[str]:
        """Records, of any attempt, that neither the point's act nor a fault explains."""
        problems = []
        for ledger in self.ledgers:
            planned = {point.point_id: point for point in ledger.plan()}
            for path, record in _records(ledger):
                point = planned[path.parent.parent.name]
                job_id = record["identity"].get("job_id") or PLANNED_JOB
                outcome, cause = record["outcome"], record.get("cause")
                if not self.explains(ledger, point, outcome, cause, job_id):
                    problems.append(f"{path}: act {act_of(point)} is {outcome} {cause}")
        return problems

    def unfinished(self, rows: Iterable[Row]) -> dict[str, list[str]]:
        """Points, by sweep, that do not have the state of their act after the last fault."""
        shown = {row["point_id"]: (row["state"], row["cause"]) for row in rows}
        problems: dict[str, list[str]] = {}
        for ledger in self.ledgers:
            for point in ledger.plan():
                expected = EXPECTED[act_of(point)]
                actual = shown.get(point.point_id, ("not shown", None))
                lacks_record = expected[0] in GOOD and not good_records(ledger, point.point_id)
                if actual != expected or lacks_record:
                    line = f"{point.point_id} is {actual}, expected {expected}"
                    problems.setdefault(ledger.sweep_id, []).append(line)
        return problems

    def wrong_plans(self, commands: Sequence[tuple[SweepCommand, int]]) -> list[str]:
        """Sweeps that no command planned, and commands whose exit code contradicts the sweeps."""
        planned = {seeds_of(ledger): ledger for ledger in self.ledgers}
        typed = {command.seeds for command, _ in commands}
        problems = [
            f"{ledger.sweep_id}: no command has its plan"
            for seeds, ledger in planned.items()
            if seeds not in typed
        ]
        for command, code in commands:
            ledger = planned.get(command.seeds)
            if code in (0, 1) and ledger is None:
                problems.append(f"seeds {command.seeds}: exit code {code} without a sweep")
            if code == 2 and ledger is not None and not ledger.jobs():
                problems.append(f"{ledger.sweep_id}: left by a command with exit code 2")
        return problems

    def duplicates(self) -> list[str]:
        """Points that were submitted, or have a good record, twice without a reason."""
        first_runs = Counter(run.submission for run in self.runs if run.first)
        problems = []
        for ledger in self.ledgers:
            problems += [
                f"{name}: submitted {count} times"
                for name, count in first_runs.items()
                if name.startswith(f"{ledger.sweep_id}.") and count > 1
            ]
            for point_id, runs in runs_of_points(ledger, self.runs).items():
                settled = _settled(ledger, point_id)
                problems += overlaps(point_id, runs, self.faults.controller_kills, settled)
                problems += _good_twice(ledger, point_id)
        return problems

    def unrecorded_jobs(self) -> list[str]:
        """Submissions without a job, and jobs without a line in `jobs.jsonl`."""
        problems = [
            f"{path}: a submission without a job"
            for ledger in self.ledgers
            for path in unrecorded_folders(ledger)
        ]
        recorded = {(line.name, line.job_id) for one in self.ledgers for line in one.jobs()}
        jobs = {(run.submission, run.job_id.partition("_")[0]) for run in self.runs}
        return problems + [
            f"job {job} ({name}) is in no jobs.jsonl" for name, job in sorted(jobs - recorded)
        ]

    def tracebacks(self) -> list[str]:
        """Tracebacks in logs of jobs; a point's own log may hold what the point did."""
        return [
            f"{path}: a traceback"
            for ledger in self.ledgers
            for path in sorted([*ledger.root.glob("*/*.out"), *ledger.root.glob("*/*.err")])
            if "Traceback" in path.read_text(errors="replace")
        ]


def _records(ledger: Ledger, point_id: str = "p-*") -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted(ledger.root.glob(f"*/{point_id}/attempt-*/record.json")):
        yield path, json.loads(path.read_text())


def good_records(ledger: Ledger, point_id: str) -> list[dict[str, Any]]:
    """Return the records of a point that are not an ERROR."""
    return [record for _, record in _records(ledger, point_id) if record["outcome"] in GOOD]


def seeds_of(ledger: Ledger) -> tuple[int, ...]:
    """Return `shape.seed` of a sweep's points, each once."""
    return tuple(dict.fromkeys(point.config["shape"]["seed"] for point in ledger.plan()))


def _settled(ledger: Ledger, point_id: str) -> dict[str, float]:
    """Return when each job left a record of a point that no other run of the job replaces."""
    times: dict[str, float] = {}
    for path, record in _records(ledger, point_id):
        if record.get("cause") not in _RETRIED:
            times.setdefault(record["identity"].get("job_id") or "", path.stat().st_mtime)
    return times


def _good_twice(ledger: Ledger, point_id: str) -> list[str]:
    """Two good records of one run of a job; another run of it was a requeue."""
    identities = [record["identity"] for record in good_records(ledger, point_id)]
    counts = Counter((one["job_id"], one["restart_count"]) for one in identities)
    return [
        f"{point_id}: {count} good records of one run of job {job_id}"
        for (job_id, _), count in counts.items()
        if count > 1
    ]
