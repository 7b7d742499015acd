"""The record of a process that left none: its cause, told from how it ended and what it printed.

It runs on the node with the standard library alone.
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
from jobs.files import open_regular, read_json
from jobs.span import Span
from jobs.text import mask_secrets, parse_int

TAIL_LINES = 20
TAIL_BYTES = 16_384


@dataclass
class Seen:
    """How a child ended, or why it never began.

    Attributes:
        returncode: As subprocess counts it: negative for a signal.
        timed_out: It was ended at its own time limit.
        stopped: Why whoever watches it was told to stop: (cause, reason).
        launch_error: Why it could not be started.
        max_memory_gib: Its memory high-water mark.
        oom_kills: Processes that the kernel killed meanwhile for the job's memory limit.
        unlogged: Its last words, where its log could not be written whole.
    """

    returncode: int | None = None
    timed_out: bool = False
    stopped: tuple[str, str] | None = None
    launch_error: str | None = None
    max_memory_gib: float | None = None
    oom_kills: int = 0
    unlogged: bytes | None = None


def record_of_death(
    point_file: Path,
    attempt: Path,
    job_id: str,
    seen: Seen,
    span: Span,
    limit_s: float | None = None,
) -> dict[str, Any]:
    """Writes down what is known of an attempt whose process left no record.

    Args:
        point_file: What the planner wrote for the node.
        attempt: The attempt's folder, with its `output.log`.
        job_id: The job as people type it.
        seen: How the process ended.
        span: Since when it ran.
        limit_s: Its time limit.

    Returns:
        A record as JSON holds it, with outcome ERROR.
    """
    lines, offset = _last_words(attempt, seen)
    cause, reason = _cause(seen, lines, limit_s)
    if seen.max_memory_gib is not None:
        reason += f" (at most {seen.max_memory_gib:.2f} GiB of memory)"
    point = _read_json(point_file)
    return {
        "schema_version": 1,
        "identity": _identity(point, attempt, job_id),
        "config": point.get("point", {}),
        "environment": {"host": socket.gethostname()},
        "outcome": "ERROR",
        "cause": cause,
        "reason": reason,
        "evidence": _evidence(lines, offset),
        **span.as_recorded(),
        "command": point.get("command"),
    }


def oom_kills(proc: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> int:
    """How many processes of this job's memory cgroup the kernel has killed so far.

    Args:
        proc: Which cgroups this process is in.
        root: Where they are mounted.

    Returns:
        The kernel's count, 0 where there is none to read.
    """
    try:
        rows = [line.split(":", 2) for line in proc.read_text().splitlines()]
    except OSError:
        return 0
    for _, controllers, path in (row for row in rows if len(row) == 3):
        group = path.lstrip("/")
        if "memory" in controllers.split(","):
            files = [root / "memory" / group / "memory.oom_control"]
        elif not controllers:
            files = [root / group / "memory.events"]
        else:
            continue
        for file in files:
            try:
                found = re.search(r"^oom_kill (\d+)$", file.read_text(), re.MULTILINE)
            except OSError:
                continue
            if found:
                return int(found[1])
    return 0


def _last_words(attempt: Path, seen: Seen) -> tuple[list[str], int | None]:
    if seen.unlogged is None:
        return tail(attempt / "output.log")
    return seen.unlogged.decode("utf-8", "replace").splitlines()[-TAIL_LINES:], None


def _evidence(lines: list[str], offset: int | None) -> list[dict[str, Any]]:
    place = {} if offset is None else {"file": "output.log", "offset": offset}
    return [{"lines": lines, **place}] if lines else []


def tail(path: Path) -> tuple[list[str], int]:
    """A log's last lines and the offset at which they begin."""
    try:
        with open_regular(path) as handle:
            size = handle.seek(0, os.SEEK_END)
            handle.seek(max(0, size - TAIL_BYTES))
            data = handle.read()
    except OSError:
        return [], 0
    kept = b"".join(data.splitlines(keepends=True)[-TAIL_LINES:])
    return mask_secrets(kept.decode("utf-8", "replace")).splitlines(), size - len(kept)


def _cause(seen: Seen, lines: list[str], limit_s: float | None) -> tuple[str, str]:
    if seen.launch_error:
        return "launch_failed", f"the node's interpreter did not start: {seen.launch_error}"
    if seen.stopped:
        return seen.stopped
    if seen.timed_out:
        return "timeout", f"still running after its limit of {limit_s or 0:g} s"
    code = seen.returncode or 0
    if seen.oom_kills and code != 0:
        return "out_of_memory_host", "the kernel killed it at the job's memory limit"
    if code < 0:
        return "crashed", f"the process was ended by {_signal_name(-code)}"
    named = cause_of(lines)
    if named is not None:
        return named[0], named[1].strip()[:300]
    return "exception", f"the process ended with exit code {code} and left no record"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _identity(point: dict[str, Any], attempt: Path, job_id: str) -> dict[str, Any]:
    restarts = os.environ.get("SLURM_RESTART_COUNT", "0")
    return {
        "point_id": point.get("point_id", attempt.parent.name),
        "sweep_id": point.get("sweep_id"),
        "job_id": job_id,
        "raw_job_id": os.environ.get("SLURM_JOB_ID"),
        "attempt": int(attempt.name.rpartition("-")[2]),
        "restart_count": parse_int(restarts) or 0,
    }


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = read_json(path)
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}
