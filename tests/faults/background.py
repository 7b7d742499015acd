"""`launch.py` in another terminal, which runs while a fault is injected here."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

import pytest

from jobs.sweeps.ledger import Ledger
from tests.faults.matrix import Report
from tests.faults.reports import report_of
from tests.slurm_cluster.launching import SlurmUser
from tests.slurm_cluster.slurm import SlurmCluster

RETRIES = ("wait=true", "launch.retries=1")
"""Words of a command that waits for its points and retries them."""


class Command:
    """A running command and its output. As a context manager it ends the command and its jobs.

    Args:
        user: Who typed it; nobody else has a sweep in their folder.
        verb: Its verb.
        words: Its other words; those that every stand-in point needs are added.
    """

    def __init__(self, user: SlurmUser, verb: str, *words: str) -> None:
        self.user = user
        self.status_output = ""
        self._log = user.folder / "screen"
        keys = {word.partition("=")[0] for word in words}
        added = [word for word in user.site if word.partition("=")[0] not in keys]
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
    def output(self) -> str:
        """All that it has printed."""
        return self._log.read_text(errors="replace")

    @property
    def ledger(self) -> Ledger:
        """Its sweep."""
        return self.user.ledger()

    def point_ids(self) -> list[str]:
        """Return the ids of its points, in the order of the plan."""
        return [point.point_id for point in self.ledger.plan()]

    def job(self, number: int = 0) -> str:
        """Wait for one of its submissions and return the job id."""

        def submitted() -> bool:
            lines = any(self.user.runs.glob("s-*/jobs.jsonl"))
            return lines and len(self.ledger.jobs()) > number

        self._cluster.wait(submitted, f"submission {number} of {self.user.folder}", 50)
        return self.ledger.jobs()[number].job_id

    def started_job(self, number: int = 0, attempts: int = 1) -> str:
        """Wait until one of its jobs has started some attempts and return the job id."""
        job = self.job(number)
        started = f"{job}/p-*/attempt-*/started.json"
        self._cluster.wait(
            lambda: len(list(self.ledger.root.glob(started))) >= attempts, f"points of {job}", 50
        )
        return job

    def queued_job(self, state: str, number: int = 0) -> str:
        """Wait until squeue's state and reason of a job contain a text and return the job id."""
        job = self.job(number)
        query = ("squeue", "-h", "-t", "all", "-j", job, "-o", "%T %r")
        self._cluster.wait(lambda: state in self._cluster.run(*query), f"{state} of {job}", 50)
        return job

    def node(self, number: int = 0) -> str:
        """Return the node on which one of its jobs runs."""
        return self._cluster.run("squeue", "-h", "-j", self.job(number), "-o", "%N")

    def excluded_nodes(self, number: int) -> list[str]:
        """Return the nodes that one of its submissions excludes."""
        (script,) = (self.ledger.root / self.job(number)).glob("*submission.sh")
        return re.findall(r"^#SBATCH --exclude=(.*)$", script.read_text(), re.MULTILINE)

    def attempts(self) -> int:
        """Count the attempts of all points under all jobs."""
        return len(list(self.ledger.root.glob("*/p-*/attempt-*")))

    def wait_for_output(self, text: str) -> None:
        """Wait until it has printed a text."""
        self._cluster.wait(lambda: text in self.output, f"{text!r} in the output", 50)

    def query_status(self) -> None:
        """Run `status` while the command runs and keep its output."""
        self.status_output += self.user.run("status").stdout

    def end(self) -> str:
        """Wait for its end and return all that it printed."""
        self.process.wait(55)
        assert "Traceback" not in self.output, self.output
        return self.output

    def interrupt(self) -> str:
        """Press Ctrl-C and return all that it printed."""
        self.process.send_signal(signal.SIGINT)
        return self.end()

    def report(self, number: int = 0, *, retries: bool = False) -> Report:
        """Report one of its points, by its place in the plan."""
        output = self.output + self.status_output
        point = self.point_ids()[number]
        return report_of(self.user, self.ledger, point, output=output, retries=retries)


def selected(request: pytest.FixtureRequest, names: Iterable[str]) -> list[str]:
    """Return those values of a test's parameter `name` that this session runs."""
    running = {
        item.callspec.params.get("name")
        for item in request.session.items
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
    }
    return [name for name in names if name in running]


def new_user(cluster: SlurmCluster, folder: Path) -> SlurmUser:
    """Return a user with a folder of its own."""
    folder.mkdir()
    return SlurmUser(cluster, folder)
