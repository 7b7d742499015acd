"""A node whose clock is an hour off, or is set: no report depends on it."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from pathlib import Path

import pytest

from jobs.record import Cause
from jobs.sweeps.ledger import Ledger
from tests.faults import clock
from tests.faults.matrix import Check, Part, fault
from tests.faults.reports import report_of
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.launching import SlurmUser
from tests.slurm_cluster.slurm import SlurmCluster

pytestmark = pytest.mark.slurm

row = partial(fault, Part.point, slow=True)

HOUR_S = 3600
# What newer versions of SLURM set for each job, by the controller's clock.
JOB_TIMES = (
    "cluster.setup=['export SLURM_JOB_START_TIME=$(date +%s)',"
    "'export SLURM_JOB_END_TIME=$((SLURM_JOB_START_TIME + 600))']"
)


def user_with_clock(
    cluster: SlurmCluster, folder: Path, ahead_s: int
) -> tuple[SlurmUser, clock.NodeClock]:
    """Return a user whose nodes have a clock of their own."""
    user = SlurmUser(cluster, folder)
    node_clock = clock.install(folder / "clock", user.node, ahead_s)
    user.node = node_clock.python
    return user, node_clock


CLOCKS = {
    "ahead": (HOUR_S, node.SLOW_PASS, row("the node's clock is an hour ahead", "PASSED")),
    "behind": (-HOUR_S, node.SLOW_PASS, row("the node's clock is an hour behind", "PASSED")),
    "set back": (
        0,
        node.SETS_CLOCK_BACK,
        row(
            "the node's clock is set back an hour while the point hangs",
            "ERROR",
            Cause.timeout,
            names="8 s",
        ),
    ),
}


@pytest.fixture(scope="module")
def sweeps(
    slurm_cluster: SlurmCluster, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[SlurmUser, Ledger]]:
    """A sweep for each clock, submitted together."""
    submitted = {}
    limits = ("launch.time_min=10", "launch.point_time_limit_s=8")
    for name, (ahead_s, act, _) in CLOCKS.items():
        user, _ = user_with_clock(slurm_cluster, tmp_path_factory.mktemp("clock"), ahead_s)
        _, ledger = user.sweep("grid=none", f"shape.seed={act}", *limits, JOB_TIMES)
        submitted[name] = user, ledger
    for user, ledger in submitted.values():
        user.wait(ledger)
    return submitted


@pytest.mark.parametrize("name", [pytest.param(name, marks=CLOCKS[name][2]) for name in CLOCKS])
def test_a_wrong_clock(
    name: str, sweeps: dict[str, tuple[SlurmUser, Ledger]], check: Check
) -> None:
    user, ledger = sweeps[name]
    (point,) = ledger.plan()
    (record,) = user.records(ledger)
    if name == "set back":
        start, end = (datetime.fromisoformat(record[key]) for key in ("started_at", "finished_at"))
        assert 8 <= (end - start).total_seconds() == pytest.approx(record["duration_s"], abs=0.01)
    check(report_of(user, ledger, point.point_id))


@row("a requeued point runs on a node whose clock is an hour behind the first", "PASSED")
def test_attempts_are_ordered_by_number(
    slurm_cluster: SlurmCluster, tmp_path: Path, check: Check
) -> None:
    user, node_clock = user_with_clock(slurm_cluster, tmp_path, 0)
    _, ledger = user.sweep("grid=none", f"shape.seed={node.HANGS_ONCE}")
    (line,) = ledger.jobs()
    first = f"{line.job_id}/p-*/attempt-1/started.json"
    slurm_cluster.wait(lambda: bool(list(ledger.root.glob(first))), "the first attempt")
    node_clock.set(-HOUR_S)
    slurm_cluster.run("scontrol", "requeue", line.job_id)
    user.wait(ledger)
    attempts = sorted(path.name for path in ledger.root.glob(f"{line.job_id}/p-*/attempt-*"))
    assert attempts == ["attempt-1", "attempt-2"]
    (point,) = ledger.plan()
    check(report_of(user, ledger, point.point_id))
