"""What changes while jobs wait: the files that they were given, and the repository."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from jobs.record import Cause
from jobs.sweeps.ledger import Ledger
from tests.faults.fixtures import Tell
from tests.faults.matrix import Part, fault
from tests.faults.telling import told_of
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.launching import ROOT, SlurmUser
from tests.slurm_cluster.slurm import SlurmCluster

pytestmark = pytest.mark.slurm

HELD = ("+cluster.sbatch.hold=''", "grid=none")


@dataclass(frozen=True)
class Harm:
    """A file of a waiting sweep, and what is done to it."""

    file: str
    change: Callable[[bytes], bytes]

    def do(self, ledger: Ledger) -> None:
        (path,) = ledger.root.glob(self.file)
        path.write_bytes(self.change(path.read_bytes()))


def _cut(good: bytes) -> bytes:
    return good[: len(good) // 2]


def _harmed(
    name: str, told: str, quotes: str, code: int, cause: Cause | None
) -> pytest.MarkDecorator:
    return fault(
        Part.around, f"{name}, while its job waits", told=told, quotes=quotes, code=code,
        cause=cause, slow=True,
    )  # fmt: skip


HARMS = {
    Harm("submissions/0/entry.zip", _cut): _harmed(
        "entry.zip is cut short", "ERROR", "ModuleNotFoundError", 1, Cause.import_error
    ),
    Harm("submissions/0/entry.pkl", _cut): _harmed(
        "entry.pkl is cut short", "ERROR", "pickle", 1, Cause.exception
    ),
    Harm("submissions/0/submission.json", _cut): _harmed(
        "submission.json is cut short", "ERROR", "JSONDecodeError", 1, Cause.exception
    ),
    Harm("points/*.json", _cut): _harmed(
        "points/<id>.json is cut short", "ERROR", "JSONDecodeError", 1, Cause.exception
    ),
    Harm("plan.jsonl", lambda good: b""): _harmed(
        "plan.jsonl is emptied", "PASSED", "plans 0 points", 3, None
    ),
    Harm("jobs.jsonl", lambda good: b""): _harmed(
        "jobs.jsonl is emptied", "PASSED", "1 PASSED", 0, None
    ),
}


@pytest.fixture(scope="module")
def user(slurm_cluster: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> SlurmUser:
    """One user for all of them."""
    return SlurmUser(slurm_cluster, tmp_path_factory.mktemp("waiting"))


@pytest.fixture(scope="module")
def harmed(user: SlurmUser) -> dict[Harm, tuple[Ledger, str]]:
    """A sweep for each harm, held until it is done; then all run at once."""
    made: dict[Harm, tuple[Ledger, str]] = {}
    jobs = []
    for number, harm in enumerate(HARMS):
        _, ledger = user.sweep(f"shape.seed={100 * number + node.PASS}", *HELD)
        (line,), (point,) = ledger.jobs(), ledger.plan()
        jobs.append(line.job_id)
        made[harm] = (ledger, point.point_id)
        harm.do(ledger)
    user.cluster.run("scontrol", "release", ",".join(jobs))
    user.cluster.wait_jobs(*jobs)
    return made


@pytest.mark.parametrize(
    "harm", [pytest.param(h, marks=row, id=h.file) for h, row in HARMS.items()]
)
def test_a_file(
    harm: Harm, user: SlurmUser, harmed: dict[Harm, tuple[Ledger, str]], tell: Tell
) -> None:
    ledger, point_id = harmed[harm]
    tell(told_of(user, ledger, point_id))


# ---- the repository ----


@pytest.fixture(scope="module")
def edited(user: SlurmUser) -> dict[str, tuple[Ledger, str]]:
    """Two held sweeps from a checkout of their own, which is edited before they run."""
    checkout = user.folder / "checkout"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(checkout)], check=True)
    (user.folder / "from-it").mkdir()
    other = SlurmUser(user.cluster, user.folder / "from-it", cwd=checkout, root=checkout)
    words = ("cluster=slurm", "shape=tiny", "benchmark=off", "launch.memory_gib=1.5", *HELD)
    found: dict[str, tuple[Ledger, str]] = {}
    jobs = []
    for seed, snapshot in enumerate(("false", "true")):  # one seed would be one point
        done = other.run("sweep", *words, f"shape.seed={seed}", f"launch.snapshot={snapshot}")
        assert done.returncode == 0, done.stdout + done.stderr
        ledger = other.ledger()
        (line,), (point,) = ledger.jobs(), ledger.plan()
        jobs.append(line.job_id)
        found[snapshot] = (ledger, point.point_id)
    rules = checkout / "conf" / "rules.py"
    rules.write_text(rules.read_text() + "\n# edited\n")
    user.cluster.run("scontrol", "release", ",".join(jobs))
    user.cluster.wait_jobs(*jobs)
    return found


@pytest.mark.parametrize(
    "snapshot",
    [
        pytest.param(
            "false",
            marks=fault(
                Part.around,
                "the repository is edited while its jobs wait",
                told="PASSED",
                quotes="the code changed after submission",
                code=0,
                slow=True,
            ),
        ),
        pytest.param(
            "true",
            marks=fault(
                Part.around,
                "the repository is edited while its jobs wait, launch.snapshot=true",
                told="PASSED",
                quotes="1 PASSED",
                code=0,
                slow=True,
                note="the copy runs: nothing has changed",
            ),
        ),
    ],
)
def test_the_repository(
    snapshot: str, user: SlurmUser, edited: dict[str, tuple[Ledger, str]], tell: Tell
) -> None:
    ledger, point_id = edited[snapshot]
    there = SlurmUser(user.cluster, ledger.root.parents[1])
    told = told_of(there, ledger, point_id)
    assert ("the code changed" in told.text) is (snapshot == "false")
    (record,) = there.records(ledger)
    submitted = json.loads(next(Path(ledger.root, "points").iterdir()).read_text())
    same = record["environment"]["dirty_hash"] == submitted["dirty_hash"]
    assert same is (snapshot == "true")
    tell(told)
