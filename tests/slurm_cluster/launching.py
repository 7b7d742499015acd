"""Run `launch.py` as a user does, on a test cluster, and read what it left."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobs.sweeps.ledger import Ledger, latest
from tests.builders.programs import write_program
from tests.slurm_cluster.slurm import SlurmCluster

ROOT = Path(__file__).parents[2]
STAND_IN = Path(__file__).with_name("stand_in_node.py")
FAST = ("shape=tiny", "backend=emulated", "benchmark=off", "launch.memory_gib=0.2")
"""Overrides that make a point small; the stand-in does not compute it anyway."""


def install_stand_in(folder: Path) -> Path:
    """Write an executable that replaces the node's interpreter and return its path."""
    return write_program(folder / "node-python", STAND_IN.read_text(), f"{sys.executable} -ES")


@dataclass
class SlurmUser:
    """A user at a terminal of the cluster's login node.

    Attributes:
        cluster: The cluster.
        folder: A temporary folder, for sweeps and the node's interpreter.
        env: Variables added to every command.
        cwd: Working directory of every command.
        root: The checkout whose launch.py is called.
    """

    cluster: SlurmCluster
    folder: Path
    env: dict[str, str] = field(default_factory=dict)
    cwd: Path = ROOT
    root: Path = ROOT

    def __post_init__(self) -> None:
        self.runs = self.folder / "runs"
        self.node = install_stand_in(self.folder)

    @property
    def site(self) -> tuple[str, ...]:
        """Overrides that select the cluster, and points of the stand-in."""
        return ("cluster=slurm", f"cluster.python={self.node}", *FAST)

    def words(self, verb: str, *words: str) -> list[str]:
        """Return the command line; sweeps go to the user's folder unless `words` name another."""
        command = [sys.executable, str(self.root / "launch.py"), verb, *words]
        if not any(word.startswith("runs_dir=") for word in words):
            command.append(f"runs_dir={self.runs}")
        return command

    def environment(self) -> dict[str, str]:
        """Return the environment of a command: the cluster's, with a wide output."""
        return self.cluster.env | {"PYTHONWARNINGS": "error", "COLUMNS": "200"} | self.env

    def run(self, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""
        return subprocess.run(
            self.words(verb, *words),
            cwd=self.cwd,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    @contextlib.contextmanager
    def running(self, verb: str, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Start one command and kill it at the end of the block."""
        with subprocess.Popen(
            self.words(verb, *words),
            cwd=self.cwd,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def sweep(self, *words: str) -> tuple[subprocess.CompletedProcess[str], Ledger]:
        """Submit a sweep of stand-in points; fail the test if it was not submitted."""
        done = self.run("sweep", *self.site, *words)
        assert done.returncode in (0, 1, 3), done.stdout + done.stderr
        return done, self.ledger()

    def ledger(self) -> Ledger:
        """Return the newest sweep."""
        return latest(self.runs)

    def wait(self, ledger: Ledger, timeout_s: float = 50.0) -> None:
        """Wait until SLURM lists no job of a sweep."""
        if jobs := [line.job_id for line in ledger.jobs()]:
            self.cluster.wait_jobs(*jobs, timeout_s=timeout_s)

    def records(self, ledger: Ledger) -> list[dict[str, Any]]:
        """Return every record of a sweep, whatever job left it."""
        paths = sorted(ledger.root.glob("*/p-*/attempt-*/record.json"))
        return [json.loads(path.read_text()) for path in paths]

    def outcomes(self, ledger: Ledger) -> dict[str, list[str]]:
        """Return the outcomes of each point's records."""
        outcomes: dict[str, list[str]] = {point.point_id: [] for point in ledger.plan()}
        for record in self.records(ledger):
            outcomes[record["identity"]["point_id"]].append(record["outcome"])
        return outcomes

    def wrap(self, program: str, script: str) -> None:
        """Put a script before a program on the PATH; the script finds the program as $REAL."""
        real = shutil.which(program, path=self.environment()["PATH"])
        assert real is not None, program
        folder = self.folder / "bin"
        write_program(folder / program, f"REAL={real}\n{script}", "/bin/bash")
        self.env["PATH"] = f"{folder}{os.pathsep}{self.cluster.env['PATH']}"
