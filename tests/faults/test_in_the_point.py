"""Faults of one point: they cost that point alone, and its record says what happened."""

from __future__ import annotations

import re

import pytest

from jobs.record import Cause
from jobs.sweeps.ledger import Ledger
from tests.faults.fixtures import Tell
from tests.faults.matrix import Part, fault
from tests.faults.telling import told_of
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.launching import SlurmUser
from tests.slurm_cluster.slurm import SlurmCluster

pytestmark = pytest.mark.slurm


def ends_badly(name: str, cause: Cause, quotes: str) -> pytest.MarkDecorator:
    """A row of a point that ends by its own doing: an ERROR, and not tried again."""
    return fault(Part.point, name, told="ERROR", cause=cause, quotes=quotes, retried=False, code=1)


ACTS = {
    node.RAISES: ends_badly("the point raises", Cause.exception, "ValueError: the point raised"),
    node.MISSES_MODULE: ends_badly(
        "a module is missing",
        Cause.import_error,
        "ModuleNotFoundError: No module named 'a_module_that_is_not_there'",
    ),
    node.MISSES_LIBRARY: ends_badly(
        "a shared library cannot be opened",
        Cause.import_error,
        "libnot_there.so.9: cannot open shared object file",
    ),
    node.EXITS_0: ends_badly(
        "sys.exit(0), and no record", Cause.exception, "exit code 0 and left no record"
    ),
    node.EXITS_3: ends_badly(
        "sys.exit(3), and no record", Cause.exception, "exit code 3 and left no record"
    ),
    node.EXITS_AT_ONCE: ends_badly(
        "os._exit(7), and no record", Cause.exception, "exit code 7 and left no record"
    ),
    node.SEGFAULT: ends_badly("SIGSEGV", Cause.crashed, "ended by SIGSEGV"),
    node.KILLED: ends_badly("SIGKILL", Cause.crashed, "ended by SIGKILL"),
    node.ABORTS_IN_THREAD: ends_badly(
        "abort in a second thread", Cause.crashed, "ended by SIGABRT"
    ),
    node.FINDS_DISK_FULL: fault(
        Part.point,
        "the point finds a disk full",
        told="ERROR",
        cause=Cause.storage,
        quotes="[Errno 28] No space left on device: '/scratch/trace.json'",
        retried=True,
        code=1,
    ),
    node.HANGS: ends_badly(
        "the point hangs", Cause.timeout, "still running after its limit of 4 s"
    ),
}


def point_of(ledger: Ledger, act: int) -> str:
    """The point that acts so."""
    (point_id,) = [
        point.point_id for point in ledger.plan() if point.config["shape"]["seed"] % 100 == act
    ]
    return point_id


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
        "launch.point_time_limit_s=4",
        "launch.retries=1",
        "wait=true",
    )
    return user, ledger


@pytest.mark.parametrize("act", [pytest.param(act, marks=mark) for act, mark in ACTS.items()])
def test_a_point_that_ends_badly(act: int, sweep: tuple[SlurmUser, Ledger], tell: Tell) -> None:
    user, ledger = sweep
    tell(told_of(user, ledger, point_of(ledger, act), retries=True))


def test_every_other_point_of_the_job_has_passed(sweep: tuple[SlurmUser, Ledger]) -> None:
    user, ledger = sweep
    outcomes = user.outcomes(ledger)
    good = [
        outcomes[point.point_id]
        for point in ledger.plan()
        if point.config["shape"]["seed"] % 100 == node.PASS
    ]
    assert good == [["PASSED"]] * len(ACTS)


LONG_LOGS = {
    node.PRINTS_AND_RAISES: fault(
        Part.point,
        "the point prints 200 MiB, then raises",
        told="ERROR",
        cause=Cause.exception,
        quotes="ValueError: after a long log",
        code=1,
        note="launch.max_log_mib=1",
    ),
    node.FORKS_PRINTERS: fault(
        Part.point,
        "16 children of the point print 20 MiB each",
        told="PASSED",
        quotes="bytes left out here: launch.max_log_mib=1",
        code=0,
        note="launch.max_log_mib=1",
    ),
}


@pytest.fixture(scope="module")
def long_logs(
    slurm_cluster: SlurmCluster, tmp_path_factory: pytest.TempPathFactory
) -> tuple[SlurmUser, Ledger]:
    """Points that print far more than their logs may hold."""
    user = SlurmUser(slurm_cluster, tmp_path_factory.mktemp("logs"))
    seeds = ",".join(map(str, LONG_LOGS))
    words = (f"shape.seed={seeds}", "launch.points_per_job=2", "launch.max_log_mib=1")
    return user, user.sweep(*words, "wait=true")[1]


@pytest.mark.parametrize("act", [pytest.param(act, marks=mark) for act, mark in LONG_LOGS.items()])
def test_a_log_is_bounded(act: int, long_logs: tuple[SlurmUser, Ledger], tell: Tell) -> None:
    user, ledger = long_logs
    point_id = point_of(ledger, act)
    (log,) = ledger.root.glob(f"*/{point_id}/attempt-1/output.log")
    assert log.stat().st_size <= 2**20
    text = log.read_text()
    assert text.startswith(f"point {point_id} acts {act}\n")
    (told,) = re.findall(r"\[\.\.\. +([\d,]+) bytes left out here", text)
    printed = {node.PRINTS_AND_RAISES: 200, node.FORKS_PRINTERS: 320}[act] * 2**20
    assert printed - 2**20 < int(told.replace(",", "")) < printed
    shown = next(line for line in text.splitlines() if "left out" in line)
    tell(told_of(user, ledger, point_id, screen=shown))


@fault(
    Part.point,
    "a file lies where the point's folder belongs",
    told="ERROR",
    cause=Cause.lost,
    quotes="could be written: [Errno 17] File exists",
    code=1,
    slow=True,
    note="the points after it run",
)
def test_a_folder_that_cannot_be_made(slurm_user: SlurmUser, tell: Tell) -> None:
    acts = (node.SPOILS_NEXT, 100 + node.PASS, 200 + node.PASS)
    seeds = f"shape.seed={','.join(map(str, acts))}"
    done, ledger = slurm_user.sweep(seeds, "launch.points_per_job=3", "wait=true")
    assert done.returncode == 1
    before, spoilt, after = (point.point_id for point in ledger.plan())
    outcomes = slurm_user.outcomes(ledger)
    assert (outcomes[before], outcomes[after]) == (["PASSED"], ["PASSED"])
    tell(told_of(slurm_user, ledger, spoilt))
