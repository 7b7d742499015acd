"""A sweep's right to submit: one process at a time has it, and gives it back however it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from jobs.errors import SweepLocked
from jobs.files import open_regular, readable_like
from jobs.sweeps.ledger import Ledger

LOCK = ".submitting"
_TRIES, _PAUSE_S = 4, 0.05


@contextlib.contextmanager
def submitting(ledger: Ledger) -> Iterator[int]:
    """Holds a sweep's right to submit or to run here, which one process has at a time.

    What is made meanwhile, here and by the jobs, may be read by whoever may read the sweep.

    Args:
        ledger: The sweep.

    Yields:
        The lock's descriptor. A child that inherits it holds the lock too, until it ends.

    Raises:
        SweepLocked: Another process submits or runs this sweep.
    """
    with readable_like(ledger.root):
        descriptor = os.open(ledger.root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            _take(descriptor, ledger)
            yield descriptor
        finally:
            os.close(descriptor)


def is_submitting(root: Path) -> bool:
    """Whether a process submits or runs this sweep now; False where that cannot be told."""
    try:
        with open_regular(root / LOCK) as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _take(descriptor: int, ledger: Ledger) -> None:
    # Who only looks whether it is taken has it for a moment.
    for left in reversed(range(_TRIES)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if left:
                time.sleep(_PAUSE_S)
                continue
            raise SweepLocked(ledger.sweep_id) from None
        except OSError:
            pass  # a file system without locks: the folder of each submission is exclusive still
        return
