"""Two commands at once, and commands killed on this machine: nothing is lost or half written."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from jobs.errors import SweepLocked
from jobs.schedulers.lock import submitting
from jobs.sweeps.ledger import latest, sweeps
from tests.builders.ledger import passed_sweep
from tests.faults.matrix import Check, Part, Place, Report, fault
from tests.faults.reports import points_table
from tests.launcher import Launcher
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.launching import FAST, ROOT, install_stand_in

row = partial(fault, Part.around, reported="PASSED", place=Place.machine)


@contextlib.contextmanager
def running(launcher: Launcher, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command in a process of its own and kill it at the end of the block."""
    places = (f"runs_dir={launcher.runs_dir}", f"results_dir={launcher.results_dir}")
    with subprocess.Popen(
        [sys.executable, str(ROOT / "launch.py"), *words, *places],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until(ready: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait for a moment of a running command."""
    deadline = time.monotonic() + 40
    while not ready():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.001)


def outcomes(launcher: Launcher) -> list[str]:
    return [record.outcome.value for record in launcher.records()]


@row("a sweep on this machine is killed")
def test_a_local_sweep_is_killed(launcher: Launcher, check: Check, tmp_path: Path) -> None:
    words = (f"cluster.python={install_stand_in(tmp_path)}", *FAST)
    seeds = f"shape.seed={node.PASS},{100 + node.SLOW_PASS},{200 + node.PASS}"
    started = "s-*/*/p-*/attempt-1/started.json"
    with running(launcher, "sweep", *words, seeds) as process:
        wait_until(lambda: len(list(launcher.runs_dir.glob(started))) == 2, process)
        ledger = latest(launcher.runs_dir)
        with pytest.raises(SweepLocked), submitting(ledger):
            raise AssertionError
        process.kill()
    assert outcomes(launcher) == ["PASSED"]
    assert launcher("resume").code == 0
    assert outcomes(launcher) == ["PASSED"] * 3
    again = launcher("resume")
    assert outcomes(launcher) == ["PASSED"] * 3
    check(Report("PASSED", again.out, code=again.code))


@row("two sweeps at once", slow=True)
def test_two_sweeps(launcher: Launcher, check: Check, tmp_path: Path) -> None:
    words = (f"cluster.python={install_stand_in(tmp_path)}", *FAST, "shape.seed=100,200")
    with running(launcher, "sweep", *words) as one, running(launcher, "sweep", *words) as other:
        output = [process.communicate(timeout=50)[0] for process in (one, other)]
    assert (one.returncode, other.returncode) == (0, 0), output
    assert len(sweeps(launcher.runs_dir)) == 2
    assert outcomes(launcher) == ["PASSED"] * 4
    done = launcher("collect", "latest", "report=false")
    check(_report(launcher, done.code))


def _report(launcher: Launcher, code: int) -> Report:
    states = {row["state"] for row in points_table(launcher.results_dir).values()}
    return Report(" ".join(states), code=code)


def _files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@row("two collects at once", slow=True)
def test_two_collects(launcher: Launcher, check: Check) -> None:
    passed_sweep(launcher.runs_dir)
    collect = ("collect", "latest")
    with running(launcher, *collect) as one, running(launcher, *collect) as other:
        output = [process.communicate(timeout=50)[0] for process in (one, other)]
    assert (one.returncode, other.returncode) == (0, 0), output
    (folder,) = launcher.results_dir.iterdir()
    assert not [path for path in folder.rglob(".*")]
    before = _files(folder)
    done = launcher(*collect)
    assert _files(folder) == before
    check(_report(launcher, done.code))


STAGES: dict[str, Callable[[Path], bool]] = {
    "its folder is created": lambda folder: folder.is_dir(),
    "its records are copied": lambda folder: bool(list(folder.glob("jobs/14/*/*/record.json"))),
    "its table is written": lambda folder: (folder / "points.json").is_file(),
    "its first plot is drawn": lambda folder: bool(list(folder.glob("plots/*.svg"))),
}


@pytest.mark.parametrize(
    "stage",
    [
        pytest.param(stage, marks=row(f"collect is killed when {stage}", slow=True))
        for stage in STAGES
    ],
)
def test_collect_is_killed(stage: str, launcher: Launcher, check: Check) -> None:
    ledger = passed_sweep(launcher.runs_dir).ledger
    folder = launcher.results_dir / ledger.sweep_id
    with running(launcher, "collect", "latest") as process:
        wait_until(lambda: STAGES[stage](folder), process)
        process.kill()
    done = launcher("collect", "latest")
    files = {name: data for name, data in _files(folder).items() if not name.endswith(".part")}
    undisturbed = launcher.results_dir.parent / "undisturbed"
    launcher("collect", "latest", f"results_dir={undisturbed}")
    assert files == _files(undisturbed / ledger.sweep_id)
    check(_report(launcher, done.code))
