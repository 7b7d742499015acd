"""What tests ask of processes that they, or the code under test, have started."""

from __future__ import annotations

import time
from pathlib import Path


def gone(pid: int) -> bool:
    """Whether a process has ended, waiting for it a while; one that is unreaped has ended."""
    for _ in range(200):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False
