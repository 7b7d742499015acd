"""`launch.py` in another terminal: it waits there while a fault is injected here."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

import pytest

from jobs.sweeps.ledger import Ledger
from tests.slurm_cluster.launching import FAST, SlurmUser
from tests.slurm_cluster.slurm import SlurmCluster

WAITS = ("wait=true", "launch.retries=1")
"""The words of a command that sees its points to their end and tries them again."""


class Command:
    """A command that runs, and all that it printed. As a context it ends it, and its jobs.

    Args:
        user: Who typed it; nobody else has a sweep in their folder.
        verb: Its verb.
        words: Its words; those that every stand-in point needs are added.
    """

    def __init__(self, user: SlurmUser, verb: str, *words: str) -> None:
        self.user = user
        self.seen = ""
        self._log = user.folder / "screen"
        own = {word.partition("=")[0] for word in words}
        needed = ("cluster=slurm", f"cluster.python={user.node}", *FAST)
        added = [word for word in needed if word.partition("=")[0] not in own]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                user.words(verb, *added, *words),
                cwd=user.cwd,
                env=user.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> Command:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        if any(self.user.runs.glob("s-*")):
            for line in self.user.ledger().jobs():
                self._cluster.run("scancel", line.job_id)

    @property
    def _cluster(self) -> SlurmCluster:
        return self.user.cluster

    @property
    def screen(self) -> str:
        """All that it printed so far."""
        return self._log.read_text(errors="replace")

    @property
    def ledger(self) -> Ledger:
        """Its sweep."""
        return self.user.ledger()

    def job(self, number: int = 0) -> str:
        """Waits for its first submission, or a later one; the job id."""
        found = [self.user.runs]

        def submitted() -> bool:
            found[:] = self.user.runs.glob("s-*/jobs.jsonl")
            return bool(found) and len(self.ledger.jobs()) > number

        self._cluster.wait(submitted, f"submission {number} of {self.user.folder}", 50)
        return self.ledger.jobs()[number].job_id

    def begun(self, number: int = 0, attempts: int = 1) -> str:
        """Waits until one of its jobs has begun so many attempts; the job id."""
        job = self.job(number)
        started = f"{job}/p-*/attempt-*/started.json"
        self._cluster.wait(
            lambda: len(list(self.ledger.root.glob(started))) >= attempts, f"points of {job}", 50
        )
        return job

    def queued(self, words: str, number: int = 0, timeout_s: float = 50) -> str:
        """Waits until squeue's state and reason of a job hold these words; the job id."""
        job = self.job(number)
        asked = ("squeue", "-h", "-t", "all", "-j", job, "-o", "%T %r")
        self._cluster.wait(
            lambda: words in self._cluster.run(*asked), f"{words} of {job}", timeout_s
        )
        return job

    def node(self, number: int = 0) -> str:
        """Where one of its jobs runs."""
        return self._cluster.run("squeue", "-h", "-j", self.job(number), "-o", "%N")

    def says(self, words: str) -> str:
        """Waits until it has printed these words; all that it printed."""
        self._cluster.wait(lambda: words in self.screen, f"{words!r} on the screen", 50)
        return self.screen

    def look(self) -> None:
        """Types `status` meanwhile; `seen` is what it shows."""
        self.seen += self.user.run("status").stdout

    def end(self, timeout_s: float = 55) -> str:
        """Waits for its end; all that it printed."""
        self.process.wait(timeout_s)
        assert "Traceback" not in self.screen, self.screen
        return self.screen

    def interrupt(self) -> str:
        """Presses Ctrl-C; all that it printed."""
        self.process.send_signal(signal.SIGINT)
        return self.end()


def chosen(request: pytest.FixtureRequest, names: Iterable[str]) -> list[str]:
    """Those of a test's parameters `name` that this session runs: only they are injected."""
    here = {
        item.callspec.params.get("name")
        for item in request.session.items
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
    }
    return [name for name in names if name in here]


def new_user(cluster: SlurmCluster, folder: Path) -> SlurmUser:
    """A user with a folder of its own."""
    folder.mkdir()
    return SlurmUser(cluster, folder)
