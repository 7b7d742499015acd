"""How the tool reports a point after a fault, read from a collection, as any user would."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol

from jobs.schedulers.slurm.memory import LAST_SEEN
from jobs.sweeps.ledger import Ledger
from tests.faults.matrix import Report
from tests.launcher import Launcher
from tests.slurm_cluster.launching import ROOT


class User(Protocol):
    """Somebody who types commands: `SlurmUser` on a cluster, `LocalUser` on this machine."""

    folder: Path

    def run(self, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""


class LocalUser:
    """A user of this machine, whose commands run in this process."""

    def __init__(self, launcher: Launcher) -> None:
        self.folder = launcher.home.parent
        self._launcher = launcher

    def run(self, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""
        result = self._launcher(verb, *words)
        return subprocess.CompletedProcess([verb, *words], result.code, result.out, result.err)

    def run_apart(self, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one command in a process of its own, which has ended afterwards."""
        runs_dir = f"runs_dir={self._launcher.runs_dir}"
        return subprocess.run(
            [sys.executable, str(ROOT / "launch.py"), verb, *words, runs_dir],
            capture_output=True,
            text=True,
            timeout=55,
            check=False,
        )

    def report(self, *, output: str = "") -> Report:
        """Report the only point of the only sweep."""
        ledger = self._launcher.ledger()
        (point,) = ledger.plan()
        return report_of(self, ledger, point.point_id, output=output)


def report_of(
    user: User, ledger: Ledger, point_id: str, *, output: str = "", retries: bool = False
) -> Report:
    """Collect one point and return how the collection reports it.

    Args:
        user: Who collects.
        ledger: The point's sweep.
        point_id: The point.
        output: What other commands printed; a part of the report.
        retries: The sweep was submitted with `launch.retries=1`.
    """
    results = user.folder / "results" / point_id
    done = user.run("collect", point_id, f"results_dir={results}", "report=false")
    assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
    row = points_table(results)[point_id]
    return Report(
        state=row["state"],
        text="\n".join([_text(row), output, done.stdout, done.stderr]),
        cause=row["cause"],
        retried=_submissions(ledger, point_id) > 1 if retries else None,
        code=done.returncode,
        lost=_lost(user, ledger),
    )


def report_in(launcher: Launcher, root: Path, point_id: str) -> Report:
    """Collect a sweep of three good points without a scheduler and report one of them."""
    done = launcher("collect", f"{root}/", "report=false")
    rows = points_table(launcher.results_dir)
    row = rows.pop(point_id)
    others = sum(other["state"] == "PASSED" for other in rows.values())
    text = "\n".join([_text(row), done.out, done.err])
    return Report(row["state"], text, row["cause"], code=done.code, lost=2 - others)


def points_table(results: Path) -> dict[str, dict[str, Any]]:
    """Return `points.json` of the only collection in a folder, by point id."""
    (table,) = results.glob("*/points.json")
    return {row["point_id"]: row for row in json.loads(table.read_text())}


def _text(row: dict[str, Any]) -> str:
    return "\n".join(str(row[key]) for key in ("reason", "evidence", "note") if row[key])


def _submissions(ledger: Ledger, point_id: str) -> int:
    return sum(ids.count(point_id) for line in ledger.jobs() for ids in line.tasks.values())


def _lost(user: User, ledger: Ledger) -> int:
    """Count planned points that are missing, and good records that are not shown as such."""
    states = _states(user, ledger)
    good = {
        record["identity"]["point_id"]
        for record in _records(ledger)
        if record["outcome"] != "ERROR"
    }
    hidden = {name for name in good if states.get(name) in (None, "ERROR", "PENDING", "PLANNED")}
    return len(({point.point_id for point in ledger.plan()} - states.keys()) | hidden)


_STATES: dict[tuple[object, ...], dict[str, str]] = {}


def _states(user: User, ledger: Ledger) -> dict[str, str]:
    """Collect the whole sweep and return the state of every point; cached by its files."""
    files = (path for path in ledger.root.glob("**/*.json*") if path.name != LAST_SEEN)
    key = tuple(sorted((str(path), path.stat().st_mtime_ns) for path in files))
    if key not in _STATES:
        results = user.folder / "results" / f"whole-{ledger.sweep_id}"
        user.run("collect", f"{ledger.root}/", f"results_dir={results}", "report=false")
        _STATES[key] = {name: row["state"] for name, row in points_table(results).items()}
    return _STATES[key]


def _records(ledger: Ledger) -> list[dict[str, Any]]:
    records = []
    for path in ledger.root.glob("*/p-*/attempt-*/record.json"):
        try:
            records.append(json.loads(path.read_text()))
        except (OSError, ValueError):
            continue
    return [record for record in records if isinstance(record, dict) and "outcome" in record]
