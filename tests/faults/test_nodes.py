"""Faults of nodes: down, drained, without slurmd, or wanted by somebody who goes first."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.record import Cause
from tests.faults.background import WAITS, Command, new_user
from tests.faults.fixtures import Tell
from tests.faults.matrix import Part, fault
from tests.faults.telling import told_of
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.daemons import missing_requirement
from tests.slurm_cluster.slurm import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("own-cluster")]

HANGS = f"shape.seed={node.HANGS}"
HANGS_ONCE = f"shape.seed={node.HANGS_ONCE}"
STAYS_ENDED = "+cluster.sbatch.no-requeue=''"


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[SlurmCluster]:
    if reason := missing_requirement():
        pytest.skip(reason)
    with SlurmCluster(slurmd_timeout_s=6) as cluster:
        yield cluster


@contextlib.contextmanager
def is_in(cluster: SlurmCluster, name: str, state: str) -> Iterator[None]:
    """While it lasts, a node is down or drained."""
    cluster.run("scontrol", "update", f"nodename={name}", f"state={state}", "reason=a bad fan")
    try:
        yield
    finally:
        cluster.run("scontrol", "update", f"nodename={name}", "state=resume")


def tell_of(command: Command, tell: Tell, *, retries: bool = False) -> None:
    """Hands over what is told of the command's only point."""
    (point,) = command.ledger.plan()
    screen = command.screen + command.seen
    tell(told_of(command.user, command.ledger, point.point_id, screen=screen, retries=retries))


def attempts(command: Command) -> int:
    """Of all points, under all jobs."""
    return len(list(command.ledger.root.glob("*/p-*/attempt-*")))


@fault(
    Part.job,
    "node down, and the job is requeued",
    told="PASSED",
    quotes="REQUEUED",
    code=0,
    slow=True,
    note="every attempt is kept",
)
def test_a_node_goes_down(own_cluster: SlurmCluster, tmp_path: Path, tell: Tell) -> None:
    user = new_user(own_cluster, tmp_path / "user")
    with Command(user, "run", HANGS_ONCE, *WAITS) as command:
        command.begun()
        with is_in(own_cluster, command.node(), "down"):
            command.queued("PENDING")
            command.look()
        command.end()
        tell_of(command, tell)
        assert attempts(command) == 2


@fault(
    Part.job,
    "node down, and no requeue",
    told="ERROR",
    cause=Cause.node_fail,
    quotes="ended as NODE_FAIL",
    retried=True,
    code=1,
    slow=True,
)
def test_two_nodes_go_down_one_after_another(
    own_cluster: SlurmCluster, tmp_path: Path, tell: Tell
) -> None:
    user = new_user(own_cluster, tmp_path / "user")
    with contextlib.ExitStack() as stack:
        command = stack.enter_context(Command(user, "run", HANGS, STAYS_ENDED, *WAITS))
        names = []
        for number in range(2):
            command.begun(number)
            names.append(command.node(number))
            stack.enter_context(is_in(own_cluster, names[-1], "down"))
        screen = command.end()
        tell_of(command, tell, retries=True)
    assert len(set(names)) == 2
    assert f"Again: 1 point that the cluster ended, not on {names[0]}" in screen
    assert attempts(command) == 2


@fault(
    Part.job,
    "node down, and no other may be used",
    told="ERROR",
    cause=Cause.node_fail,
    quotes="Not submitted again: 1 point: cluster.nodelist=n3, cluster.exclude=n3 was refused",
    code=1,
    slow=True,
    note="the other points are waited for",
)
def test_the_only_node_goes_down(own_cluster: SlurmCluster, tmp_path: Path, tell: Tell) -> None:
    user = new_user(own_cluster, tmp_path / "user")
    words = (HANGS, STAYS_ENDED, "cluster.nodelist=n3", *WAITS)
    with Command(user, "run", *words) as command:
        command.begun()
        with is_in(own_cluster, "n3", "down"):
            command.end()
            tell_of(command, tell)
    assert command.process.returncode == 1
    assert f"Next: python launch.py resume {command.ledger.sweep_id} " in command.screen


@fault(
    Part.job,
    "node drained under a running job",
    told="PASSED",
    quotes="1 PASSED",
    code=0,
    slow=True,
)
def test_a_running_job_ends_on_a_drained_node(
    own_cluster: SlurmCluster, tmp_path: Path, tell: Tell
) -> None:
    user = new_user(own_cluster, tmp_path / "user")
    with Command(user, "run", f"shape.seed={node.SLOW_PASS}", *WAITS) as command:
        command.begun()
        with is_in(own_cluster, command.node(), "drain"):
            command.end()
        tell_of(command, tell)


@fault(
    Part.job,
    "node drained before the job starts",
    told="PENDING",
    quotes="ReqNodeNotAvail, UnavailableNodes:n2: it waits for nodes that are down, drained or",
    code=3,
    slow=True,
)
def test_a_job_waits_for_a_drained_node(
    own_cluster: SlurmCluster, tmp_path: Path, tell: Tell
) -> None:
    user = new_user(own_cluster, tmp_path / "user")
    words = (f"shape.seed={node.PASS}", "cluster.nodelist=n2", *WAITS)
    with is_in(own_cluster, "n2", "drain"), Command(user, "run", *words) as command:
        command.says("Waits: 1 point, PENDING: ReqNodeNotAvail")
        command.interrupt()
        tell_of(command, tell)


def goes_first(cluster: SlurmCluster) -> None:
    """Somebody's job of a higher partition needs the whole of n3, for a moment."""
    words = ("-p", "high", "-w", "n3", "--cpus-per-task=8", "--mem=100", "-o", "/dev/null")
    cluster.run("sbatch", *words, "--wrap", "sleep 1")


@fault(
    Part.job,
    "preempted, and requeued",
    told="PASSED",
    quotes="REQUEUED",
    code=0,
    slow=True,
    note="every attempt is kept",
)
def test_a_preempted_job_begins_again(
    own_cluster: SlurmCluster, tmp_path: Path, tell: Tell
) -> None:
    user = new_user(own_cluster, tmp_path / "user")
    where = ("cluster.partition=low", "cluster.nodelist=n3")
    with Command(user, "run", HANGS_ONCE, *where, *WAITS) as command:
        command.begun()
        goes_first(own_cluster)
        command.queued("PENDING")
        command.look()
        command.end()
        tell_of(command, tell)
        assert attempts(command) == 2


@fault(
    Part.job,
    "preempted, and no requeue",
    told="ERROR",
    cause=Cause.preempted,
    quotes="PREEMPTED",
    retried=True,
    code=1,
    slow=True,
    note="the node did not fail, and is not left out",
)
def test_a_preempted_job_that_ends(own_cluster: SlurmCluster, tmp_path: Path, tell: Tell) -> None:
    user = new_user(own_cluster, tmp_path / "user")
    where = ("cluster.partition=low", "cluster.nodelist=n3", STAYS_ENDED)
    with Command(user, "run", HANGS, *where, *WAITS) as command:
        for number in range(2):
            command.begun(number)
            goes_first(own_cluster)
        screen = command.end()
        tell_of(command, tell, retries=True)
    assert "Again: 1 point that the cluster ended\n" in screen


@fault(
    Part.job,
    "slurmd killed",
    told="PASSED",
    quotes="(node_fail)",
    code=0,
    slow=True,
    note="submitted again, on another node",
)
@pytest.mark.timeout(120)  # SLURM alone takes half a minute to notice
def test_a_node_loses_its_slurmd(own_cluster: SlurmCluster, tmp_path: Path, tell: Tell) -> None:
    user = new_user(own_cluster, tmp_path / "user")
    with Command(user, "run", HANGS_ONCE, STAYS_ENDED, *WAITS) as command:
        command.begun()
        name = command.node()
        own_cluster.kill_daemon(name, signal.SIGKILL)
        try:
            command.queued("NODE_FAIL")
            screen = command.end()
            tell_of(command, tell)
        finally:
            own_cluster.start_daemon(name)
    assert f"Again: 1 point that the cluster ended, not on {name}" in screen
