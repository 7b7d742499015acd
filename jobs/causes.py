"""Table of error texts and the cause that each names, for exceptions and for last log lines.

Standard library only: the parent process of a point uses it too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_CAUSES = {
    "import_error": (
        r"ModuleNotFoundError|ImportError|No module named|cannot open shared object"
        r"|undefined symbol"
    ),
    "out_of_memory_gpu": (
        r"OutOfMemoryError|CUDA out of memory|CUDA error: out of memory"
        r"|CUBLAS_STATUS_ALLOC_FAILED"
    ),
    "out_of_memory_host": (
        r"^MemoryError|DefaultCPUAllocator: not enough memory|can't allocate memory"
    ),
    "storage": (
        r"No space left on device|Disk quota exceeded|Read-only file system|Stale file handle"
    ),
}


def cause_of(lines: Iterable[str]) -> tuple[str, str] | None:
    """Return the `jobs.record.Cause` that an error text names, with the line that names it."""
    lines = list(lines)
    for cause, pattern in _CAUSES.items():
        matches = [line for line in lines if re.search(pattern, line, re.MULTILINE)]
        if matches:
            return cause, matches[-1]
    return None
