"""What a user reads of a point after a fault: through `collect`, as any user would."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol

from jobs.status.scheduler_query import LAST_SEEN
from jobs.sweeps.ledger import Ledger
from tests.faults.matrix import Told
from tests.launcher import Launcher
from tests.slurm_cluster.launching import ROOT


class User(Protocol):
    """Whoever types commands: `SlurmUser` on a cluster, `Here` on this machine."""

    folder: Path

    def run(self, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs one command to its end."""


class Here:
    """A user of this machine, whose commands run in this process."""

    def __init__(self, launcher: Launcher) -> None:
        self.folder = launcher.home.parent
        self._launcher = launcher

    def run(self, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs one command to its end."""
        result = self._launcher(verb, *words)
        return subprocess.CompletedProcess([verb, *words], result.code, result.out, result.err)

    def run_apart(self, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs one command in a process that is gone afterwards, as a user's is."""
        runs_dir = f"runs_dir={self._launcher.runs_dir}"
        return subprocess.run(
            [sys.executable, str(ROOT / "launch.py"), verb, *words, runs_dir],
            capture_output=True,
            text=True,
            timeout=55,
            check=False,
        )


def told_of(
    user: User, ledger: Ledger, point_id: str, *, screen: str = "", retries: bool = False
) -> Told:
    """Collects one point and reads what the collection says of it.

    Args:
        user: Who asks.
        ledger: The point's sweep.
        point_id: The point.
        screen: What a command printed meanwhile; counted as told.
        retries: The sweep was submitted with `launch.retries=1`.
    """
    results = user.folder / "results" / point_id
    done = user.run("collect", point_id, f"results_dir={results}", "report=false")
    assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
    (table,) = results.glob("*/points.json")
    (row,) = [row for row in json.loads(table.read_text()) if row["point_id"] == point_id]
    text = "\n".join(str(row[name]) for name in ("reason", "evidence", "note") if row[name])
    return Told(
        told=row["state"],
        text="\n".join([text, screen, done.stdout, done.stderr]),
        cause=row["cause"],
        retried=submissions_of(ledger, point_id) > 1 if retries else None,
        code=done.returncode,
        lost=lost(user, ledger),
    )


def submissions_of(ledger: Ledger, point_id: str) -> int:
    """How often a point was submitted."""
    return sum(ids.count(point_id) for line in ledger.jobs() for ids in line.tasks.values())


def lost(user: User, ledger: Ledger) -> int:
    """Planned points that a collection of the whole sweep does not account for.

    A point is also lost whose good record lies on disk while the collection shows it otherwise.
    """
    shown = _whole(user, ledger)
    good = {
        record["identity"]["point_id"]
        for record in _good_records(ledger)
        if record["outcome"] != "ERROR"
    }
    planned = {point.point_id for point in ledger.plan()}
    hidden = {name for name in good if shown.get(name) in (None, "ERROR", "PENDING", "PLANNED")}
    return len((planned - shown.keys()) | hidden)


_WHOLES: dict[tuple[object, ...], dict[str, str]] = {}


def _whole(user: User, ledger: Ledger) -> dict[str, str]:
    """The state of every point, from a collection of the sweep; one for each set of files."""
    files = (path for path in ledger.root.glob("**/*.json*") if path.name != LAST_SEEN)
    key = tuple(sorted((str(path), path.stat().st_mtime_ns) for path in files))
    if key not in _WHOLES:
        results = user.folder / "results" / f"whole-{ledger.sweep_id}"
        user.run("collect", f"{ledger.root}/", f"results_dir={results}", "report=false")
        (table,) = results.glob("*/points.json")
        _WHOLES[key] = {row["point_id"]: row["state"] for row in json.loads(table.read_text())}
    return _WHOLES[key]


def _good_records(ledger: Ledger) -> list[dict[str, Any]]:
    found = []
    for path in ledger.root.glob("*/p-*/attempt-*/record.json"):
        try:
            found.append(json.loads(path.read_text()))
        except (OSError, ValueError):
            continue
    return [record for record in found if isinstance(record, dict) and "outcome" in record]
