"""What starts a point's process, watches it, and writes a record if it left none.

It runs on the node, under submitit or under `launch.py` itself, with the standard library alone:
a node whose torch or pydantic is broken still leaves an honest record. Each point of a slot is a
child of its own, so that a CUDA fault, an OOM kill or a `sys.exit` costs that point alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jobs.files import new_attempt, write_whole

TAIL_LINES = 20
TAIL_BYTES = 16_384
GRACE_S = 10.0

_CAUSES = (
    (
        re.compile(r"(ModuleNotFoundError|ImportError|cannot open shared object|No module named)"),
        "import_error",
    ),
    (re.compile(r"(OutOfMemoryError|CUDA out of memory)"), "out_of_memory_gpu"),
    (re.compile(r"(^MemoryError|DefaultCPUAllocator: not enough memory)"), "out_of_memory_host"),
)


@dataclass(frozen=True)
class Child:
    """How a point's process is started.

    Attributes:
        python: The interpreter, absolute.
        root: The checkout, or its snapshot: the child's PYTHONPATH.
        job_id: The job as people type it.
        time_limit_s: Seconds until the process is ended; None: no limit of its own.
        env: Variables added to the child's environment.
    """

    python: str
    root: str
    job_id: str
    time_limit_s: float | None = None
    env: Mapping[str, str] | None = None


def run_point(point_file: Path, point_folder: Path, child: Child) -> dict[str, Any]:
    """Runs one point as a new attempt.

    Args:
        point_file: What the planner wrote for the node.
        point_folder: The point's folder under its job; the attempt is made in it.
        child: How the process is started.

    Returns:
        `{"attempt": folder, "outcome": ..., "cause": ..., "reason": ...}`, from the record.

    Raises:
        OSError: The attempt's folder cannot be made or written.
        KeyboardInterrupt: Passed on, after the process was ended and recorded as cancelled.
    """
    attempt = new_attempt(point_folder)
    started = time.time()
    with (attempt / "output.log").open("ab") as log:
        seen = _watch([child.python, "-m", "jobs.node", str(point_file), str(attempt)], child, log)
    record_path = attempt / "record.json"
    if not record_path.exists():
        record = _record_of_death(point_file, attempt, child, seen, started)
        write_whole(record_path, json.dumps(record, indent=2) + "\n")
    if seen.interrupted:
        raise KeyboardInterrupt
    record = json.loads(record_path.read_text(encoding="utf-8"))
    kept = {name: record.get(name) for name in ("outcome", "cause", "reason")}
    return {"attempt": str(attempt), **kept}


@dataclass
class _Seen:
    """How a child ended: its return code, or why it never began."""

    returncode: int | None = None
    timed_out: bool = False
    interrupted: bool = False
    launch_error: str | None = None
    max_memory_gib: float | None = None


def _watch(command: list[str], child: Child, log: Any) -> _Seen:  # noqa: ANN401 - a binary file
    env = {**os.environ, **(child.env or {})}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (child.root, env.get("PYTHONPATH"))))
    env["PYTHONUNBUFFERED"] = "1"
    env["MXFP8_JOB_ID"] = child.job_id
    seen = _Seen()
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=env,
            start_new_session=True,
        )
    except OSError as error:
        seen.launch_error = f"{command[0]}: {error.strerror}"
        return seen
    try:
        _, status, usage = _wait(process, child.time_limit_s)
        seen.timed_out = usage is None
        if usage is None:
            status, usage = _end(process)
        seen.returncode = os.waitstatus_to_exitcode(status)
        seen.max_memory_gib = usage.ru_maxrss / 2**20
    except KeyboardInterrupt:
        status, _ = _end(process)
        seen.interrupted = True
        seen.returncode = os.waitstatus_to_exitcode(status)
    return seen


def _wait(process: subprocess.Popen[bytes], limit_s: float | None) -> tuple[int, int, Any]:
    """Waits for the child itself, by wait4, for its memory high-water mark."""
    if limit_s is None:
        return os.wait4(process.pid, 0)
    deadline = time.monotonic() + limit_s
    pause = 0.01
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            return pid, status, usage
        if time.monotonic() >= deadline:
            return 0, 0, None
        time.sleep(pause)
        pause = min(0.2, pause * 1.5)


def _end(process: subprocess.Popen[bytes]) -> tuple[int, Any]:
    """Ends the child and all it started: TERM, then KILL after a grace."""
    for sign, grace in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        pid, status, usage = _wait(process, grace)
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return status, usage
    raise AssertionError("a killed process was not waited for")


def _record_of_death(
    point_file: Path, attempt: Path, child: Child, seen: _Seen, started: float
) -> dict[str, Any]:
    lines, offset = _tail(attempt / "output.log")
    cause, reason = _cause(seen, lines, child.time_limit_s)
    if seen.max_memory_gib is not None:
        reason += f" (at most {seen.max_memory_gib:.2f} GiB of memory)"
    point = _read_json(point_file)
    finished = time.time()
    return {
        "schema_version": 1,
        "identity": _identity(point, attempt, child.job_id),
        "config": point.get("point", {}),
        "environment": {"host": socket.gethostname()},
        "outcome": "ERROR",
        "cause": cause,
        "reason": reason,
        "evidence": [{"lines": lines, "file": "output.log", "offset": offset}] if lines else [],
        "started_at": _iso(started),
        "finished_at": _iso(finished),
        "duration_s": round(finished - started, 3),
        "command": point.get("command"),
    }


def _cause(seen: _Seen, lines: list[str], limit_s: float | None) -> tuple[str, str]:
    if seen.launch_error:
        return "launch_failed", f"the node's interpreter did not start: {seen.launch_error}"
    if seen.interrupted:
        return "cancelled", "interrupted from the keyboard"
    if seen.timed_out:
        return "timeout", f"still running after its limit of {limit_s:g} s"
    code = seen.returncode or 0
    if code < 0:
        return "crashed", f"the process was ended by {_signal_name(-code)}"
    text = "\n".join(lines)
    for pattern, cause in _CAUSES:
        if pattern.search(text):
            matching = [line for line in lines if pattern.search(line)]
            return cause, matching[-1].strip()[:300]
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
        "restart_count": int(restarts) if restarts.isdecimal() else 0,
    }


def _tail(path: Path) -> tuple[list[str], int]:
    """The log's last lines and where they begin."""
    try:
        with path.open("rb") as handle:
            size = handle.seek(0, os.SEEK_END)
            handle.seek(max(0, size - TAIL_BYTES))
            data = handle.read()
    except OSError:
        return [], 0
    kept = b"".join(data.splitlines(keepends=True)[-TAIL_LINES:])
    return kept.decode("utf-8", "replace").splitlines(), size - len(kept)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
