"""Processes that a soak has left: of its jobs, of launch.py, or anything that names its folder."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from tests.slurm_cluster.processes import Process
from tests.slurm_cluster.slurm import SlurmCluster

_GRACE_S = 20.0
# A child that slurmctld starts for itself.
_DAEMONS_OWN = (b"slurmctld", b"slurmscriptd")


def orphan_processes(cluster: SlurmCluster, folder: Path, grace_s: float = _GRACE_S) -> list[str]:
    """Processes that are still there a while after the last job has ended.

    Args:
        cluster: Whose daemons may be there.
        folder: Everything of the soak lies below it.
        grace_s: How long SLURM has to clear away the last step.
    """
    deadline = time.monotonic() + grace_s
    while True:
        found = dict(_processes(cluster, folder))
        if not found or time.monotonic() > deadline:
            return [f"process {pid} is left: {command}" for pid, command in sorted(found.items())]
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
            ours = pid in jobs or mark in command or mark in (entry / "environ").read_bytes()
        except OSError:
            continue
        own = any(name in command.partition(b"\0")[0] for name in _DAEMONS_OWN)
        if ours and not own and Process.of(pid) is not None:
            yield pid, command.replace(b"\0", b" ").decode(errors="replace").strip()
