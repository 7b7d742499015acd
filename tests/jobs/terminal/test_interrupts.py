"""Signals that would end the process wait until what they would have cut is done."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from jobs.terminal.interrupts import interrupts_held

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def raising() -> Iterator[None]:
    """Each of them raises, as launch.py lets it, also in a worker of pytest-xdist."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", NUMBERS, ids=str)
def test_it_is_noted_and_raised_at_the_end(number: signal.Signals) -> None:
    done: list[list[int]] = []

    def act() -> None:
        with interrupts_held() as held:
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)
            done.append(list(held))

    with pytest.raises(KeyboardInterrupt):
        act()
    assert done == [[number, number]]
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)


def test_it_outlasts_another_error() -> None:
    def act() -> None:
        with interrupts_held():
            os.kill(os.getpid(), signal.SIGTERM)
            raise OSError

    with pytest.raises(KeyboardInterrupt):
        act()


def test_what_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interrupts_held() as held:
        os.kill(os.getpid(), signal.SIGHUP)
    assert held == []


def test_another_thread_has_none_to_hold() -> None:
    found: list[list[int]] = []

    def hold() -> None:
        with interrupts_held() as held:
            found.append(held)

    thread = threading.Thread(target=hold)
    thread.start()
    thread.join()
    assert found == [[]]
