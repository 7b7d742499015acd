"""Ctrl-C and other ending signals, deferred while a step must be completed."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

NOTHING_STARTED = "nothing was submitted, and no files remain."
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def interrupts_held() -> Iterator[list[int]]:
    """Defer the signals that would end this process, and yield the list of those received.

    Any of them raises KeyboardInterrupt at the end, in place of another exception.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received  # only the main thread receives signals
        return

    def hold(number: int, frame: FrameType | None) -> None:
        received.append(number)

    previous = {}
    try:
        for number in _SIGNALS:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):  # keep nohup's choice
                previous[number] = signal.signal(number, hold)
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        if received:
            raise KeyboardInterrupt


@contextlib.contextmanager
def nothing_started_notice() -> Iterator[None]:
    """Report after Ctrl-C that the command has done nothing: its plan was not written yet."""
    try:
        yield
    except KeyboardInterrupt:
        from jobs.terminal.console import Console

        Console().print_line(f"\nInterrupted: {NOTHING_STARTED}")
        raise
