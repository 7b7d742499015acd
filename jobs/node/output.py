"""Sends everything that a point's process prints to `output.log`, native code's words too."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TextIO

from jobs.log_pipe import is_logged


class _Tee:
    """Python's own words, to the log and to whoever started the process."""

    def __init__(self, log: TextIO, console: TextIO) -> None:
        self._log = log
        self._console: TextIO | None = console

    def write(self, text: str) -> int:
        self._log.write(text)
        if self._console is not None:
            try:
                self._console.write(text)
                self._console.flush()
            except OSError:  # the reader is gone; the log is what counts
                self._console = None
        return len(text)

    def flush(self) -> None:
        self._log.flush()

    def fileno(self) -> int:
        return self._log.fileno()

    def isatty(self) -> bool:
        return False


def log_output(path: Path) -> None:
    """Appends standard output and standard error to a file from now on, line by line.

    Where they already go to that file, or into the pipe of whoever writes it, nothing changes.
    Otherwise Python's own words are shown at the place they went to before, too.

    Args:
        path: The log, made if it is missing.

    Raises:
        OSError: It cannot be written.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    console: int | None = None
    if not is_logged(1):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        console = None if _same_file(descriptor, 1) else os.dup(1)
        os.dup2(descriptor, 1)
        os.close(descriptor)
    os.dup2(1, 2)
    log = open(1, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115 - lives as long as the process
    if console is None:
        sys.stdout = sys.stderr = log
        return
    shown = open(console, "w", buffering=1, encoding="utf-8", errors="replace")  # noqa: SIM115 - likewise
    sys.stdout = sys.stderr = _Tee(log, shown)


def _same_file(first: int, second: int) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(first), os.fstat(second))
    return False
