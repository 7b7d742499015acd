"""Where a point's words go: into a pipe of whoever started it, who writes the log.

The standard library alone: both sides use it, and a node may have no more.
"""

from __future__ import annotations

import os

LOG_PIPE = "MXFP8_JOB_LOG_PIPE"
"""The variable that names the pipe whose other end is written to the attempt's `output.log`."""


def pipe_name(descriptor: int) -> str:
    """What names an open file on this machine as long as it is open."""
    about = os.fstat(descriptor)
    return f"{about.st_dev}:{about.st_ino}"


def is_logged(descriptor: int) -> bool:
    """Whether what is written there ends up in the attempt's log already."""
    try:
        return pipe_name(descriptor) == os.environ.get(LOG_PIPE)
    except OSError:
        return False
