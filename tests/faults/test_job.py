"""Faults of a job that runs, or was to run: it ends before its points do, or begins again."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from jobs.record import Cause
from tests.faults.background import RETRIES, Command, new_user, selected
from tests.faults.matrix import Check, Part, fault
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.launching import SlurmUser
from tests.slurm_cluster.slurm import SlurmCluster

pytestmark = pytest.mark.slurm

row = partial(fault, Part.job, slow=True)
cancelled = partial(fault, Part.job, reported="ERROR", cause=Cause.cancelled, retried=False)
timeout = partial(row, reported="ERROR", cause=Cause.timeout, retried=False)

HANGS = f"shape.seed={node.HANGS}"
THREE = f"shape.seed={node.HANGS},{node.PASS},{node.SLOW_PASS}"
ONE_JOB = "launch.points_per_job=2"
ONE_AT_A_TIME = "launch.max_parallel=1"

GROUP = 5
"""Number of faults that are injected together: more overload two cores."""

Act = Callable[[SlurmCluster, Command], None]


def cancel_one(cluster: SlurmCluster, command: Command) -> None:
    cluster.run("scancel", f"{command.started_job()}_0")


def cancel_pending_one(cluster: SlurmCluster, command: Command) -> None:
    """SLURM keeps no row of it, because other tasks of its array are still pending."""
    job = command.started_job()
    cluster.run("scancel", f"{job}_1")
    cluster.run("scancel", f"{job}_0")


def cancel_pending(cluster: SlurmCluster, command: Command) -> None:
    cluster.run("scancel", command.job())


def cancel_running(cluster: SlurmCluster, command: Command) -> None:
    cluster.run("scancel", command.started_job())


def end_in_setup(cluster: SlurmCluster, command: Command) -> None:
    """SLURM signals steps, and there is none yet."""
    cluster.run("scontrol", "update", f"jobid={command.queued_job('RUNNING')}", "EndTime=now+1")


def warn(cluster: SlurmCluster, command: Command) -> None:
    cluster.run("scancel", "--signal=USR2", command.started_job())


def requeue(cluster: SlurmCluster, command: Command) -> None:
    """Requeue the job while it runs its second point."""
    cluster.run("scontrol", "requeue", command.started_job(attempts=2))
    command.queued_job("PENDING")
    command.query_status()


def requeue_held(cluster: SlurmCluster, command: Command) -> None:
    cluster.run("scontrol", "requeuehold", command.started_job())


def suspend(cluster: SlurmCluster, command: Command) -> None:
    cluster.run("scontrol", "suspend", command.started_job())


FAULTS: dict[str, tuple[tuple[str, ...], Act, pytest.MarkDecorator]] = {
    "cancel pending": (
        (f"shape.seed={node.PASS}", "+cluster.sbatch.begin=now+1hour"),
        cancel_pending,
        cancelled("scancel of a pending job", names="CANCELLED by"),
    ),
    "cancel one": (
        (THREE,),
        cancel_one,
        cancelled("scancel of a running array task", names="CANCELLED AT"),
    ),
    "cancel pending one": (
        (THREE, ONE_AT_A_TIME),
        cancel_pending_one,
        cancelled("scancel of a pending array task", slow=True),
    ),
    "cancel running": (
        (HANGS,),
        cancel_running,
        cancelled("scancel of a running job", names="CANCELLED AT", slow=True),
    ),
    "time limit in setup": (
        (f"shape.seed={node.PASS}", "cluster.setup=['sleep 600']"),
        end_in_setup,
        timeout("time limit without SLURM's warning", names="DUE TO TIME LIMIT"),
    ),
    "warning": (
        (f"shape.seed={node.HANGS},{node.PASS}", ONE_JOB),
        warn,
        timeout("time limit after SLURM's warning", names="time limit"),
    ),
    "requeue": (
        (f"shape.seed={node.PASS},{node.HANGS_ONCE}", ONE_JOB),
        requeue,
        row("requeue", "PASSED", names="REQUEUED", note="continues with its unfinished points"),
    ),
    "requeue held": (
        (HANGS,),
        requeue_held,
        row("requeue with hold", "REQUEUED", names=("held", "scontrol release")),
    ),
    "suspend": (
        (HANGS,),
        suspend,
        row("suspended", "RUNNING", names=("SUSPENDED", "scontrol resume")),
    ),
}


@pytest.fixture(scope="module")
def inject(
    slurm_cluster: SlurmCluster,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Callable[[str], Command]]:
    """Return the command of a fault, after all faults of its group were injected."""
    folder = tmp_path_factory.mktemp("job")
    names = selected(request, FAULTS)
    commands: dict[str, Command] = {}
    with contextlib.ExitStack() as stack:

        def command_of(name: str) -> Command:
            if name not in commands:
                start = names.index(name) // GROUP * GROUP
                group = names[start : start + GROUP]
                for one in group:
                    user = new_user(slurm_cluster, folder / one.replace(" ", "-"))
                    words = FAULTS[one][0]
                    verb = "sweep" if "," in words[0] else "run"
                    command = Command(user, verb, *words, *RETRIES)
                    commands[one] = stack.enter_context(command)
                for one in group:
                    FAULTS[one][1](slurm_cluster, commands[one])
            return commands[name]

        yield command_of


@pytest.mark.parametrize("name", [pytest.param(name, marks=FAULTS[name][2]) for name in FAULTS])
def test_a_job_that_is_disturbed(
    name: str, inject: Callable[[str], Command], check: Check
) -> None:
    command = inject(name)
    expected = FAULTS[name][2].args[0]
    if expected.code == 3:
        command.wait_for_output(expected.names[-1])
        output = command.interrupt()
    else:
        output = command.end()
    number = 1 if name in ("requeue", "cancel pending one") else 0
    check(command.report(number, retries=expected.retried is not None))
    assert command.process.returncode == (130 if expected.code == 3 else expected.code), output
    outcomes = [command.user.outcomes(command.ledger)[one] for one in command.point_ids()]
    if name == "cancel one":
        assert outcomes == [[], ["PASSED"], ["PASSED"]]
    if name == "cancel pending one":
        assert outcomes == [[], [], ["PASSED"]]
    if name == "warning":
        second = command.report(1)
        assert (second.state, second.cause) == ("ERROR", "timeout")
    if name == "requeue":
        finished, repeated = command.point_ids()
        attempts = command.ledger.root.glob(f"{command.job()}/p-*/attempt-*")
        assert sorted(f"{path.parent.name} {path.name}" for path in attempts) == sorted(
            [f"{finished} attempt-1", f"{repeated} attempt-1", f"{repeated} attempt-2"]
        )
        identities = [record["identity"] for record in command.user.records(command.ledger)]
        restarts = {one["point_id"]: one["restart_count"] for one in identities}
        assert restarts == {finished: 0, repeated: 1}


@row("the job's folder is deleted while it runs", "ERROR", Cause.lost, retried=True)
def test_a_deleted_folder(slurm_user: SlurmUser, check: Check) -> None:
    words = (HANGS, "launch.point_time_limit_s=3")
    with Command(slurm_user, "run", *words, *RETRIES) as command:
        job = command.started_job(0)
        shutil.rmtree(command.ledger.root / job)
        job = command.started_job(1)
        assert command.excluded_nodes(1)
        shutil.rmtree(command.ledger.root / job)
        command.end()
        check(command.report(retries=True))


@cancelled("scancel of a pending array task, without accounting", slow=True)
def test_a_pending_task_is_cancelled_without_accounting(
    slurm_user: SlurmUser, check: Check
) -> None:
    slurm_user.wrap("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1")
    with Command(slurm_user, "sweep", THREE, ONE_AT_A_TIME, *RETRIES) as command:
        job = command.started_job()
        command.query_status()  # records that it is pending
        slurm_user.cluster.run("scancel", f"{job}_1")
        command.wait_for_output("[1/3]")
        slurm_user.cluster.run("scancel", f"{job}_0")
        command.end()
        check(command.report(1, retries=True))
    outcomes = slurm_user.outcomes(command.ledger)
    assert [outcomes[one] for one in command.point_ids()] == [[], [], ["PASSED"]]
