"""Which process runs something, told so that a later reader can say whether it still does."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from jobs.record import Process

_PROC = Path("/proc")


def current_process() -> Process:
    """This process, as it is written down before it starts anything."""
    return Process(
        host=socket.gethostname(),
        pid=os.getpid(),
        boot_id=_boot_id(),
        pid_namespace=_pid_namespace(),
        start_ticks=_start_ticks(os.getpid()),
    )


def is_running(process: Process) -> bool | None:
    """Whether a process that was written down still runs.

    Args:
        process: As `this_process` told it, maybe on another machine or before a reboot.

    Returns:
        None where nobody can tell from here: another host, or another container of this one.
    """
    if process.host != socket.gethostname() or process.pid <= 0:
        return None
    if process.boot_id is not None and process.boot_id != _boot_id():
        return False  # the machine has been started anew since
    if process.pid_namespace is not None and process.pid_namespace != _pid_namespace():
        return None
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's
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
    """When a process started, in the kernel's ticks since the boot; 0 once it is dead."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()  # a program's name may hold anything
    return 0 if state in "ZX" else int(fields[18])
