"""Ctrl-C and its like, held back while something is done that must not be left half done."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

NOTHING_STARTED = "nothing was submitted, and nothing stays."
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def interrupts_held() -> Iterator[list[int]]:
    """Notes the signals that would end this process, in place of raising wherever they come.

    Yields:
        The numbers of those that have come so far; what takes long looks into it.

    Raises:
        KeyboardInterrupt: At the end, where one has come, whatever else was raised.
    """
    held: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield held  # signals are the main thread's
        return

    def hold(number: int, frame: FrameType | None) -> None:
        held.append(number)

    before = {}
    try:
        for number in _ENDING:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):  # nohup stays nohup
                before[number] = signal.signal(number, hold)
        yield held
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if held:
            raise KeyboardInterrupt


@contextlib.contextmanager
def nothing_started_told() -> Iterator[None]:
    """Says after Ctrl-C that nothing has come of the command: it had not written its plan yet."""
    try:
        yield
    except KeyboardInterrupt:
        from jobs.terminal import screen

        screen.say(screen.console(), f"\nInterrupted: {NOTHING_STARTED}")
        raise
