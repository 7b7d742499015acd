"""The identity of a process, recorded so that a later reader can check if it is still running."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from jobs.record import Process

_PROC = Path("/proc")


def current_process() -> Process:
    """Return the identity of this process."""
    return Process(
        host=socket.gethostname(),
        pid=os.getpid(),
        boot_id=_boot_id(),
        pid_namespace=_pid_namespace(),
        start_ticks=_start_ticks(os.getpid()),
    )


def is_running(process: Process) -> bool | None:
    """True if a process, recorded maybe elsewhere or before a reboot, is still running.

    None if that is unknown here: on another host, or in another container of this one.
    """
    if process.host != socket.gethostname() or process.pid <= 0:
        return None
    if process.boot_id is not None and process.boot_id != _boot_id():
        return False  # the machine was rebooted
    if process.pid_namespace is not None and process.pid_namespace != _pid_namespace():
        return None
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    except OverflowError:
        return None
    now = _start_ticks(process.pid)
    return now != 0 and (None in (now, process.start_ticks) or now == process.start_ticks)


def _boot_id() -> str | None:
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def _pid_namespace() -> str | None:
    try:
        return os.readlink(_PROC / "self/ns/pid")
    except OSError:
        return None


def _start_ticks(pid: int) -> int | None:
    """Return the start of a process in kernel ticks since the boot; 0 if it is dead."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()  # a program's name may contain anything
    return 0 if state in "ZX" else int(fields[18])
