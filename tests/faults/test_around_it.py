"""Faults around the jobs: the controller, accounting, and what the scheduler has forgotten."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from jobs.record import Cause
from jobs.schedulers.slurm import commands
from jobs.sweeps.ledger import Ledger
from tests.faults.fixtures import Tell
from tests.faults.matrix import Part, Place, Told, fault
from tests.faults.telling import told_of
from tests.launcher import Launcher
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.daemons import missing_requirement
from tests.slurm_cluster.fixtures import enter
from tests.slurm_cluster.launching import FAST, SlurmUser
from tests.slurm_cluster.slurm import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("own-cluster")]


@dataclass
class Sweep:
    """A sweep of three points: one PASSED, one cancelled as it ran, one running."""

    user: SlurmUser
    ledger: Ledger

    @property
    def cluster(self) -> SlurmCluster:
        return self.user.cluster

    def point(self, act: int) -> str:
        """The point that acts so."""
        (found,) = [p.point_id for p in self.ledger.plan() if p.config["shape"]["seed"] == act]
        return found

    @property
    def cancelled(self) -> str:
        return self.point(100 + node.HANGS)

    @property
    def runs(self) -> str:
        return self.point(200 + node.HANGS)


def _sweep(user: SlurmUser) -> Sweep:
    seeds = f"shape.seed={node.PASS},{100 + node.HANGS},{200 + node.HANGS}"
    _, ledger = user.sweep(seeds, "launch.time_min=9")
    made = Sweep(user, ledger)
    started = "*/p-*/attempt-*/started.json"
    user.cluster.wait(lambda: len(list(ledger.root.glob(started))) == 3, "three started points")
    (line,) = ledger.jobs()
    user.cluster.run("scancel", f"{line.job_id}_1")
    listing = ("squeue", "-h", "-r", "-j", line.job_id, "-o", "%K %T")
    user.cluster.wait(lambda: user.cluster.run(*listing) == "2 RUNNING", "one that runs")
    return made


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sweep]:
    """On a cluster of its own, with accounting."""
    if reason := missing_requirement():
        pytest.skip(reason)
    with SlurmCluster(message_timeout_s=3) as cluster:
        yield _sweep(SlurmUser(cluster, tmp_path_factory.mktemp("around")))


@pytest.fixture
def own(sweep: Sweep) -> Iterator[Sweep]:
    """The sweep, whose user's commands are the real ones again afterwards."""
    yield sweep
    sweep.user.env.clear()
    shutil.rmtree(sweep.user.folder / "bin", ignore_errors=True)


# ---- accounting ----

WRAPPED = {
    "sacct hangs": 'sleep 50; exec "$REAL" "$@"',
    "sacct lags: it does not know the job yet": "exit 0",
    "sacct prints what it never printed before": r"printf '\xff|\x1b[2J|RUNNING||\n|||||||\n'",
}


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(
            script,
            marks=fault(
                Part.around,
                name,
                told="ERROR",
                cause=Cause.cancelled,
                quotes="CANCELLED",
                code=1,
                place=Place.slurm,
            ),
            id=name.partition(":")[0],
        )
        for name, script in WRAPPED.items()
    ],
)
def test_sacct(
    script: str,
    own: Sweep,
    tell: Tell,
    launcher: Launcher,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert commands.call.__kwdefaults__ is not None
    monkeypatch.setitem(commands.call.__kwdefaults__, "time_limit_s", 2.0)
    own.user.wrap("sacct", script)
    enter(own.cluster, monkeypatch)
    monkeypatch.setenv("PATH", own.user.environment()["PATH"])
    shown = launcher("status", own.cancelled, f"runs_dir={own.user.runs}")
    assert shown.code == 0, shown.err
    if "sleep" in script:
        assert "sacct did not answer within 2 s" in shown.out
    tell(_told_in_process(launcher, own, own.cancelled))


def _told_in_process(launcher: Launcher, own: Sweep, point_id: str) -> Told:
    done = launcher("collect", point_id, f"runs_dir={own.user.runs}", "report=false")
    shown = launcher("status", point_id, f"runs_dir={own.user.runs}")
    (line,) = [line for line in shown.out.splitlines() if line.startswith(point_id)]
    words = line.split()
    state = next(word for word in words if word in ("ERROR", "RUNNING", "PENDING", "PASSED"))
    causes = {cause.value for cause in Cause}
    cause = next((word for word in words if word in causes), None)
    return Told(state, done.out + done.err + shown.out + shown.err, cause, code=done.code)


@fault(
    Part.around,
    "sacct is not on the PATH",
    told="ERROR",
    cause=Cause.cancelled,
    quotes="sacct is not installed here",
    code=1,
)
def test_sacct_is_missing(own: Sweep, tell: Tell) -> None:
    folder = own.user.folder / "bin"
    folder.mkdir()
    path = own.cluster.env["PATH"]
    for name in ("sbatch", "squeue", "scontrol", "sinfo", "scancel", "git", "sacctmgr"):
        (folder / name).symlink_to(str(shutil.which(name, path=path)))
    own.user.env["PATH"] = str(folder)
    screen = own.user.run("status", own.cancelled).stdout
    tell(told_of(own.user, own.ledger, own.cancelled, screen=screen))


@fault(
    Part.around,
    "slurmdbd is down",
    told="ERROR",
    cause=Cause.cancelled,
    quotes="sacct does not answer",
    code=1,
    slow=True,
)
def test_accounting_is_down(own: Sweep, tell: Tell) -> None:
    own.cluster.kill_daemon("slurmdbd")
    try:
        screen = own.user.run("status", own.cancelled).stdout
        told = told_of(own.user, own.ledger, own.cancelled, screen=screen)
    finally:
        own.cluster.start_daemon("slurmdbd")
        own.cluster.wait(lambda: _answers(own.cluster, "sacct", "-n"), "slurmdbd")
    tell(told)


def _answers(cluster: SlurmCluster, *command: str) -> bool:
    done = subprocess.run(command, env=cluster.env, capture_output=True, timeout=30, check=False)
    return done.returncode == 0


# ---- the controller ----

DOWN = {
    "plan": fault(
        Part.around,
        "slurmctld is down at plan",
        told="PLANNED",
        quotes="the cluster cannot be asked for its limits",
        code=0,
        slow=True,
    ),
    "sweep": fault(
        Part.around,
        "slurmctld is down at submission",
        told="refused",
        quotes="the cluster cannot be asked for its limits",
        code=2,
        slow=True,
        note="nothing stays",
    ),
    "status": fault(
        Part.around,
        "slurmctld is down at status",
        told="RUNNING",
        quotes="s ago is shown",
        code=0,
        slow=True,
    ),
    "collect": fault(
        Part.around,
        "slurmctld is down at collect",
        told="RUNNING",
        quotes="squeue does not answer",
        code=3,
        slow=True,
    ),
    "resume": fault(
        Part.around,
        "slurmctld is down at resume",
        told="refused",
        quotes="the cluster cannot be asked for its limits",
        code=2,
        slow=True,
    ),
    "cancel": fault(
        Part.around,
        "slurmctld is down at cancel",
        told="refused",
        quotes="scancel",
        code=2,
        slow=True,
    ),
}


@pytest.fixture(scope="module")
def said_without_controller(sweep: Sweep) -> dict[str, subprocess.CompletedProcess[str]]:
    """What each command says while slurmctld is down; all at once, for each waits for it."""
    user = sweep.user
    assert user.run("status", sweep.runs).returncode == 0  # it has been seen once
    site = ("cluster=slurm", f"cluster.python={user.node}", *FAST)
    words = {
        "plan": ("plan", *site),
        "sweep": ("sweep", *site, f"runs_dir={user.folder / 'other'}"),
        "status": ("status", sweep.runs),
        "collect": ("collect", sweep.runs, f"results_dir={user.folder / 'down'}"),
        "resume": ("resume", sweep.ledger.sweep_id),
        "cancel": ("cancel", sweep.runs, "yes=true"),
    }
    sweep.cluster.kill_daemon("slurmctld")
    try:
        with ThreadPoolExecutor(len(words)) as pool:
            said = dict(
                zip(words, pool.map(lambda one: _typed(user, one), words.values()), strict=True)
            )
    finally:
        sweep.cluster.start_daemon("slurmctld")
        sweep.cluster.wait(lambda: _answers(sweep.cluster, "sinfo", "-h"), "slurmctld")
    return said


def _typed(user: SlurmUser, words: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    verb, *rest = words
    command = user.words(verb, *rest)
    if any(word.startswith("runs_dir=") for word in rest):
        command = command[:-1]
    return subprocess.run(
        command, cwd=user.cwd, env=user.environment(), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=55, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("verb", [pytest.param(verb, marks=row) for verb, row in DOWN.items()])
def test_the_controller_is_down(
    verb: str,
    sweep: Sweep,
    said_without_controller: dict[str, subprocess.CompletedProcess[str]],
    tell: Tell,
) -> None:
    done = said_without_controller[verb]
    text = done.stdout + done.stderr
    assert "Traceback" not in text, text
    told = "refused" if done.returncode == 2 else "RUNNING" if " RUNNING" in text else "PLANNED"
    other = sweep.user.folder / "other"
    left = len(os.listdir(other)) if other.is_dir() else 0
    tell(Told(told, text, code=done.returncode, lost=left))


# ---- what the scheduler has forgotten: last, for it forgets everything ----


@fault(
    Part.around,
    "squeue has purged the job",
    told="ERROR",
    cause=Cause.cancelled,
    quotes="CANCELLED",
    code=1,
    slow=True,
    note="MinJobAge is over: Invalid job id specified",
)
def test_squeue_has_forgotten(own: Sweep, tell: Tell) -> None:
    (line,) = own.ledger.jobs()
    own.cluster.run("scancel", line.job_id)
    own.user.wait(own.ledger)
    conf = own.cluster.slurm_conf
    conf.write_text(conf.read_text().replace("MinJobAge=300", "MinJobAge=2"))
    own.cluster.run("scontrol", "reconfigure")
    listing = ("squeue", "-h", "-t", "all", "-j", line.job_id)
    own.cluster.wait(lambda: not _answers(own.cluster, *listing), "squeue to forget", 50)
    tell(told_of(own.user, own.ledger, own.cancelled))
