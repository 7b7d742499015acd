"""The end of processes that a test, or the code under test, has started."""

from __future__ import annotations

import time

from tests.slurm_cluster.processes import Process


def gone(pid: int) -> bool:
    """Return True if a process has ended, or ends within ten seconds; a zombie has ended."""
    for _ in range(200):
        if Process.of(pid) is None:
            return True
        time.sleep(0.05)
    return False
