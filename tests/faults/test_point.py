"""Faults of one point: they cost that point alone, and its record says what happened."""

from __future__ import annotations

import re
from functools import partial

import pytest

from jobs.record import Cause
from jobs.sweeps.ledger import Ledger
from tests.faults.matrix import Check, Part, fault
from tests.faults.reports import report_of
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.launching import SlurmUser
from tests.slurm_cluster.slurm import SlurmCluster

pytestmark = pytest.mark.slurm

row = partial(fault, Part.point)
error = partial(fault, Part.point, reported="ERROR", retried=False)

ACTS = {
    node.RAISES: error(
        "the point raises", cause=Cause.exception, names="ValueError: the point raised"
    ),
    node.MISSES_MODULE: error(
        "a module is missing",
        cause=Cause.import_error,
        names="ModuleNotFoundError: No module named 'a_module_that_is_not_there'",
    ),
    node.MISSES_LIBRARY: error(
        "a shared library cannot be opened",
        cause=Cause.import_error,
        names="libnot_there.so.9: cannot open shared object file",
    ),
    node.EXITS_0: error(
        "sys.exit(0) without a record", cause=Cause.exception, names="exit code 0"
    ),
    node.EXITS_3: error(
        "sys.exit(3) without a record", cause=Cause.exception, names="exit code 3"
    ),
    node.EXITS_AT_ONCE: error(
        "os._exit(7) without a record", cause=Cause.exception, names="exit code 7"
    ),
    node.SEGFAULT: error("SIGSEGV", cause=Cause.crashed, names="SIGSEGV"),
    node.KILLED: error("SIGKILL", cause=Cause.crashed, names="SIGKILL"),
    node.ABORTS_IN_THREAD: error("abort in a thread", cause=Cause.crashed, names="SIGABRT"),
    node.FINDS_DISK_FULL: row(
        "the point writes to a full disk",
        "ERROR",
        Cause.storage,
        names="[Errno 28] No space left on device: '/scratch/trace.json'",
        retried=True,
    ),
    node.HANGS: error("the point hangs", cause=Cause.timeout, names="4 s"),
}


def point_of(ledger: Ledger, act: int) -> str:
    """Return the id of the point with an act."""
    (point_id,) = [
        point.point_id for point in ledger.plan() if point.config["shape"]["seed"] % 100 == act
    ]
    return point_id


@pytest.fixture(scope="module")
def sweep(
    slurm_cluster: SlurmCluster, tmp_path_factory: pytest.TempPathFactory
) -> tuple[SlurmUser, Ledger]:
    """One job with a point for each act, and a good point after each."""
    user = SlurmUser(slurm_cluster, tmp_path_factory.mktemp("acts"))
    seeds = [seed for i, act in enumerate(ACTS) for seed in (100 * i + act, 100 * i + node.PASS)]
    _, ledger = user.sweep(
        f"shape.seed={','.join(map(str, seeds))}",
        f"launch.points_per_job={len(seeds)}",
        "launch.point_time_limit_s=4",
        "launch.retries=1",
        "wait=true",
    )
    return user, ledger


@pytest.mark.parametrize("act", [pytest.param(act, marks=mark) for act, mark in ACTS.items()])
def test_a_point_that_ends_badly(act: int, sweep: tuple[SlurmUser, Ledger], check: Check) -> None:
    user, ledger = sweep
    check(report_of(user, ledger, point_of(ledger, act), retries=True))


def test_every_other_point_of_the_job_passes(sweep: tuple[SlurmUser, Ledger]) -> None:
    user, ledger = sweep
    outcomes = user.outcomes(ledger)
    good = [
        outcomes[point.point_id]
        for point in ledger.plan()
        if point.config["shape"]["seed"] % 100 == node.PASS
    ]
    assert good == [["PASSED"]] * len(ACTS)


LIMIT = "launch.max_log_mib=1"
LONG_LOGS = {
    node.PRINTS_AND_RAISES: row(
        "the point prints 200 MiB, then raises",
        "ERROR",
        Cause.exception,
        names="ValueError: after a long log",
        note=LIMIT,
    ),
    node.FORKS_PRINTERS: row(
        "16 children of the point print 20 MiB each", "PASSED", names=LIMIT, note=LIMIT
    ),
}


@pytest.fixture(scope="module")
def long_logs(
    slurm_cluster: SlurmCluster, tmp_path_factory: pytest.TempPathFactory
) -> tuple[SlurmUser, Ledger]:
    """Points that print far more than their logs may hold."""
    user = SlurmUser(slurm_cluster, tmp_path_factory.mktemp("logs"))
    seeds = f"shape.seed={','.join(map(str, LONG_LOGS))}"
    return user, user.sweep(seeds, "launch.points_per_job=2", LIMIT, "wait=true")[1]


@pytest.mark.parametrize("act", [pytest.param(act, marks=mark) for act, mark in LONG_LOGS.items()])
def test_a_log_is_bounded(act: int, long_logs: tuple[SlurmUser, Ledger], check: Check) -> None:
    user, ledger = long_logs
    point_id = point_of(ledger, act)
    (log,) = ledger.root.glob(f"*/{point_id}/attempt-1/output.log")
    assert log.stat().st_size <= 2**20
    text = log.read_text()
    assert text.startswith(f"point {point_id} acts {act}\n")
    (gap,) = [line for line in text.splitlines() if LIMIT in line]
    omitted_bytes = max(int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", gap))
    printed_bytes = {node.PRINTS_AND_RAISES: 200, node.FORKS_PRINTERS: 320}[act] * 2**20
    assert printed_bytes - 2**20 < omitted_bytes < printed_bytes
    check(report_of(user, ledger, point_id, output=gap))


@row(
    "a file is in the place of the point's folder",
    "ERROR",
    Cause.lost,
    names="[Errno 17] File exists",
    slow=True,
    note="the points after it run",
)
def test_a_folder_that_cannot_be_created(slurm_user: SlurmUser, check: Check) -> None:
    acts = (node.SPOILS_NEXT, 100 + node.PASS, 200 + node.PASS)
    seeds = f"shape.seed={','.join(map(str, acts))}"
    done, ledger = slurm_user.sweep(seeds, "launch.points_per_job=3", "wait=true")
    assert done.returncode == 1
    before, spoilt, after = (point.point_id for point in ledger.plan())
    outcomes = slurm_user.outcomes(ledger)
    assert (outcomes[before], outcomes[after]) == (["PASSED"], ["PASSED"])
    check(report_of(slurm_user, ledger, spoilt))
