"""Writes the record of a process that left none: its cause, from its exit status and output.

Runs on the node with the standard library only.
"""

from __future__ import annotations

import os
import re
import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.causes import cause_of
from jobs.files import attempt_number, open_regular, read_json
from jobs.span import Span
from jobs.text import mask_secrets, parse_int

TAIL_LINES = 20
TAIL_BYTES = 16_384


@dataclass
class ProcessEnd:
    """How a child ended, or why it did not start.

    Attributes:
        returncode: As in subprocess: negative for a signal.
        timed_out: True if it was ended at its own time limit.
        stopped: Cause and reason of a request to stop.
        launch_error: Why it could not be started.
        max_memory_gib: Memory high-water mark.
        oom_kills: Processes that the kernel killed meanwhile at the job's memory limit.
        unlogged: End of its output, if the log is incomplete.
    """

    returncode: int | None = None
    timed_out: bool = False
    stopped: tuple[str, str] | None = None
    launch_error: str | None = None
    max_memory_gib: float | None = None
    oom_kills: int = 0
    unlogged: bytes | None = None

    def last_lines(self, attempt: Path) -> tuple[list[str], int | None]:
        """Return the last lines of the output, and their offset in `output.log`."""
        if self.unlogged is None:
            return tail(attempt / "output.log")
        return self.unlogged.decode("utf-8", "replace").splitlines()[-TAIL_LINES:], None

    def cause(self, lines: list[str], limit_s: float | None) -> tuple[str, str]:
        """Return the cause and the reason."""
        if self.launch_error:
            return "launch_failed", f"the node's interpreter did not start: {self.launch_error}"
        if self.stopped:
            return self.stopped
        if self.timed_out:
            return "timeout", f"still running after its limit of {limit_s or 0:g} s"
        code = self.returncode or 0
        if self.oom_kills and code != 0:
            return "out_of_memory_host", "the kernel killed it at the job's memory limit"
        if code < 0:
            return "crashed", f"the process was ended by {_signal_name(-code)}"
        match = cause_of(lines)
        if match is not None:
            return match[0], match[1].strip()[:300]
        return "exception", f"the process ended with exit code {code} and left no record"


def record_of_death(
    point_file: Path,
    attempt: Path,
    job_id: str,
    end: ProcessEnd,
    span: Span,
    limit_s: float | None = None,
) -> dict[str, Any]:
    """Return the record of an attempt whose process left none, as JSON data."""
    lines, offset = end.last_lines(attempt)
    cause, reason = end.cause(lines, limit_s)
    if end.max_memory_gib is not None:
        reason += f" (at most {end.max_memory_gib:.2f} GiB of memory)"
    place = {} if offset is None else {"file": "output.log", "offset": offset}
    point = _read_object(point_file)
    return {
        "schema_version": 1,
        "identity": {
            "point_id": point.get("point_id", attempt.parent.name),
            "sweep_id": point.get("sweep_id"),
            "job_id": job_id,
            "raw_job_id": os.environ.get("SLURM_JOB_ID"),
            "attempt": attempt_number(attempt) or 1,
            "restart_count": parse_int(os.environ.get("SLURM_RESTART_COUNT", "0")) or 0,
        },
        "config": point.get("point", {}),
        "environment": {"host": socket.gethostname()},
        "outcome": "ERROR",
        "cause": cause,
        "reason": reason,
        "evidence": [{"lines": lines, **place}] if lines else [],
        **span.times(),
        "command": point.get("command"),
    }


def oom_kills(proc: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the kernel's count of processes killed in this job's memory cgroup, 0 if unknown.

    Args:
        proc: The cgroups of this process.
        root: Their mount point.
    """
    try:
        rows = [line.split(":", 2) for line in proc.read_text().splitlines()]
    except OSError:
        return 0
    for _, controllers, path in (row for row in rows if len(row) == 3):
        group = path.lstrip("/")
        if "memory" in controllers.split(","):
            file = root / "memory" / group / "memory.oom_control"
        elif not controllers:
            file = root / group / "memory.events"
        else:
            continue
        try:
            match = re.search(r"^oom_kill (\d+)$", file.read_text(), re.MULTILINE)
        except OSError:
            continue
        if match:
            return int(match[1])
    return 0


def tail(path: Path) -> tuple[list[str], int]:
    """Return the last lines of a log, secrets masked, and the offset at which they start."""
    try:
        with open_regular(path) as handle:
            size = handle.seek(0, os.SEEK_END)
            handle.seek(max(0, size - TAIL_BYTES))
            data = handle.read()
    except OSError:
        return [], 0
    kept = b"".join(data.splitlines(keepends=True)[-TAIL_LINES:])
    return mask_secrets(kept.decode("utf-8", "replace")).splitlines(), size - len(kept)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _read_object(path: Path) -> dict[str, Any]:
    try:
        data = read_json(path)
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}
