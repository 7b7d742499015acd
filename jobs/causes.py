"""What an error's own words say of its cause: one table for exceptions and for last words.

The standard library alone: whoever watches a point's process uses it, and a node may have no more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_CAUSES = tuple(
    (cause, re.compile(pattern, re.MULTILINE))
    for cause, pattern in (
        (
            "import_error",
            r"ModuleNotFoundError|ImportError|No module named|cannot open shared object"
            r"|undefined symbol",
        ),
        (
            "out_of_memory_gpu",
            r"OutOfMemoryError|CUDA out of memory|CUDA error: out of memory"
            r"|CUBLAS_STATUS_ALLOC_FAILED",
        ),
        (
            "out_of_memory_host",
            r"^MemoryError|DefaultCPUAllocator: not enough memory|can't allocate memory",
        ),
        (
            "storage",
            r"No space left on device|Disk quota exceeded|Read-only file system"
            r"|Stale file handle",
        ),
    )
)


def cause_of(lines: Iterable[str]) -> tuple[str, str] | None:
    """The cause that an error names.

    Args:
        lines: What it said.

    Returns:
        A value of `jobs.record.Cause` and the last line that names it; None where none does.
    """
    said = list(lines)
    for cause, pattern in _CAUSES:
        matching = [line for line in said if pattern.search(line)]
        if matching:
            return cause, matching[-1]
    return None
