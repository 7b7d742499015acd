"""Processes known by pid and start time, so that only our own are ever signalled."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_STEP = re.compile(rb"slurmstepd: \[(\d+)\.")


@dataclass(frozen=True)
class Process:
    """One process; a later process with the same pid is another one."""

    pid: int
    start_ticks: int

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """Return the process with this pid; None if there is none, or only a zombie."""
        try:
            # The command in parentheses may contain spaces.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return None if fields[0] in "ZX" else cls(pid, int(fields[19]))

    def is_alive(self) -> bool:
        return Process.of(self.pid) == self

    def send(self, number: signal.Signals) -> None:
        if self.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def stop_all(processes: Iterable[Process], grace_s: float = 4.0) -> None:
    """Send SIGTERM to all, then SIGKILL to those that remain after the grace period."""
    left = list(processes)
    for process in left:
        process.send(signal.SIGTERM)
    left = wait_gone(left, grace_s)
    for process in left:
        process.send(signal.SIGKILL)
    wait_gone(left, grace_s)


def wait_gone(processes: Iterable[Process], timeout_s: float) -> list[Process]:
    """Wait until the processes have ended and return those that have not."""
    left = list(processes)
    deadline = time.monotonic() + timeout_s
    while left and time.monotonic() < deadline:
        left = [process for process in left if process.is_alive()]
        time.sleep(0.02)
    return left


def job_processes(slurm_conf: Path, job_ids: range) -> Iterator[Process]:
    """Return the step daemons of a cluster, which outlive its slurmd, and its jobs' processes.

    Args:
        slurm_conf: Job processes have it, and a SLURM_JOB_ID, in their environment; a developer's
            own shell has only the first.
        job_ids: Step daemons overwrite their environment with a title that names their job.
    """
    mark = f"SLURM_CONF={slurm_conf}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        in_job = any(line.startswith(b"SLURM_JOB_ID=") for line in environment)
        title = _STEP.match(command)
        ours = (mark in environment and in_job) or (title and int(title[1]) in job_ids)
        if ours and (process := Process.of(int(entry.name))):
            yield process


def save_pids(path: Path, daemons: dict[str, Process]) -> None:
    """Save the pids, so that another process can stop the cluster."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps({n: [p.pid, p.start_ticks] for n, p in daemons.items()}))
    temporary.replace(path)


def load_pids(path: Path) -> dict[str, Process]:
    """Return the processes that `save_pids` wrote; empty if there is no such file."""
    if not path.is_file():
        return {}
    return {name: Process(*pair) for name, pair in json.loads(path.read_text()).items()}
