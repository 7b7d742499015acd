"""Faults of one point: they cost that point alone, and its record says what happened."""

from __future__ import annotations

import pytest

from jobs.cluster.ledger import Ledger
from jobs.record import Cause
from tests.cluster import stand_in_node as node
from tests.cluster.launching import SlurmUser
from tests.cluster.slurm import SlurmCluster
from tests.faults.fixtures import Tell
from tests.faults.matrix import Part, fault
from tests.faults.telling import told_of

pytestmark = pytest.mark.slurm

ACTS = {
    node.RAISES: fault(
        Part.point,
        "the point raises",
        told="ERROR",
        cause=Cause.exception,
        quotes="ValueError: the point raised",
        retried=False,
        code=1,
    ),
    node.EXITS_0: fault(
        Part.point,
        "sys.exit(0), and no record",
        told="ERROR",
        cause=Cause.exception,
        quotes="exit code 0 and left no record",
        retried=False,
        code=1,
    ),
    node.SEGFAULT: fault(
        Part.point,
        "SIGSEGV",
        told="ERROR",
        cause=Cause.crashed,
        quotes="SIGSEGV",
        retried=False,
        code=1,
    ),
}


@pytest.fixture(scope="module")
def sweep(
    slurm_cluster: SlurmCluster, tmp_path_factory: pytest.TempPathFactory
) -> tuple[SlurmUser, Ledger]:
    """One sweep with a point for each act, all in one job, and a good point after each."""
    user = SlurmUser(slurm_cluster, tmp_path_factory.mktemp("acts"))
    seeds = [seed for i, act in enumerate(ACTS) for seed in (100 * i + act, 100 * i + node.PASS)]
    _, ledger = user.sweep(
        f"shape.seed={','.join(map(str, seeds))}",
        f"launch.points_per_job={len(seeds)}",
        "launch.point_time_limit_s=3",
        "launch.retries=1",
        "wait=true",
    )
    return user, ledger


@pytest.mark.parametrize("act", [pytest.param(act, marks=mark) for act, mark in ACTS.items()])
def test_a_point_that_ends_badly(act: int, sweep: tuple[SlurmUser, Ledger], tell: Tell) -> None:
    user, ledger = sweep
    (point_id,) = [
        point.point_id for point in ledger.plan() if point.config["shape"]["seed"] % 100 == act
    ]
    tell(told_of(user, ledger, point_id, retries=True))


def test_every_other_point_of_the_job_has_passed(sweep: tuple[SlurmUser, Ledger]) -> None:
    user, ledger = sweep
    outcomes = user.outcomes(ledger)
    good = [
        outcomes[point.point_id]
        for point in ledger.plan()
        if point.config["shape"]["seed"] % 100 == node.PASS
    ]
    assert good == [["PASSED"]] * len(ACTS)
