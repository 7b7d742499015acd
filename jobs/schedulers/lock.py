"""The lock of a sweep: one process at a time submits or runs its points."""

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
    """Hold the lock, and yield its descriptor; a child that inherits it holds the lock too.

    Files created meanwhile, here and by the jobs, have the permissions of the sweep's folder.

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
    """Return True if a process submits or runs this sweep now; False if that is unknown."""
    try:
        with open_regular(root / LOCK) as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _take(descriptor: int, ledger: Ledger) -> None:
    # `is_submitting` holds the lock for a moment.
    for left in reversed(range(_TRIES)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if left:
                time.sleep(_PAUSE_S)
                continue
            raise SweepLocked(ledger.sweep_id) from None
        except OSError:
            pass  # a file system without locks: submission folders are still exclusive
        return
