"""A recorded process is running, gone, or unknown from here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from jobs import process
from jobs.process import current_process, is_running
from tests.processes import gone

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


def other(**changes: Any) -> bool | None:  # noqa: ANN401 - any field of a process
    """Check this process with some fields changed."""
    return is_running(current_process().model_copy(update=changes))


def test_this_process_is_running() -> None:
    assert is_running(current_process()) is True
    assert current_process().pid == os.getpid()


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({"host": "elsewhere"}, None),
        ({"pid_namespace": "pid:[1]"}, None),  # another container of this machine
        ({"boot_id": "before"}, False),
        ({"boot_id": "before", "pid_namespace": "pid:[1]"}, False),
        ({"start_ticks": 1}, False),  # another process has its number now
        ({"start_ticks": None}, True),
        ({"boot_id": None, "pid_namespace": None, "start_ticks": None}, True),
        ({"pid": 2**22 + 1}, False),
        ({"pid": 10**30}, None),
        ({"pid": 0}, None),
        ({"pid": -1}, None),
    ],
    ids=str,
)
def test_another_process(changes: dict[str, Any], answer: bool | None) -> None:
    assert other(**changes) is answer


def test_a_zombie_is_gone() -> None:
    child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"])
    about = current_process().model_copy(update={"pid": child.pid, "start_ticks": None})
    assert is_running(about) is True
    child.send_signal(signal.SIGKILL)
    assert gone(child.pid)
    assert is_running(about) is False
    child.wait()
    assert is_running(about) is False


def test_another_users_process_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert is_running(current_process()) is True
    monkeypatch.setattr(process, "_start_ticks", lambda pid: None)  # its folder is hidden
    assert other(start_ticks=1) is True
