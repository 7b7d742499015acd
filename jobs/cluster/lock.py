"""A sweep's right to submit: one process at a time has it, and gives it back however it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

from jobs.cluster.ledger import Ledger
from jobs.errors import SubmissionError
from jobs.files import readable_like

LOCK = ".submitting"


@contextlib.contextmanager
def submitting(ledger: Ledger) -> Iterator[int]:
    """Holds a sweep's right to submit or to run here, which one process has at a time.

    What is made meanwhile, here and by the jobs, may be read by whoever may read the sweep.

    Args:
        ledger: The sweep.

    Yields:
        The lock's descriptor. A child that inherits it holds the lock too, until it ends.

    Raises:
        SubmissionError: Another process submits or runs this sweep.
    """
    with readable_like(ledger.root):
        descriptor = os.open(ledger.root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            _take(descriptor, ledger)
            yield descriptor
        finally:
            os.close(descriptor)


def _take(descriptor: int, ledger: Ledger) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SubmissionError(
            f"another process is submitting or running {ledger.sweep_id}; try again when it has "
            "ended"
        ) from None
    except OSError:
        return  # a file system without locks: the folder of each submission is exclusive still
