"""Faults that keep a job from starting: what it waits for, and what failed before a point."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

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

PASS = f"shape.seed={node.PASS}"

# Says of itself that it is old: a real one is nowhere sure to be.
OLD_PYTHON = f"""#!{sys.executable} -sS
import runpy, sys
sys.version_info = (3, 9, 18)
runpy.run_module(sys.argv[3], run_name="__main__")
"""
BARE_PYTHON = f"""#!/bin/bash
exec {sys.executable} -s -S "$@"
"""


def interpreter(user: SlurmUser, text: str, mode: int = 0o755) -> str:
    """The word that names an interpreter made of a text."""
    path = user.folder / "interpreter"
    path.write_text(text)
    path.chmod(mode)
    return f"cluster.python={path}"


def never_began(
    name: str,
    cause: Cause,
    quotes: str,
    *,
    retried: bool = True,
    slow: bool = True,
    note: str = "",
) -> pytest.MarkDecorator:
    """A row of a job that ended before any point did."""
    return fault(
        Part.job,
        name,
        told="ERROR",
        cause=cause,
        quotes=quotes,
        retried=retried,
        code=1,
        slow=slow,
        note=note,
    )


STARTS: dict[str, tuple[Callable[[SlurmUser], str], pytest.MarkDecorator]] = {
    "setup": (
        lambda user: "cluster.setup=['true','module load nothing']",
        never_began(
            "a setup line fails",
            Cause.launch_failed,
            "setup line 2 failed, so the job does: module load nothing",
            slow=False,
        ),
    ),
    "path": (
        lambda user: "cluster.setup=['unset PATH HOME']",
        never_began(
            "a setup line takes PATH away",
            Cause.launch_failed,
            "srun: No such file or directory",
        ),
    ),
    "none": (
        lambda user: "cluster.python=/nowhere/python",
        never_began(
            "the interpreter is not on the node",
            Cause.launch_failed,
            "exit code 127: a program of its script, or its interpreter /nowhere/python, is",
            slow=False,
        ),
    ),
    "text": (
        lambda user: interpreter(user, "no program", 0o644),
        never_began(
            "the interpreter cannot be executed",
            Cause.launch_failed,
            "exit code 126: a program of its script, or its interpreter /",
        ),
    ),
    "old": (
        lambda user: interpreter(user, OLD_PYTHON),
        never_began(
            "the interpreter is too old",
            Cause.import_error,
            "the node's interpreter must be Python 3.11 or later, got 3.9.18",
            retried=False,
            slow=False,
            note="an interpreter that says so of itself",
        ),
    ),
    "bare": (
        lambda user: interpreter(user, BARE_PYTHON),
        never_began(
            "the interpreter has neither pydantic nor torch",
            Cause.import_error,
            "ModuleNotFoundError: No module named 'pydantic'",
            retried=False,
        ),
    ),
}


@pytest.fixture(scope="module")
def started(
    slurm_cluster: SlurmCluster,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[dict[str, Command]]:
    """A command that waits, and tries again, for each job that cannot start."""
    folder = tmp_path_factory.mktemp("start")
    with contextlib.ExitStack() as stack:
        found = {}
        for name in chosen(request, STARTS):
            user = new_user(slurm_cluster, folder / name)
            command = Command(user, "run", STARTS[name][0](user), PASS, *WAITS)
            found[name] = stack.enter_context(command)
        yield found


@pytest.mark.parametrize("name", [pytest.param(name, marks=STARTS[name][1]) for name in STARTS])
def test_a_job_that_cannot_start(name: str, started: dict[str, Command], tell: Tell) -> None:
    command = started[name]
    screen = command.end()
    assert command.process.returncode == 1
    (point,) = command.ledger.plan()
    told = told_of(command.user, command.ledger, point.point_id, screen=screen, retries=True)
    tell(told)
    if told.retried:
        assert "Again: 1 point that the cluster ended, not on n" in screen


def waits(name: str, quotes: str) -> pytest.MarkDecorator:
    """A row of a job that waits until somebody does something."""
    return fault(Part.job, name, told="PENDING", quotes=quotes, code=3)


@pytest.fixture(scope="module")
def waiting(
    slurm_cluster: SlurmCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Command]]:
    """A command that waits for each job that will not start by itself."""
    folder = tmp_path_factory.mktemp("wait")
    before = slurm_cluster.run("sbatch", "--parsable", "-o", "/dev/null", "--wrap", "sleep 99")
    words = {
        "user": "+cluster.sbatch.hold=''",
        "admin": "+cluster.sbatch.begin=now+1hour",
        "dependency": f"cluster.dependency=afterok:{before}",
    }
    with contextlib.ExitStack() as stack:
        found = {}
        for name, word in words.items():
            command = Command(new_user(slurm_cluster, folder / name), "run", word, PASS, *WAITS)
            found[name] = stack.enter_context(command)
        slurm_cluster.run("scontrol", "hold", found["admin"].job())
        found["dependency"].job()
        slurm_cluster.run("scancel", before)
        yield found


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        pytest.param(
            "user",
            "JobHeldUser: scontrol release {job} lets it start",
            marks=waits("held for ever by its user", "JobHeldUser: scontrol release "),
        ),
        pytest.param(
            "admin",
            "JobHeldAdmin: only an administrator can release it; scancel {job} gives it up",
            marks=waits(
                "held for ever by an administrator",
                "JobHeldAdmin: only an administrator can release it; scancel ",
            ),
        ),
        pytest.param(
            "dependency",
            "DependencyNeverSatisfied: scontrol update jobid={job} dependency= lets it start",
            marks=waits(
                "a dependency that is never satisfied",
                "DependencyNeverSatisfied: scontrol update jobid=",
            ),
        ),
    ],
)
def test_a_job_that_waits_for_somebody(
    name: str, remedy: str, waiting: dict[str, Command], tell: Tell
) -> None:
    command = waiting[name]
    told = remedy.format(job=command.job())
    command.says(f"Waits: 1 point, PENDING: {told}")
    assert "The jobs go on" in command.interrupt()
    assert command.process.returncode == 130
    (point,) = command.ledger.plan()
    tell(told_of(command.user, command.ledger, point.point_id))
    assert told in command.user.run("status").stdout


def wait_reason(cluster: SlurmCluster, job: str, reason: str) -> None:
    """Waits until SLURM gives a reason for a job's state."""
    asked = ("squeue", "-h", "-t", "all", "-j", job, "-o", "%r")
    cluster.wait(lambda: cluster.run(*asked) == reason, f"{reason} of {job}")


@fault(
    Part.job,
    "the runs folder is not there on the node",
    told="ERROR",
    cause=Cause.launch_failed,
    quotes="JobLaunchFailure: SLURM could not start its script",
    retried=True,
    code=1,
    slow=True,
)
def test_a_node_without_the_runs_folder(
    slurm_cluster: SlurmCluster, tmp_path: Path, tell: Tell
) -> None:
    # One machine plays all nodes: the folder is away while the node looks and nobody else does.
    user = new_user(slurm_cluster, tmp_path / "user")
    with Command(user, "run", "+cluster.sbatch.hold=''", PASS, *WAITS) as command:
        for number in range(2):
            job = command.job(number)
            command.process.send_signal(signal.SIGSTOP)
            user.runs.rename(tmp_path / "away")
            slurm_cluster.run("scontrol", "release", job)
            wait_reason(slurm_cluster, job, "JobLaunchFailure")
            (tmp_path / "away").rename(user.runs)
            command.process.send_signal(signal.SIGCONT)
        screen = command.end()
        (point,) = command.ledger.plan()
        tell(told_of(user, command.ledger, point.point_id, screen=screen, retries=True))
    assert "Again: 1 point that the cluster ended, not on n" in screen


@fault(
    Part.job,
    "neither PATH nor HOME where it is submitted",
    told="PASSED",
    quotes="1 PASSED",
    code=0,
    slow=True,
)
def test_an_environment_without_path_or_home(
    slurm_user: SlurmUser, monkeypatch: pytest.MonkeyPatch, tell: Tell
) -> None:
    bare = {key: value for key, value in slurm_user.environment().items() if key not in _TAKEN}
    monkeypatch.setattr(slurm_user, "environment", lambda: bare)
    seed = f"shape.seed={node.WRITES_ENVIRONMENT}"
    with Command(slurm_user, "run", seed, "wait=true") as command:
        screen = command.end()
        assert command.process.returncode == 0, screen
        (point,) = command.ledger.plan()
        tell(told_of(slurm_user, command.ledger, point.point_id, screen=screen))
    (path,) = command.ledger.root.glob("*/p-*/attempt-1/environment.json")
    assert os.environ["PATH"] not in path.read_text()


_TAKEN = ("PATH", "HOME")
