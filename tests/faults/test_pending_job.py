"""Changes while jobs wait: to the files of their sweep, and to the repository."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from jobs.record import Cause
from jobs.sweeps.ledger import Ledger
from tests.faults.matrix import Check, Part, fault
from tests.faults.reports import report_of
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.launching import ROOT, SlurmUser
from tests.slurm_cluster.slurm import SlurmCluster

pytestmark = pytest.mark.slurm

row = partial(fault, Part.around, slow=True)

HELD = ("+cluster.sbatch.hold=''", "grid=none")


@dataclass(frozen=True)
class Damage:
    """A file of a waiting sweep, and its damaged content.

    Attributes:
        pattern: Matches the file, below the sweep's folder.
        size: Share of the file that is kept.
    """

    pattern: str
    size: float = 0.5

    def apply(self, ledger: Ledger) -> None:
        (path,) = ledger.root.glob(self.pattern)
        good = path.read_bytes()
        path.write_bytes(good[: int(len(good) * self.size)])


WAITS = "while its job waits"
DAMAGES = {
    Damage("submissions/0/entry.zip"): row(
        f"entry.zip is truncated {WAITS}", "ERROR", Cause.import_error, names="ModuleNotFoundError"
    ),
    Damage("submissions/0/entry.pkl"): row(
        f"entry.pkl is truncated {WAITS}", "ERROR", Cause.exception, names="pickle"
    ),
    Damage("submissions/0/submission.json"): row(
        f"submission.json is truncated {WAITS}", "ERROR", Cause.exception, names="JSONDecodeError"
    ),
    Damage("points/*.json"): row(
        f"points/<id>.json is truncated {WAITS}", "ERROR", Cause.exception, names="JSONDecodeError"
    ),
    Damage("plan.jsonl", 0): row(
        f"plan.jsonl is emptied {WAITS}", "PASSED", names="plan.jsonl", code=3
    ),
    Damage("jobs.jsonl", 0): row(f"jobs.jsonl is emptied {WAITS}", "PASSED"),
}


@pytest.fixture(scope="module")
def user(slurm_cluster: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> SlurmUser:
    """One user for all of them."""
    return SlurmUser(slurm_cluster, tmp_path_factory.mktemp("waiting"))


@pytest.fixture(scope="module")
def damaged(user: SlurmUser) -> dict[Damage, tuple[Ledger, str]]:
    """A held sweep for each damage; all are released together after it was done."""
    sweeps: dict[Damage, tuple[Ledger, str]] = {}
    jobs = []
    for number, damage in enumerate(DAMAGES):
        _, ledger = user.sweep(f"shape.seed={100 * number + node.PASS}", *HELD)
        (line,), (point,) = ledger.jobs(), ledger.plan()
        jobs.append(line.job_id)
        sweeps[damage] = (ledger, point.point_id)
        damage.apply(ledger)
    user.cluster.run("scontrol", "release", ",".join(jobs))
    user.cluster.wait_jobs(*jobs)
    return sweeps


@pytest.mark.parametrize(
    "damage", [pytest.param(one, marks=mark, id=one.pattern) for one, mark in DAMAGES.items()]
)
def test_a_file(
    damage: Damage, user: SlurmUser, damaged: dict[Damage, tuple[Ledger, str]], check: Check
) -> None:
    check(report_of(user, *damaged[damage]))


# ---- the repository ----


@pytest.fixture(scope="module")
def edited(user: SlurmUser) -> dict[str, tuple[Ledger, str]]:
    """Two held sweeps of a checkout, which is edited before they run."""
    checkout = user.folder / "checkout"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(checkout)], check=True)
    (user.folder / "from-it").mkdir()
    other = SlurmUser(user.cluster, user.folder / "from-it", cwd=checkout, root=checkout)
    words = ("cluster=slurm", "shape=tiny", "benchmark=off", "launch.memory_gib=1.5", *HELD)
    sweeps: dict[str, tuple[Ledger, str]] = {}
    jobs = []
    for seed, snapshot in enumerate(("false", "true")):  # one seed would be one point
        done = other.run("sweep", *words, f"shape.seed={seed}", f"launch.snapshot={snapshot}")
        assert done.returncode == 0, done.stdout + done.stderr
        ledger = other.ledger()
        (line,), (point,) = ledger.jobs(), ledger.plan()
        jobs.append(line.job_id)
        sweeps[snapshot] = (ledger, point.point_id)
    rules = checkout / "conf" / "rules.py"
    rules.write_text(rules.read_text() + "\n# edited\n")
    user.cluster.run("scontrol", "release", ",".join(jobs))
    user.cluster.wait_jobs(*jobs)
    return sweeps


EDITED = "the repository is edited while its jobs wait"


@pytest.mark.parametrize(
    "snapshot",
    [
        pytest.param("false", marks=row(EDITED, "PASSED")),
        pytest.param(
            "true",
            marks=row(
                f"{EDITED}, launch.snapshot=true", "PASSED", note="the unchanged snapshot runs"
            ),
        ),
    ],
)
def test_the_repository(
    snapshot: str, user: SlurmUser, edited: dict[str, tuple[Ledger, str]], check: Check
) -> None:
    ledger, point_id = edited[snapshot]
    there = SlurmUser(user.cluster, ledger.root.parents[1])
    report = report_of(there, ledger, point_id)
    (record,) = there.records(ledger)
    submitted = json.loads(next(Path(ledger.root, "points").iterdir()).read_text())
    changed = record["environment"]["dirty_hash"] != submitted["dirty_hash"]
    assert changed is (snapshot == "false")
    assert bool(record["capability"]["flags"]) is changed
    check(report)
