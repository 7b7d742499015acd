"""A node whose clock is an hour off, or is set: nothing that is told depends on it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from jobs.record import Cause
from jobs.sweeps.ledger import Ledger
from tests.faults import clock
from tests.faults.fixtures import Tell
from tests.faults.matrix import Part, fault
from tests.faults.telling import told_of
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.launching import SlurmUser
from tests.slurm_cluster.slurm import SlurmCluster

pytestmark = pytest.mark.slurm

HOUR_S = 3600
# What a newer SLURM tells each job, by the clock of the controller.
JOB_TIMES = (
    "cluster.setup=['export SLURM_JOB_START_TIME=$(date +%s)',"
    "'export SLURM_JOB_END_TIME=$((SLURM_JOB_START_TIME + 600))']"
)


def user_with(
    cluster: SlurmCluster, folder: Path, ahead_s: int
) -> tuple[SlurmUser, clock.NodeClock]:
    """A user whose nodes' clock is off."""
    user = SlurmUser(cluster, folder)
    given = clock.install(folder / "clock", user.node, ahead_s)
    user.node = given.python
    return user, given


@pytest.fixture(scope="module")
def sweeps(
    slurm_cluster: SlurmCluster, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[SlurmUser, Ledger]]:
    """A sweep for each clock, submitted together."""
    acts = {
        "ahead": (HOUR_S, node.SLOW_PASS),
        "behind": (-HOUR_S, node.SLOW_PASS),
        "set back": (0, node.SETS_CLOCK_BACK),
    }
    made = {}
    for name, (ahead_s, act) in acts.items():
        user, _ = user_with(slurm_cluster, tmp_path_factory.mktemp("clock"), ahead_s)
        limit = "launch.point_time_limit_s=8"
        _, ledger = user.sweep(
            "grid=none", f"shape.seed={act}", "launch.time_min=10", limit, JOB_TIMES
        )
        made[name] = user, ledger
    for user, ledger in made.values():
        user.wait(ledger)
    return made


ROWS = {
    "ahead": fault(
        Part.point,
        "the node's clock is an hour ahead",
        told="PASSED",
        quotes="1 PASSED",
        code=0,
        slow=True,
    ),
    "behind": fault(
        Part.point,
        "the node's clock is an hour behind",
        told="PASSED",
        quotes="1 PASSED",
        code=0,
        slow=True,
    ),
    "set back": fault(
        Part.point,
        "the node's clock is set back an hour while the point hangs",
        told="ERROR",
        cause=Cause.timeout,
        quotes="still running after its limit of 8 s",
        code=1,
        slow=True,
    ),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=row) for name, row in ROWS.items()])
def test_a_clock_that_is_wrong(
    name: str, sweeps: dict[str, tuple[SlurmUser, Ledger]], tell: Tell
) -> None:
    user, ledger = sweeps[name]
    (point,) = ledger.plan()
    (record,) = user.records(ledger)
    if name == "set back":
        began, ended = (
            datetime.fromisoformat(record[key]) for key in ("started_at", "finished_at")
        )
        assert (
            8 <= (ended - began).total_seconds() == pytest.approx(record["duration_s"], abs=0.01)
        )
    tell(told_of(user, ledger, point.point_id))


@fault(
    Part.point,
    "a requeued point runs on a node whose clock is an hour behind the first",
    told="PASSED",
    quotes="1 PASSED",
    code=0,
    slow=True,
)
def test_attempts_go_by_their_numbers(
    slurm_cluster: SlurmCluster, tmp_path: Path, tell: Tell
) -> None:
    user, given = user_with(slurm_cluster, tmp_path, 0)
    _, ledger = user.sweep("grid=none", f"shape.seed={node.HANGS_ONCE}")
    (line,) = ledger.jobs()
    first = f"{line.job_id}/p-*/attempt-1/started.json"
    slurm_cluster.wait(lambda: bool(list(ledger.root.glob(first))), "the first attempt")
    given.set(-HOUR_S)
    slurm_cluster.run("scontrol", "requeue", line.job_id)
    user.wait(ledger)
    attempts = sorted(path.name for path in ledger.root.glob(f"{line.job_id}/p-*/attempt-*"))
    assert attempts == ["attempt-1", "attempt-2"]
    (point,) = ledger.plan()
    tell(told_of(user, ledger, point.point_id))
