"""Faults of nodes: down, drained, without slurmd, or taken by a job of higher priority."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from jobs.record import Cause
from tests.faults.background import RETRIES, Command, new_user
from tests.faults.matrix import Check, Part, fault
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.daemons import missing_requirement
from tests.slurm_cluster.slurm import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("own-cluster")]

row = partial(fault, Part.job, slow=True)

HANGS = f"shape.seed={node.HANGS}"
HANGS_ONCE = f"shape.seed={node.HANGS_ONCE}"
NO_REQUEUE = "+cluster.sbatch.no-requeue=''"
PREEMPTIBLE = ("cluster.partition=low", "cluster.nodelist=n3")

Run = Callable[..., contextlib.AbstractContextManager[Command]]


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[SlurmCluster]:
    if reason := missing_requirement():
        pytest.skip(reason)
    with SlurmCluster(slurmd_timeout_s=6) as cluster:
        yield cluster


@pytest.fixture
def run(own_cluster: SlurmCluster, tmp_path: Path) -> Run:
    """Start `run` of one point, which waits and retries."""
    return lambda *words: Command(
        new_user(own_cluster, tmp_path / "user"), "run", *words, *RETRIES
    )


@contextlib.contextmanager
def node_state(cluster: SlurmCluster, name: str, state: str) -> Iterator[None]:
    """Set a node down or drained for the duration of the block."""
    cluster.run("scontrol", "update", f"nodename={name}", f"state={state}", "reason=a bad fan")
    try:
        yield
    finally:
        cluster.run("scontrol", "update", f"nodename={name}", "state=resume")


@row(
    "node down, and the job is requeued",
    "PASSED",
    names="REQUEUED",
    note="every attempt is kept",
)
def test_a_node_goes_down(own_cluster: SlurmCluster, run: Run, check: Check) -> None:
    with run(HANGS_ONCE) as command:
        command.started_job()
        with node_state(own_cluster, command.node(), "down"):
            command.queued_job("PENDING")
            command.query_status()
        command.end()
        check(command.report())
        assert command.attempts() == 2


@row("node down, no requeue", "ERROR", Cause.node_fail, names="NODE_FAIL", retried=True)
def test_two_nodes_go_down_one_after_another(
    own_cluster: SlurmCluster, run: Run, check: Check
) -> None:
    with contextlib.ExitStack() as stack:
        command = stack.enter_context(run(HANGS, NO_REQUEUE))
        names = []
        for number in range(2):
            command.started_job(number)
            names.append(command.node(number))
            stack.enter_context(node_state(own_cluster, names[-1], "down"))
        command.end()
        check(command.report(retries=True))
    assert len(set(names)) == 2
    assert command.excluded_nodes(1) == [names[0]]
    assert command.attempts() == 2


@row(
    "node down, and no other may be used",
    "ERROR",
    Cause.node_fail,
    names=("cluster.nodelist=n3", "cluster.exclude=n3"),
    note="the other points are waited for",
)
def test_the_only_node_goes_down(own_cluster: SlurmCluster, run: Run, check: Check) -> None:
    with run(HANGS, NO_REQUEUE, "cluster.nodelist=n3") as command:
        command.started_job()
        with node_state(own_cluster, "n3", "down"):
            command.end()
            check(command.report())
    assert command.process.returncode == 1
    assert f"launch.py resume {command.ledger.sweep_id} " in command.output


@row("node drained under a running job", "PASSED")
def test_a_running_job_ends_on_a_drained_node(
    own_cluster: SlurmCluster, run: Run, check: Check
) -> None:
    with run(f"shape.seed={node.SLOW_PASS}") as command:
        command.started_job()
        with node_state(own_cluster, command.node(), "drain"):
            command.end()
        check(command.report())


@row("node drained before the job starts", "PENDING", names="ReqNodeNotAvail, UnavailableNodes:n2")
def test_a_job_waits_for_a_drained_node(own_cluster: SlurmCluster, run: Run, check: Check) -> None:
    words = (f"shape.seed={node.PASS}", "cluster.nodelist=n2")
    with node_state(own_cluster, "n2", "drain"), run(*words) as command:
        command.wait_for_output("ReqNodeNotAvail")
        command.interrupt()
        check(command.report())


def preempt(cluster: SlurmCluster) -> None:
    """Submit a job of a higher partition that needs the whole of n3 for a moment."""
    words = ("-p", "high", "-w", "n3", "--cpus-per-task=8", "--mem=100", "-o", "/dev/null")
    cluster.run("sbatch", *words, "--wrap", "sleep 1")


@row("preempted, and requeued", "PASSED", names="REQUEUED", note="every attempt is kept")
def test_a_preempted_job_starts_again(own_cluster: SlurmCluster, run: Run, check: Check) -> None:
    with run(HANGS_ONCE, *PREEMPTIBLE) as command:
        command.started_job()
        preempt(own_cluster)
        command.queued_job("PENDING")
        command.query_status()
        command.end()
        check(command.report())
        assert command.attempts() == 2


@row(
    "preempted, no requeue",
    "ERROR",
    Cause.preempted,
    names="PREEMPTED",
    retried=True,
    note="the node did not fail and is not excluded",
)
def test_a_preempted_job_that_ends(own_cluster: SlurmCluster, run: Run, check: Check) -> None:
    with run(HANGS, *PREEMPTIBLE, NO_REQUEUE) as command:
        for number in range(2):
            command.started_job(number)
            preempt(own_cluster)
        command.end()
        check(command.report(retries=True))
        assert command.excluded_nodes(1) == []


@row("slurmd killed", "PASSED", names="node_fail", note="submitted again, to another node")
@pytest.mark.timeout(120)  # SLURM alone takes half a minute to notice
def test_a_node_loses_its_slurmd(own_cluster: SlurmCluster, run: Run, check: Check) -> None:
    with run(HANGS_ONCE, NO_REQUEUE) as command:
        command.started_job()
        name = command.node()
        own_cluster.kill_daemon(name, signal.SIGKILL)
        try:
            command.queued_job("NODE_FAIL")
            command.end()
            check(command.report())
        finally:
            own_cluster.start_daemon(name)
    assert command.excluded_nodes(1) == [name]
