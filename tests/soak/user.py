"""The two users of a soak: one submits, resumes and cancels; one queries and collects."""

from __future__ import annotations

import contextlib
import json
import threading
from pathlib import Path
from random import Random

from jobs.sweeps.ledger import Ledger, sweeps
from tests.slurm_cluster.slurm import SlurmCluster
from tests.soak.audit import Audit
from tests.soak.commands import Commands, Ended
from tests.soak.injector import NO_ANSWER, Faults
from tests.soak.plan import Planner, SweepCommand

MAX_OPEN_TASKS = 8
MAX_JOBS = 1500
"""A test cluster has 2,000 job ids; the rest is left for the resumes at the end."""


class Submitter:
    """Submits, resumes and cancels sweeps; some of its commands are killed."""

    def __init__(self, commands: Commands, planner: Planner, faults: Faults, rng: Random) -> None:
        self.commands = commands
        self.planner = planner
        self.faults = faults
        self.sweeps: list[tuple[SweepCommand, int]] = []
        self._rng = rng

    def run(self, stop: threading.Event) -> None:
        """Type one command after another until it is stopped."""
        while not stop.is_set():
            self.step()
            stop.wait(self._rng.uniform(0.2, 2.0))

    def step(self) -> None:
        """Type one command."""
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
        """Return True if few tasks are open; if the controller is down, sometimes."""
        if sum(len(line.tasks) for one in known for line in one.jobs()) > MAX_JOBS:
            return False
        try:
            queue = open_tasks(self.commands.user.cluster)
        except NO_ANSWER:
            return self._rng.random() < 0.5
        return len(queue) < MAX_OPEN_TASKS

    def sweep(self) -> None:
        """Submit another sweep, undisturbed."""
        command = self.planner.next()
        self.sweeps.append((command, self.commands.run("sweep", *command.words).code))

    def _sweep(self) -> None:
        command = self.planner.next()
        self.sweeps.append((command, self._run_or_kill("sweep", *command.words).code))

    def _resume(self, ledger: Ledger) -> None:
        self._run_or_kill("resume", ledger.sweep_id)

    def _resume_twice(self, ledger: Ledger) -> None:
        other = threading.Thread(target=self.commands.run, args=("resume", ledger.sweep_id))
        other.start()
        self.commands.run("resume", ledger.sweep_id)
        other.join()

    def _cancel(self, ledger: Ledger) -> None:
        self.faults.cancelled.add(ledger.sweep_id)
        self.faults.add("cancel of a sweep", ledger.sweep_id)
        self.commands.run("cancel", ledger.sweep_id, "yes=true")

    def _run_or_kill(self, verb: str, *words: str) -> Ended:
        draw = self._rng.random()
        if draw < 0.35:
            return self.commands.kill_sometime(self._rng, verb, *words)
        if draw < 0.55:
            when = self._rng.choice(("before", "after"))
            return self.commands.kill_at_sbatch(when, verb, *words)
        return self.commands.run(verb, *words)


class Observer:
    """Queries the status of sweeps and collects them; every collection has to be correct."""

    def __init__(self, commands: Commands, faults: Faults, rng: Random, results: Path) -> None:
        self.commands = commands
        self.faults = faults
        self.results = results
        self._rng = rng

    def run(self, stop: threading.Event) -> None:
        """Type one command after another until it is stopped."""
        while not stop.is_set():
            self.step()
            stop.wait(self._rng.uniform(1.0, 4.0))

    def step(self) -> None:
        """Query or collect one sweep."""
        known = sweeps(self.commands.user.runs)
        if not known:
            return
        ledger = self._rng.choice(known[-15:])
        if self._rng.random() < 0.5:
            self.commands.run("status", ledger.sweep_id)
        else:
            self._collect(ledger)

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
            audit = Audit([ledger], self.faults)
            self.commands.problems += audit.wrong_table(ledger, rows)


def open_tasks(cluster: SlurmCluster) -> list[str]:
    """Return the jobs and array tasks that SLURM has not finished."""
    return cluster.run("squeue", "-h", "-r", "-o", "%i").split()
