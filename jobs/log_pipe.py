"""The pipe that carries a point's output to its parent process, which writes the log.

Both sides use this module; standard library only.
"""

from __future__ import annotations

import os

LOG_PIPE = "MXFP8_JOB_LOG_PIPE"
"""Variable with the name of the pipe whose content goes to the attempt's `output.log`."""


def pipe_name(descriptor: int) -> str:
    """Return a name that identifies an open file on this machine while it is open."""
    stat = os.fstat(descriptor)
    return f"{stat.st_dev}:{stat.st_ino}"


def is_logged(descriptor: int) -> bool:
    """True if a descriptor's output already goes to the attempt's log."""
    try:
        return pipe_name(descriptor) == os.environ.get(LOG_PIPE)
    except OSError:
        return False
