"""The log of a point's process: all that it and its children print, up to a bound.

They write into a pipe, and a thread of the process that started them writes the log. So no number
of printing processes fills a disk, and a full disk stops none of them. Beyond the bound the head
and the tail stay, and a line between them says how much is missing. The standard library alone.
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
# What a process that escaped may still print while its log is closed.
_LAST_BYTES = 2**22


class ChildLog:
    """Writes one attempt's `output.log` from a pipe.

    Args:
        path: The log; appended to.
        max_bytes: What the log may hold, a quarter of it at each end outliving the bound; None:
            no bound.

    Attributes:
        write_end: What the process gets as its standard output and standard error.
        error: Why a part of the log could not be written; None: all was.
    """

    def __init__(self, path: Path, max_bytes: int | None) -> None:
        self.error: str | None = None
        self._max_bytes = max_bytes
        self._file: int | None = None
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            self._size = os.fstat(self._file).st_size
        except OSError as error:
            self.error = error.strerror
        self._head_end: int | None = None
        self._tail_start = 0
        self._left_out = 0
        self._unwritten = 0
        self._last = b""
        self._read_end, self.write_end = os.pipe()
        self._wake_read, self._wake_write = os.pipe()
        self._thread = threading.Thread(target=self._pump, daemon=True)

    def start(self) -> None:
        """Begins to read, once the process has its end of the pipe: no fork comes after this."""
        os.close(self.write_end)
        self.write_end = -1
        self._thread.start()

    def close(self) -> None:
        """Writes down what the pipe still holds; who writes into it later gets SIGPIPE."""
        if self._thread.is_alive():
            os.write(self._wake_write, b".")
            self._thread.join()
        for descriptor in (self._read_end, self.write_end, self._wake_read, self._wake_write):
            if descriptor >= 0:
                os.close(descriptor)
        if self._file is not None:
            os.close(self._file)

    @property
    def last_words(self) -> bytes:
        """The end of all that was printed, also where it could not be written."""
        return self._last

    def _pump(self) -> None:
        # A signal is for the thread that waits for the process: it would sleep on otherwise.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        waits = select.poll()
        waits.register(self._read_end, select.POLLIN)
        waits.register(self._wake_read, select.POLLIN)
        while self._wake_read not in (ready := [descriptor for descriptor, _ in waits.poll()]):
            if self._read_end in ready and not self._copy():
                return
        os.set_blocking(self._read_end, False)
        left = _LAST_BYTES
        with contextlib.suppress(BlockingIOError):
            while left > 0 and (copied := self._copy()):
                left -= copied

    def _copy(self) -> int:
        """Takes one piece out of the pipe; 0 at its end."""
        data = os.read(self._read_end, _CHUNK_BYTES)
        self._last = (self._last + data)[-TAIL_BYTES:]
        try:
            self._append(data)
        except OSError as error:
            self.error = error.strerror
        return len(data)

    def _append(self, data: bytes) -> None:
        if self._file is None:
            return
        whole = data
        if self._unwritten:
            told = f"\n[... {self._unwritten:,} bytes could not be written: {self.error} ...]\n"
            whole = told.encode() + data
        done = 0
        try:
            while done < len(whole):
                done += os.pwrite(self._file, whole[done:], self._size + done)
        except OSError:
            os.ftruncate(self._file, self._size)
            self._unwritten += len(data)
            raise
        self._unwritten = 0
        self._size += done
        if self._max_bytes is not None and self._size > self._max_bytes:
            self._leave_out(self._file, self._max_bytes)

    def _leave_out(self, file: int, max_bytes: int) -> None:
        """Moves the tail up to the head; at no moment does the file lack either."""
        quarter = max_bytes // 4
        if self._head_end is None:
            head = os.pread(file, quarter, 0)
            self._head_end = self._tail_start = head.rfind(b"\n") + 1 or quarter
        tail = os.pread(file, quarter, self._size - quarter)
        tail = tail[tail.find(b"\n") + 1 :]
        self._left_out += self._size - len(tail) - self._tail_start
        # Of one width, so that the tail always stands at one place.
        told = f"[... {self._left_out:>20,} bytes left out here: launch.max_log_mib="
        told += f"{max_bytes / 2**20:g} ...]\n"
        self._tail_start = self._head_end + len(told)
        self._size = self._tail_start + len(tail)
        moved = told.encode() + tail
        done = 0
        while done < len(moved):
            done += os.pwrite(file, moved[done:], self._head_end + done)
        os.ftruncate(file, self._size)
