"""Faults that keep a job from starting: what it waits for, and what failed before a point."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from jobs.record import Cause
from tests.builders.programs import write_program
from tests.faults.background import RETRIES, Command, new_user, selected
from tests.faults.matrix import Check, Part, fault
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.launching import SlurmUser
from tests.slurm_cluster.slurm import SlurmCluster

pytestmark = pytest.mark.slurm

row = partial(fault, Part.job)
not_launched = partial(fault, Part.job, reported="ERROR", cause=Cause.launch_failed, retried=True)
not_imported = partial(fault, Part.job, reported="ERROR", cause=Cause.import_error, retried=False)

PASS = f"shape.seed={node.PASS}"
# Reports an old version: a real one is not available everywhere.
OLD_PYTHON = """import runpy, sys
sys.version_info = (3, 9, 18)
runpy.run_module(sys.argv[3], run_name="__main__")"""


def interpreter(user: SlurmUser, script: str, program: str, mode: int = 0o755) -> str:
    """Write an interpreter and return the word that selects it."""
    path = write_program(user.folder / "interpreter", script, program)
    path.chmod(mode)
    return f"cluster.python={path}"


STARTS: dict[str, tuple[Callable[[SlurmUser], str], pytest.MarkDecorator]] = {
    "setup": (
        lambda user: "cluster.setup=['true','module load nothing']",
        not_launched("a setup line fails", names="module load nothing"),
    ),
    "path": (
        lambda user: "cluster.setup=['unset PATH HOME']",
        not_launched(
            "a setup line unsets PATH", names="srun: No such file or directory", slow=True
        ),
    ),
    "none": (
        lambda user: "cluster.python=/nowhere/python",
        not_launched(
            "the interpreter does not exist on the node", names=("127", "/nowhere/python")
        ),
    ),
    "text": (
        lambda user: interpreter(user, "no program", "/bin/sh", 0o644),
        not_launched(
            "the interpreter cannot be executed", names=("126", "/interpreter"), slow=True
        ),
    ),
    "old": (
        lambda user: interpreter(user, OLD_PYTHON, f"{sys.executable} -sS"),
        not_imported(
            "the interpreter is too old",
            names=("3.11", "3.9.18"),
            note="an interpreter that reports this version",
        ),
    ),
    "bare": (
        lambda user: interpreter(user, f'exec {sys.executable} -s -S "$@"', "/bin/bash"),
        not_imported(
            "the interpreter has neither pydantic nor torch",
            names="ModuleNotFoundError: No module named 'pydantic'",
            slow=True,
        ),
    ),
}


@pytest.fixture(scope="module")
def commands(
    slurm_cluster: SlurmCluster,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[dict[str, Command]]:
    """A command that waits and retries, for each job that cannot start."""
    folder = tmp_path_factory.mktemp("start")
    with contextlib.ExitStack() as stack:
        running = {}
        for name in selected(request, STARTS):
            user = new_user(slurm_cluster, folder / name)
            command = Command(user, "run", STARTS[name][0](user), PASS, *RETRIES)
            running[name] = stack.enter_context(command)
        yield running


@pytest.mark.parametrize("name", [pytest.param(name, marks=STARTS[name][1]) for name in STARTS])
def test_a_job_that_cannot_start(name: str, commands: dict[str, Command], check: Check) -> None:
    command = commands[name]
    command.end()
    assert command.process.returncode == 1
    report = command.report(retries=True)
    check(report)
    if report.retried:
        assert command.excluded_nodes(1)


WAITS = {
    "user": ("JobHeldUser", "scontrol release {job}", "held by its user"),
    "admin": ("JobHeldAdmin", "scancel {job}", "held by an administrator"),
    "dependency": (
        "DependencyNeverSatisfied",
        "scontrol update jobid={job}",
        "a dependency that is never satisfied",
    ),
}


@pytest.fixture(scope="module")
def waiting(
    slurm_cluster: SlurmCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Command]]:
    """A command that waits, for each job that will not start by itself."""
    folder = tmp_path_factory.mktemp("wait")
    before = slurm_cluster.run("sbatch", "--parsable", "-o", "/dev/null", "--wrap", "sleep 99")
    words = {
        "user": "+cluster.sbatch.hold=''",
        "admin": "+cluster.sbatch.begin=now+1hour",
        "dependency": f"cluster.dependency=afterok:{before}",
    }
    with contextlib.ExitStack() as stack:
        running = {
            name: stack.enter_context(
                Command(new_user(slurm_cluster, folder / name), "run", word, PASS, *RETRIES)
            )
            for name, word in words.items()
        }
        slurm_cluster.run("scontrol", "hold", running["admin"].job())
        running["dependency"].job()
        slurm_cluster.run("scancel", before)
        yield running


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=row(what, "PENDING", names=(reason, remedy.partition("{job}")[0].strip()))
        )
        for name, (reason, remedy, what) in WAITS.items()
    ],
)
def test_a_job_that_waits_for_somebody(
    name: str, waiting: dict[str, Command], check: Check
) -> None:
    command = waiting[name]
    reason, remedy, _ = WAITS[name]
    job = command.job()
    remedy = remedy.format(job=job)
    command.wait_for_output(reason)
    assert remedy in command.interrupt()
    assert command.process.returncode == 130
    assert command.user.cluster.run("squeue", "-h", "-j", job, "-o", "%T") == "PENDING"
    check(command.report())
    assert remedy in command.user.run("status").stdout


def wait_for_reason(cluster: SlurmCluster, job: str, reason: str) -> None:
    """Wait until SLURM gives a reason for a job's state."""
    query = ("squeue", "-h", "-t", "all", "-j", job, "-o", "%r")
    cluster.wait(lambda: cluster.run(*query) == reason, f"{reason} of {job}")


@not_launched("the folder of sweeps is missing on the node", names="JobLaunchFailure", slow=True)
def test_a_node_without_the_folder_of_sweeps(
    slurm_cluster: SlurmCluster, tmp_path: Path, check: Check
) -> None:
    # One machine plays all nodes: the folder is missing while only the node looks for it.
    user = new_user(slurm_cluster, tmp_path / "user")
    with Command(user, "run", "+cluster.sbatch.hold=''", PASS, *RETRIES) as command:
        for number in range(2):
            job = command.job(number)
            command.process.send_signal(signal.SIGSTOP)
            user.runs.rename(tmp_path / "away")
            slurm_cluster.run("scontrol", "release", job)
            wait_for_reason(slurm_cluster, job, "JobLaunchFailure")
            (tmp_path / "away").rename(user.runs)
            command.process.send_signal(signal.SIGCONT)
        command.end()
        check(command.report(retries=True))
        assert command.excluded_nodes(1)


@row("neither PATH nor HOME is set where it is submitted", "PASSED", slow=True)
def test_an_environment_without_path_or_home(
    slurm_user: SlurmUser, monkeypatch: pytest.MonkeyPatch, check: Check
) -> None:
    bare = {k: v for k, v in slurm_user.environment().items() if k not in ("PATH", "HOME")}
    monkeypatch.setattr(slurm_user, "environment", lambda: bare)
    seed = f"shape.seed={node.WRITES_ENVIRONMENT}"
    with Command(slurm_user, "run", seed, "wait=true") as command:
        output = command.end()
        assert command.process.returncode == 0, output
        check(command.report())
    (path,) = command.ledger.root.glob("*/p-*/attempt-1/environment.json")
    assert os.environ["PATH"] not in path.read_text()
