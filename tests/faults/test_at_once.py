"""Two at once, and what is killed on this machine: nothing is lost, nothing is half."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobs.errors import SchedulerError
from jobs.schedulers.lock import submitting
from jobs.sweeps.ledger import latest, sweeps
from tests.builders.ledger import passed_sweep
from tests.faults.fixtures import Tell
from tests.faults.matrix import Part, Place, Told, fault
from tests.launcher import Launcher
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.launching import FAST, ROOT, install_stand_in


def row(what: str, quotes: str, *, slow: bool = False) -> pytest.MarkDecorator:
    """A row of this machine that ends well."""
    return fault(
        Part.around, what, told="PASSED", quotes=quotes, code=0, place=Place.machine, slow=slow
    )


@contextlib.contextmanager
def typed(launcher: Launcher, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A command in a process of its own; killed at the end of the block if it still runs."""
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


def outcomes(launcher: Launcher) -> list[str]:
    return [record.outcome.value for record in launcher.records()]


@row("a sweep on this machine is killed", "Nothing to run")
def test_a_local_sweep_is_killed(launcher: Launcher, tell: Tell, tmp_path: Path) -> None:
    words = (f"cluster.python={install_stand_in(tmp_path)}", *FAST)
    seeds = f"shape.seed={node.PASS},{100 + node.SLOW_PASS},{200 + node.PASS}"
    with typed(launcher, "sweep", *words, seeds) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("[2/3]"):
                break
        held = latest(launcher.runs_dir)
        with pytest.raises(SchedulerError, match="another process"), submitting(held):
            raise AssertionError
        process.kill()
    assert outcomes(launcher) == ["PASSED"]
    done = launcher("resume")
    assert outcomes(launcher) == ["PASSED"] * 3
    tell(Told("PASSED", launcher("resume").out, code=done.code))


@row("two sweeps at once", "2 PASSED", slow=True)
def test_two_sweeps(launcher: Launcher, tell: Tell, tmp_path: Path) -> None:
    words = (f"cluster.python={install_stand_in(tmp_path)}", *FAST, "shape.seed=100,200")
    with typed(launcher, "sweep", *words) as one, typed(launcher, "sweep", *words) as other:
        said = [process.communicate(timeout=50)[0] for process in (one, other)]
    assert (one.returncode, other.returncode) == (0, 0), said
    assert len(sweeps(launcher.runs_dir)) == 2
    assert outcomes(launcher) == ["PASSED"] * 4
    done = launcher("collect", "latest", "report=false")
    tell(Told("PASSED", done.out, code=done.code))


def _files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@row("two collects at once", "3 PASSED", slow=True)
def test_two_collects(launcher: Launcher, tell: Tell) -> None:
    passed_sweep(launcher.runs_dir)
    with typed(launcher, "collect", "latest") as one, typed(launcher, "collect", "latest") as two:
        said = [process.communicate(timeout=50)[0] for process in (one, two)]
    assert (one.returncode, two.returncode) == (0, 0), said
    (folder,) = launcher.results_dir.iterdir()
    assert not [path for path in folder.rglob(".*")]
    before = _files(folder)
    done = launcher("collect", "latest")
    assert _files(folder) == before
    tell(Told("PASSED", done.out, code=done.code))


STAGES: dict[str, Callable[[Path], bool]] = {
    "its folder is made": lambda folder: folder.is_dir(),
    "its records are copied": lambda folder: bool(list(folder.glob("jobs/14/*/*/record.json"))),
    "its table is written": lambda folder: (folder / "points.json").is_file(),
    "its first plot is drawn": lambda folder: bool(list(folder.glob("plots/*.svg"))),
}


@pytest.mark.parametrize(
    "stage",
    [
        pytest.param(stage, marks=row(f"collect is killed when {stage}", "3 PASSED", slow=True))
        for stage in STAGES
    ],
)
def test_collect_is_killed(stage: str, launcher: Launcher, tell: Tell) -> None:
    ledger = passed_sweep(launcher.runs_dir).ledger
    folder = launcher.results_dir / ledger.sweep_id
    with typed(launcher, "collect", "latest") as process:
        deadline = time.monotonic() + 40
        while not STAGES[stage](folder):
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline, stage
            time.sleep(0.001)
        process.kill()
    done = launcher("collect", "latest")
    again = _files(folder)
    whole = launcher.results_dir.parent / "whole"
    launcher("collect", "latest", f"results_dir={whole}")
    undisturbed = _files(whole / ledger.sweep_id)
    parts = [name for name in again if name.endswith(".part")]
    assert {name: again[name] for name in again if name not in parts} == undisturbed
    (table,) = launcher.results_dir.glob("*/points.json")
    states = {row["state"] for row in json.loads(table.read_text())}
    tell(Told(" ".join(states), done.out, code=done.code))
