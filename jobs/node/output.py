"""Output of a point's process: everything goes to `output.log`, native code's output too."""

from __future__ import annotations

import contextlib
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import TextIO

from jobs.log_pipe import is_logged


def print_progress(line: str) -> None:
    """Print a line with the time of day."""
    print(f"[{datetime.now():%H:%M:%S}] {line}", flush=True)


def log_output(path: Path) -> None:
    """Append standard output and standard error to a file from now on, line by line.

    Nothing changes if they already go to that file, or into the pipe of its writer. Otherwise
    Python's own output also appears in its previous place.

    Raises:
        OSError: The file cannot be written.
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
    terminal = open(console, "w", buffering=1, encoding="utf-8", errors="replace")  # noqa: SIM115 - likewise
    sys.stdout = sys.stderr = _Tee(log, terminal)


class _Tee:
    """A text stream that writes to the log and to the console."""

    def __init__(self, log: TextIO, console: TextIO) -> None:
        self._log = log
        self._console: TextIO | None = console

    def write(self, text: str) -> int:
        self._log.write(text)
        if self._console is not None:
            try:
                self._console.write(text)
                self._console.flush()
            except OSError:  # its reader is gone; the log is what counts
                self._console = None
        return len(text)

    def flush(self) -> None:
        self._log.flush()

    def fileno(self) -> int:
        return self._log.fileno()

    def isatty(self) -> bool:
        return False


def _same_file(first: int, second: int) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(first), os.fstat(second))
    return False
