"""The two people of a soak: one submits, resumes and cancels, one looks on and collects."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random

from jobs.sweeps.ledger import Ledger, sweeps
from tests.slurm_cluster.slurm import ClusterError, SlurmCluster
from tests.soak.checks import untrue
from tests.soak.commands import Commands, Ended
from tests.soak.faults import Injected
from tests.soak.plan import Asked, Planner

MOST_OPEN_TASKS = 8
MOST_JOBS = 1500
"""A test cluster has 2,000 job ids; the rest is for the resumes at the end."""


class Submitter:
    """Submits, resumes and cancels; is killed on the way every now and then.

    Args:
        commands: Its terminal.
        planner: Makes up the sweeps.
        injected: Where cancelled jobs are noted.
        rng: Decides what is typed, and what is killed.
    """

    def __init__(
        self, commands: Commands, planner: Planner, injected: Injected, rng: Random
    ) -> None:
        self.commands = commands
        self.planner = planner
        self.injected = injected
        self.asked: list[tuple[Asked, Ended]] = []
        self._rng = rng

    def run(self, stop: threading.Event) -> None:
        """Types one command after another until told to stop."""
        while not stop.is_set():
            self.step()
            stop.wait(self._rng.uniform(0.2, 2.0))

    def step(self) -> None:
        """Types one command."""
        known = sweeps(self.commands.user.runs)
        draw = self._rng.random()
        if not known or (draw < 0.6 and self._has_room(known)):
            self._sweep()
        elif draw < 0.9:
            self._resume(self._rng.choice(known[-12:]))
        elif draw < 0.96:
            self._resume_twice(self._rng.choice(known[-12:]))
        else:
            self._cancel(self._rng.choice(known[-3:]))

    def _has_room(self, known: list[Ledger]) -> bool:
        """Whether the cluster has little to do; a controller that is down is tried anyway."""
        if sum(len(line.tasks) for one in known for line in one.jobs()) > MOST_JOBS:
            return False
        try:
            queue = open_tasks(self.commands.user.cluster)
        except (ClusterError, subprocess.TimeoutExpired):
            return self._rng.random() < 0.5
        return len(queue) < MOST_OPEN_TASKS

    def sweep(self) -> None:
        """Submits another sweep, undisturbed."""
        asked = self.planner.next()
        self.asked.append((asked, self.commands.run("sweep", *asked.words)))

    def _sweep(self) -> None:
        asked = self.planner.next()
        self.asked.append((asked, self._maybe_killed("sweep", *asked.words)))

    def _resume(self, ledger: Ledger) -> None:
        self._maybe_killed("resume", ledger.sweep_id)

    def _resume_twice(self, ledger: Ledger) -> None:
        other = threading.Thread(target=self.commands.run, args=("resume", ledger.sweep_id))
        other.start()
        self.commands.run("resume", ledger.sweep_id)
        other.join()

    def _cancel(self, ledger: Ledger) -> None:
        self.injected.cancelled.add(ledger.sweep_id)
        self.injected.note("cancel of a sweep", ledger.sweep_id)
        self.commands.run("cancel", ledger.sweep_id, "yes=true")

    def _maybe_killed(self, verb: str, *words: str) -> Ended:
        draw = self._rng.random()
        if draw < 0.35:
            return self.commands.kill_sometime(self._rng, verb, *words)
        if draw < 0.55:
            when = self._rng.choice(("before", "after"))
            return self.commands.kill_at_sbatch(when, verb, *words)
        return self.commands.run(verb, *words)


class Onlooker:
    """Asks for the status and collects, all the time; what is collected has to be true.

    Args:
        commands: Its terminal.
        injected: What may excuse an ERROR.
        rng: Decides what is asked.
        results: Where it collects to.
    """

    def __init__(self, commands: Commands, injected: Injected, rng: Random, results: Path) -> None:
        self.commands = commands
        self.injected = injected
        self.results = results
        self._rng = rng

    def run(self, stop: threading.Event) -> None:
        """Asks one thing after another until told to stop."""
        while not stop.is_set():
            self.step()
            stop.wait(self._rng.uniform(1.0, 4.0))

    def step(self) -> None:
        """Asks for one sweep."""
        known = sweeps(self.commands.user.runs)
        if not known:
            return
        ledger = self._rng.choice(known[-15:])
        ask: Callable[[Ledger], None] = self._rng.choice((self._status, self._collect))
        ask(ledger)

    def _status(self, ledger: Ledger) -> None:
        self.commands.run("status", ledger.sweep_id)

    def _collect(self, ledger: Ledger) -> None:
        words = (ledger.sweep_id, f"results_dir={self.results}", "report=false")
        if self._rng.random() < 0.3:
            self.commands.kill_sometime(self._rng, "collect", *words)
            return
        ended = self.commands.run("collect", *words)
        if ended.code not in (0, 1, 3):
            return
        table = self.results / ledger.sweep_id / "points.json"
        with contextlib.suppress(FileNotFoundError):
            rows = json.loads(table.read_text())
            self.commands.problems += untrue(ledger, rows, self.injected)


def open_tasks(cluster: SlurmCluster) -> list[str]:
    """Jobs and array tasks that SLURM has not finished."""
    return cluster.run("squeue", "-h", "-r", "-o", "%i").split()
