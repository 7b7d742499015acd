"""What a soak must not leave behind: processes, unfinished files, files in wrong places."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from jobs.schedulers.lock import LOCK
from jobs.schedulers.slurm.memory import LAST_SEEN
from tests.slurm_cluster.processes import Process
from tests.slurm_cluster.slurm import SlurmCluster

# Children that slurmctld starts for itself.
_DAEMONS = (b"slurmctld", b"slurmscriptd")
_UNFINISHED = (".tmp", ".part", ".save_tmp")


def leftover_processes(cluster: SlurmCluster, folder: Path, grace_s: float = 20.0) -> list[str]:
    """Return the processes that remain after the last job has ended.

    Args:
        cluster: Its daemons are expected.
        folder: Folder of the soak, which its processes name.
        grace_s: Time that SLURM has to remove the last step.
    """
    deadline = time.monotonic() + grace_s
    while True:
        remaining = dict(_processes(cluster, folder))
        if not remaining or time.monotonic() > deadline:
            return [f"process {pid} remains: {text}" for pid, text in sorted(remaining.items())]
        time.sleep(0.2)


def _processes(cluster: SlurmCluster, folder: Path) -> Iterator[tuple[int, str]]:
    expected = {process.pid for process in cluster.daemons} | {os.getpid()}
    jobs = {process.pid for process in cluster.job_processes()}
    mark = str(folder).encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or (pid := int(entry.name)) in expected:
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            of_soak = pid in jobs or mark in command or mark in (entry / "environ").read_bytes()
        except OSError:
            continue
        daemon = any(name in command.partition(b"\0")[0] for name in _DAEMONS)
        if of_soak and not daemon and Process.of(pid) is not None:
            yield pid, command.replace(b"\0", b" ").decode(errors="replace").strip()


def leftover_files(runs: Path, results: Path, *empty: Path) -> list[str]:
    """Return unfinished files and sweeps, and every file in a folder that must be empty."""
    problems = [str(path) for folder in empty for path in sorted(folder.iterdir())]
    for root in (runs, results):
        for path in sorted(root.rglob("*")):
            hidden = path.name.startswith(".") and path.name not in (LOCK, LAST_SEEN)
            snapshot = "snapshot" in path.relative_to(root).parts
            if not snapshot and (hidden or path.name.endswith(_UNFINISHED)):
                problems.append(f"{path}: unfinished")
    return problems + [
        f"{sweep}: a sweep without a plan"
        for sweep in sorted(runs.glob("s-*"))
        if not (sweep / "sweep.json").is_file()
    ]
