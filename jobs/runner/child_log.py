"""The log of a point's process: everything that it and its children print, up to a limit.

They write into a pipe, and a thread of the parent process writes the log. So no number of printing
processes fills the disk, and a full disk stops none of them. Beyond the limit the log keeps its
head and its tail, with a line between them that counts what is missing. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from pathlib import Path

from jobs.runner.postmortem import TAIL_BYTES

_CHUNK_BYTES = 2**18
# Still accepted from escaped processes while the log is being closed.
_DRAIN_BYTES = 2**22


class ChildLog:
    """Writer of one attempt's `output.log`, fed by a pipe.

    Args:
        path: The log; appended to.
        max_bytes: Size limit; a quarter of it is kept at each end.

    Attributes:
        write_end: The process's standard output and standard error.
        error: Why a part of the log could not be written.
        tail: End of the output, even if it could not be written.
    """

    def __init__(self, path: Path, max_bytes: int | None) -> None:
        self.error: str | None = None
        self.tail = b""
        self._max_bytes = max_bytes
        self._file: int | None = None
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            self._size = os.fstat(self._file).st_size
        except OSError as error:
            self.error = error.strerror
        self._head_end: int | None = None
        self._tail_start = 0
        self._omitted = 0
        self._unwritten = 0
        self._read_end, self.write_end = os.pipe()
        self._wake_read, self._wake_write = os.pipe()
        self._thread = threading.Thread(target=self._pump, daemon=True)

    def start(self) -> None:
        """Start reading, once the process has its end of the pipe: no fork after this."""
        os.close(self.write_end)
        self.write_end = -1
        self._thread.start()

    def close(self) -> None:
        """Write what is left in the pipe; later writers get SIGPIPE."""
        if self._thread.is_alive():
            os.write(self._wake_write, b".")
            self._thread.join()
        for descriptor in (self._read_end, self.write_end, self._wake_read, self._wake_write):
            if descriptor >= 0:
                os.close(descriptor)
        if self._file is not None:
            os.close(self._file)

    def _pump(self) -> None:
        # Signals belong to the thread that waits for the process: it would not wake up otherwise.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        poll = select.poll()
        poll.register(self._read_end, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        while self._wake_read not in (ready := [descriptor for descriptor, _ in poll.poll()]):
            if self._read_end in ready and not self._copy():
                return
        os.set_blocking(self._read_end, False)
        left = _DRAIN_BYTES
        with contextlib.suppress(BlockingIOError):
            while left > 0 and (copied := self._copy()):
                left -= copied

    def _copy(self) -> int:
        """Copy one chunk from the pipe to the log; return its size, 0 at the end."""
        data = os.read(self._read_end, _CHUNK_BYTES)
        self.tail = (self.tail + data)[-TAIL_BYTES:]
        try:
            self._append(data)
        except OSError as error:
            self.error = error.strerror
        return len(data)

    def _append(self, data: bytes) -> None:
        if self._file is None:
            return
        text = data
        if self._unwritten:
            gap = f"\n[... {self._unwritten:,} bytes could not be written: {self.error} ...]\n"
            text = gap.encode() + data
        try:
            _write_at(self._file, text, self._size)
        except OSError:
            os.ftruncate(self._file, self._size)
            self._unwritten += len(data)
            raise
        self._unwritten = 0
        self._size += len(text)
        if self._max_bytes is not None and self._size > self._max_bytes:
            self._omit_middle(self._file, self._max_bytes)

    def _omit_middle(self, file: int, max_bytes: int) -> None:
        """Move the tail up to the head; at no moment does the file lack either."""
        quarter = max_bytes // 4
        if self._head_end is None:
            head = os.pread(file, quarter, 0)
            self._head_end = self._tail_start = head.rfind(b"\n") + 1 or quarter
        tail = os.pread(file, quarter, self._size - quarter)
        tail = tail[tail.find(b"\n") + 1 :]
        self._omitted += self._size - len(tail) - self._tail_start
        # Of fixed width, so that the tail always starts at the same place.
        gap = f"[... {self._omitted:>20,} bytes left out here: launch.max_log_mib="
        gap += f"{max_bytes / 2**20:g} ...]\n"
        self._tail_start = self._head_end + len(gap)
        self._size = self._tail_start + len(tail)
        _write_at(file, gap.encode() + tail, self._head_end)
        os.ftruncate(file, self._size)


def _write_at(file: int, data: bytes, offset: int) -> None:
    written = 0
    while written < len(data):
        written += os.pwrite(file, data[written:], offset + written)
