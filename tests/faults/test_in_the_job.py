"""Faults of a job that runs, or was to run: it ends before its points do, or begins again."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator

import pytest

from jobs.record import Cause
from tests.faults.background import WAITS, Command, chosen, new_user
from tests.faults.fixtures import Tell
from tests.faults.matrix import Part, fault
from tests.faults.telling import told_of
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.launching import SlurmUser
from tests.slurm_cluster.slurm import SlurmCluster

pytestmark = pytest.mark.slurm

HANGS = f"shape.seed={node.HANGS}"
THEN_PASSES = (f"shape.seed={node.HANGS},{node.PASS}", "launch.points_per_job=2")
ONCE_AND_PASSES = (f"shape.seed={node.PASS},{node.HANGS_ONCE}", "launch.points_per_job=2")

GROUP = 5
"""Faults that are injected together: more at once overload two cores."""

Act = Callable[[SlurmCluster, Command], None]


def ended(
    name: str, cause: Cause, quotes: str, *, retried: bool = False, slow: bool = True
) -> pytest.MarkDecorator:
    """A row of a job that was ended from outside."""
    return fault(
        Part.job,
        name,
        told="ERROR",
        cause=cause,
        quotes=quotes,
        retried=retried,
        code=1,
        slow=slow,
    )


def cancel_one(cluster: SlurmCluster, command: Command) -> None:
    cluster.run("scancel", f"{command.begun()}_0")


def cancel_waiting_one(cluster: SlurmCluster, command: Command) -> None:
    """SLURM keeps no row of it, for others of its array wait still."""
    job = command.begun()
    cluster.run("scancel", f"{job}_1")
    cluster.run("scancel", f"{job}_0")


def cancel_pending(cluster: SlurmCluster, command: Command) -> None:
    cluster.run("scancel", command.job())


def cancel_running(cluster: SlurmCluster, command: Command) -> None:
    cluster.run("scancel", command.begun())


def time_is_up_in_setup(cluster: SlurmCluster, command: Command) -> None:
    """The warning goes to steps, and there is none yet."""
    cluster.run("scontrol", "update", f"jobid={command.queued('RUNNING')}", "EndTime=now+1")


def warn(cluster: SlurmCluster, command: Command) -> None:
    cluster.run("scancel", "--signal=USR2", command.begun())


def requeue(cluster: SlurmCluster, command: Command) -> None:
    """When the job has come to its second point."""
    cluster.run("scontrol", "requeue", command.begun(attempts=2))
    command.queued("PENDING")
    command.look()


def requeue_held(cluster: SlurmCluster, command: Command) -> None:
    cluster.run("scontrol", "requeuehold", command.begun())


def suspend(cluster: SlurmCluster, command: Command) -> None:
    cluster.run("scontrol", "suspend", command.begun())


FAULTS: dict[str, tuple[tuple[str, ...], Act, pytest.MarkDecorator]] = {
    "cancel pending": (
        (f"shape.seed={node.PASS}", "+cluster.sbatch.begin=now+1hour"),
        cancel_pending,
        ended("scancel while it waits", Cause.cancelled, "CANCELLED by ", slow=False),
    ),
    "cancel one": (
        (f"shape.seed={node.HANGS},{node.PASS},{node.SLOW_PASS}",),
        cancel_one,
        ended("scancel of one array element", Cause.cancelled, "CANCELLED AT ", slow=False),
    ),
    "cancel one that waits": (
        (f"shape.seed={node.HANGS},{node.PASS},{node.SLOW_PASS}", "launch.max_parallel=1"),
        cancel_waiting_one,
        ended("scancel of one array element that waits", Cause.cancelled, "it never started"),
    ),
    "cancel running": (
        (HANGS,),
        cancel_running,
        ended("scancel while it runs", Cause.cancelled, "CANCELLED AT "),
    ),
    "time limit in setup": (
        (f"shape.seed={node.PASS}", "cluster.setup=['sleep 600']"),
        time_is_up_in_setup,
        ended("time limit, without a warning", Cause.timeout, "DUE TO TIME LIMIT"),
    ),
    "warning": (
        THEN_PASSES,
        warn,
        ended(
            "time limit, after SLURM's warning",
            Cause.timeout,
            "the scheduler warned that its job's time limit was near",
        ),
    ),
    "requeue": (
        ONCE_AND_PASSES,
        requeue,
        fault(
            Part.job,
            "requeue",
            told="PASSED",
            quotes="REQUEUED",
            code=0,
            slow=True,
            note="it goes on with what it has not finished",
        ),
    ),
    "requeue held": (
        (HANGS,),
        requeue_held,
        fault(
            Part.job,
            "requeued, and held",
            told="REQUEUED",
            quotes="job requeued in held state: scontrol release ",
            code=3,
            slow=True,
        ),
    ),
    "suspend": (
        (HANGS,),
        suspend,
        fault(
            Part.job,
            "suspended",
            told="RUNNING",
            quotes="SUSPENDED: scontrol resume ",
            code=3,
            slow=True,
        ),
    ),
}


@pytest.fixture(scope="module")
def injected(
    slurm_cluster: SlurmCluster,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Callable[[str], Command]]:
    """Gives the command of a fault, after all faults of its group were injected together."""
    folder = tmp_path_factory.mktemp("job")
    names = chosen(request, FAULTS)
    commands: dict[str, Command] = {}
    with contextlib.ExitStack() as stack:

        def inject(name: str) -> Command:
            if name not in commands:
                at = names.index(name) // GROUP * GROUP
                for one in names[at : at + GROUP]:
                    user = new_user(slurm_cluster, folder / one.replace(" ", "-"))
                    words = FAULTS[one][0]
                    verb = "sweep" if "," in words[0] else "run"
                    command = Command(user, verb, *words, *WAITS)
                    commands[one] = stack.enter_context(command)
                for one in names[at : at + GROUP]:
                    FAULTS[one][1](slurm_cluster, commands[one])
            return commands[name]

        yield inject


@pytest.mark.parametrize("name", [pytest.param(name, marks=FAULTS[name][2]) for name in FAULTS])
def test_a_job_that_is_ended_from_outside(
    name: str, injected: Callable[[str], Command], tell: Tell
) -> None:
    command = injected(name)
    row = FAULTS[name][2].args[0]
    if row.code == 3:
        command.says("Waits: 1 point, ")
        screen = command.interrupt()
    else:
        screen = command.end()
    points = command.ledger.plan()
    told = told_of(
        command.user,
        command.ledger,
        points[1 if name in ("requeue", "cancel one that waits") else 0].point_id,
        screen=screen + command.seen,
        retries=row.retried is not None,
    )
    tell(told)
    assert command.process.returncode == (130 if row.code == 3 else row.code), screen
    if name == "cancel one":
        outcomes = command.user.outcomes(command.ledger)
        assert [outcomes[point.point_id] for point in points] == [[], ["PASSED"], ["PASSED"]]
    if name == "cancel one that waits":
        outcomes = command.user.outcomes(command.ledger)
        assert [outcomes[point.point_id] for point in points] == [[], [], ["PASSED"]]
    if name == "warning":
        assert "not started: its job's time limit came first" in screen
    if name == "requeue":
        done, again = (point.point_id for point in points)
        attempts = command.ledger.root.glob(f"{command.job()}/p-*/attempt-*")
        assert sorted(f"{path.parent.name} {path.name}" for path in attempts) == sorted(
            [f"{done} attempt-1", f"{again} attempt-1", f"{again} attempt-2"]
        )
        records = command.user.records(command.ledger)
        counts = {one["identity"]["point_id"]: one["identity"]["restart_count"] for one in records}
        assert (counts[done], counts[again]) == (0, 1)


@ended(
    "the job's folder is deleted while it runs",
    Cause.lost,
    "the job's folder is gone",
    retried=True,
)
def test_a_folder_that_is_deleted(slurm_user: SlurmUser, tell: Tell) -> None:
    words = (HANGS, "launch.point_time_limit_s=3")
    with Command(slurm_user, "run", *words, *WAITS) as command:
        for number in range(2):  # of the job, and of the one that is submitted in its place
            job = command.begun(number)
            shutil.rmtree(command.ledger.root / job)
        screen = command.end()
        (point,) = command.ledger.plan()
        tell(told_of(slurm_user, command.ledger, point.point_id, screen=screen, retries=True))
    assert "Again: 1 point that the cluster ended, not on n" in screen


@ended(
    "scancel of one array element that waits, without accounting",
    Cause.cancelled,
    "it never started",
)
def test_one_that_waits_is_cancelled_without_accounting(slurm_user: SlurmUser, tell: Tell) -> None:
    slurm_user.wrap("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1")
    words = (f"shape.seed={node.HANGS},{node.PASS},{node.SLOW_PASS}", "launch.max_parallel=1")
    with Command(slurm_user, "sweep", *words, *WAITS) as command:
        job = command.begun()
        command.look()  # it is seen as it waits
        slurm_user.cluster.run("scancel", f"{job}_1")
        command.says("[1/3]")
        slurm_user.cluster.run("scancel", f"{job}_0")
        screen = command.end()
        cancelled, waiting, last = (point.point_id for point in command.ledger.plan())
        tell(told_of(slurm_user, command.ledger, waiting, screen=screen, retries=True))
    outcomes = slurm_user.outcomes(command.ledger)
    assert [outcomes[one] for one in (cancelled, waiting, last)] == [[], [], ["PASSED"]]
