"""Faults around the jobs: the controller, accounting, and what the scheduler has forgotten."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import pytest

from jobs.record import Cause
from jobs.schedulers.slurm import commands
from jobs.sweeps.ledger import Ledger
from tests.faults.matrix import REFUSED, Check, Part, Report, fault
from tests.faults.reports import report_of
from tests.launcher import Launcher
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.daemons import missing_requirement
from tests.slurm_cluster.fixtures import enter
from tests.slurm_cluster.launching import SlurmUser
from tests.slurm_cluster.slurm import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("own-cluster")]

cancelled = partial(fault, Part.around, reported="ERROR", cause=Cause.cancelled)


@dataclass
class Sweep:
    """A sweep of three points: one PASSED, one cancelled while it ran, one running."""

    user: SlurmUser
    ledger: Ledger

    @classmethod
    def submit(cls, user: SlurmUser) -> Sweep:
        """Submit the sweep and wait until its points have their states."""
        seeds = f"shape.seed={node.PASS},{100 + node.HANGS},{200 + node.HANGS}"
        _, ledger = user.sweep(seeds, "launch.time_min=9")
        started = "*/p-*/attempt-*/started.json"
        user.cluster.wait(
            lambda: len(list(ledger.root.glob(started))) == 3, "three started points"
        )
        (line,) = ledger.jobs()
        user.cluster.run("scancel", f"{line.job_id}_1")
        listing = ("squeue", "-h", "-r", "-j", line.job_id, "-o", "%K %T")
        user.cluster.wait(lambda: user.cluster.run(*listing) == "2 RUNNING", "the running point")
        return cls(user, ledger)

    @property
    def cluster(self) -> SlurmCluster:
        return self.user.cluster

    @property
    def cancelled(self) -> str:
        return self.ledger.plan()[1].point_id

    @property
    def running(self) -> str:
        return self.ledger.plan()[2].point_id

    def report(self, *, output: str = "") -> Report:
        """Report the cancelled point."""
        return report_of(self.user, self.ledger, self.cancelled, output=output)


@pytest.fixture(scope="module")
def shared_sweep(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sweep]:
    """The sweep, on a cluster of its own with accounting."""
    if reason := missing_requirement():
        pytest.skip(reason)
    with SlurmCluster(message_timeout_s=3) as cluster:
        yield Sweep.submit(SlurmUser(cluster, tmp_path_factory.mktemp("around")))


@pytest.fixture
def sweep(shared_sweep: Sweep) -> Iterator[Sweep]:
    """The sweep, whose user gets the real commands back afterwards."""
    yield shared_sweep
    shared_sweep.user.env.clear()
    shutil.rmtree(shared_sweep.user.folder / "bin", ignore_errors=True)


# ---- accounting ----

HANGS = 'sleep 50; exec "$REAL" "$@"'
SCRIPTS = {
    "sacct hangs": HANGS,
    "sacct lags: it does not know the job yet": "exit 0",
    "sacct prints an unknown format": r"printf '\xff|\x1b[2J|RUNNING||\n|||||||\n'",
}


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(script, marks=cancelled(name, names="CANCELLED"), id=name.partition(":")[0])
        for name, script in SCRIPTS.items()
    ],
)
def test_sacct(
    script: str,
    sweep: Sweep,
    check: Check,
    launcher: Launcher,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert commands.call.__kwdefaults__ is not None
    monkeypatch.setitem(commands.call.__kwdefaults__, "time_limit_s", 2.0)
    sweep.user.wrap("sacct", script)
    enter(sweep.cluster, monkeypatch)
    monkeypatch.setenv("PATH", sweep.user.environment()["PATH"])
    words = (sweep.cancelled, f"runs_dir={sweep.user.runs}")
    shown = launcher("status", *words)
    assert shown.code == 0, shown.err
    if script == HANGS:
        assert "2 s" in shown.out
    done = launcher("collect", *words, "report=false")
    (line,) = [line for line in shown.out.splitlines() if line.startswith(sweep.cancelled)]
    state = next(word for word in line.split() if word.isupper())
    cause = next((word for word in line.split() if word in {one.value for one in Cause}), None)
    check(Report(state, done.out + done.err + shown.out + shown.err, cause, code=done.code))


@cancelled("sacct is not on the PATH", names="sacct")
def test_sacct_is_missing(sweep: Sweep, check: Check) -> None:
    folder = sweep.user.folder / "bin"
    folder.mkdir()
    path = sweep.cluster.env["PATH"]
    for name in ("sbatch", "squeue", "scontrol", "sinfo", "scancel", "git", "sacctmgr"):
        (folder / name).symlink_to(str(shutil.which(name, path=path)))
    sweep.user.env["PATH"] = str(folder)
    check(sweep.report(output=sweep.user.run("status", sweep.cancelled).stdout))


@cancelled("slurmdbd is down", names="sacct", slow=True)
def test_accounting_is_down(sweep: Sweep, check: Check) -> None:
    sweep.cluster.kill_daemon("slurmdbd")
    try:
        report = sweep.report(output=sweep.user.run("status", sweep.cancelled).stdout)
    finally:
        sweep.cluster.start_daemon("slurmdbd")
        sweep.cluster.wait(lambda: _answers(sweep.cluster, "sacct", "-n"), "slurmdbd")
    check(report)


def _answers(cluster: SlurmCluster, *command: str) -> bool:
    done = subprocess.run(command, env=cluster.env, capture_output=True, timeout=30, check=False)
    return done.returncode == 0


# ---- the controller ----

down = partial(fault, Part.around, slow=True)
DOWN = {
    "plan": down("slurmctld is down at plan", "PLANNED", names="slurm controller"),
    "sweep": down(
        "slurmctld is down at submission",
        REFUSED,
        names="slurm controller",
        note="no sweep is left",
    ),
    "status": down("slurmctld is down at status", "RUNNING", names=("squeue", "s ago"), code=0),
    "collect": down("slurmctld is down at collect", "RUNNING", names="squeue"),
    "resume": down("slurmctld is down at resume", REFUSED, names="slurm controller"),
    "cancel": down("slurmctld is down at cancel", REFUSED, names="scancel"),
}


@pytest.fixture(scope="module")
def without_controller(shared_sweep: Sweep) -> dict[str, subprocess.CompletedProcess[str]]:
    """Each verb while slurmctld is down; all at once, because each waits for its answer."""
    user = shared_sweep.user
    assert user.run("status", shared_sweep.running).returncode == 0  # caches the answer
    words = {
        "plan": user.site,
        "sweep": (*user.site, f"runs_dir={user.folder / 'other'}"),
        "status": (shared_sweep.running,),
        "collect": (shared_sweep.running, f"results_dir={user.folder / 'down'}"),
        "resume": (shared_sweep.ledger.sweep_id,),
        "cancel": (shared_sweep.running, "yes=true"),
    }
    shared_sweep.cluster.kill_daemon("slurmctld")
    try:
        with ThreadPoolExecutor(len(words)) as pool:
            done = pool.map(lambda verb: user.run(verb, *words[verb]), words)
            return dict(zip(words, done, strict=True))
    finally:
        shared_sweep.cluster.start_daemon("slurmctld")
        shared_sweep.cluster.wait(
            lambda: _answers(shared_sweep.cluster, "sinfo", "-h"), "slurmctld"
        )


@pytest.mark.parametrize("verb", [pytest.param(verb, marks=mark) for verb, mark in DOWN.items()])
def test_the_controller_is_down(
    verb: str,
    shared_sweep: Sweep,
    without_controller: dict[str, subprocess.CompletedProcess[str]],
    check: Check,
) -> None:
    done = without_controller[verb]
    text = done.stdout + done.stderr
    assert "Traceback" not in text, text
    state = REFUSED if done.returncode == 2 else "RUNNING" if " RUNNING" in text else "PLANNED"
    other = shared_sweep.user.folder / "other"
    left = len(os.listdir(other)) if other.is_dir() else 0
    check(Report(state, text, code=done.returncode, lost=left))


# ---- what the scheduler has forgotten: last, because it forgets everything ----


@cancelled(
    "squeue has purged the job",
    names="CANCELLED",
    slow=True,
    note="MinJobAge is over: Invalid job id specified",
)
def test_squeue_has_forgotten(sweep: Sweep, check: Check) -> None:
    (line,) = sweep.ledger.jobs()
    sweep.cluster.run("scancel", line.job_id)
    sweep.user.wait(sweep.ledger)
    conf = sweep.cluster.slurm_conf
    conf.write_text(conf.read_text().replace("MinJobAge=300", "MinJobAge=2"))
    sweep.cluster.run("scontrol", "reconfigure")
    listing = ("squeue", "-h", "-t", "all", "-j", line.job_id)
    sweep.cluster.wait(lambda: not _answers(sweep.cluster, *listing), "squeue to forget", 50)
    check(sweep.report())
