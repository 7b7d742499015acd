"""What starts a point's process, watches it, and writes a record if it left none.

It runs on the node, under submitit or under `launch.py` itself, with the standard library alone:
a node whose torch or pydantic is broken still leaves an honest record. Each point of a slot is a
child of its own, so that a CUDA fault, an OOM kill or a `sys.exit` costs that point alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.files import new_attempt, read_json, release_space, reserve_space, write_atomic
from jobs.log_pipe import LOG_PIPE, pipe_name
from jobs.runner.child_log import ChildLog
from jobs.runner.postmortem import Seen, oom_kills, record_of_death
from jobs.span import Span

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
GRACE_S = 10.0
# A signal to the whole job reaches the child and this process in any order.
_SETTLE_S = 1.0


@dataclass(frozen=True)
class Child:
    """How a point's process is started.

    Attributes:
        python: The interpreter, absolute.
        root: The checkout, or its snapshot: the child's PYTHONPATH.
        job_id: The job as people type it.
        time_limit_s: Seconds until the process is ended; None: no limit of its own.
        env: Variables added to the child's environment.
        max_log_mib: What its log may hold; None: no bound.
    """

    python: str
    root: str
    job_id: str
    time_limit_s: float | None = None
    env: Mapping[str, str] | None = None
    max_log_mib: int | None = None


class StopError(BaseException):
    """Whoever runs points was told to stop: end the child, and say why.

    A signal handler only notes it. Raised there it would be lost wherever Python swallows
    exceptions, as it does between a fork and what follows.

    Args:
        cause: What the record will say; None: leave no record, the scheduler knows why.
        reason: One line.
        at_once: Whether the child gets no time to end by itself.
    """

    def __init__(self, cause: str | None, reason: str, *, at_once: bool = False) -> None:
        super().__init__(reason)
        self.cause = cause
        self.reason = reason
        self.at_once = at_once


AskStop = Callable[[], StopError | None]
"""Tells whether whoever runs points was told to stop; asked a few times a second."""


def run_point(
    point_file: Path, point_folder: Path, child: Child, ask_stop: AskStop | None = None
) -> dict[str, Any]:
    """Runs one point as a new attempt.

    Args:
        point_file: What the planner wrote for the node.
        point_folder: The point's folder under its job; the attempt is made in it.
        child: How the process is started.
        ask_stop: Asked while the process runs; None: nobody tells it to stop.

    Returns:
        `{"attempt": folder, "outcome": ..., "cause": ..., "reason": ...}`, from the record.

    Raises:
        OSError: The attempt's folder cannot be made, or its record not be written; the text then
            tells how the process ended.
        StopError: What `ask_stop` told, after the process was ended and, where it names a cause,
            recorded.
    """
    attempt = new_attempt(point_folder)
    reserve_space(attempt)
    span = Span()
    killed_before = oom_kills()
    stop: StopError | None = None
    seen = Seen()
    max_bytes = None if child.max_log_mib is None else child.max_log_mib * 2**20
    log = ChildLog(attempt / "output.log", max_bytes)
    try:
        command = [child.python, "-m", "jobs.node", str(point_file), str(attempt)]
        _watch(command, child, attempt, log, seen, ask_stop)
    except StopError as asked:
        stop = asked
        if asked.cause is not None:
            seen.stopped = (asked.cause, asked.reason)
    finally:
        log.close()
    if log.error is not None:
        seen.unlogged = log.last_words
    seen.oom_kills = oom_kills() - killed_before
    for unfinished in attempt.glob(".*.json.*"):  # a file that the process was writing as it died
        with contextlib.suppress(OSError):
            unfinished.unlink()
    unwritten: OSError | None = None
    if not (attempt / "record.json").exists() and not (stop and stop.cause is None):
        record = record_of_death(point_file, attempt, child.job_id, seen, span, child.time_limit_s)
        unwritten = _write_record(attempt / "record.json", record)
    release_space(attempt)
    if unwritten is not None:
        _add_line(attempt / "output.log", unwritten_words(point_folder.name, unwritten))
    if stop is not None:
        raise stop
    if unwritten is not None:
        raise unwritten
    return read_outcome(attempt)


def unwritten_words(point_id: str, error: OSError) -> str:
    """Says, in a log, that a point has no record; `collect` looks for these words."""
    return f"no record of {point_id} could be written: {error}"


def _add_line(log: Path, line: str) -> None:
    """Adds a line to a log, if it can; the point may have put anything in its place."""
    with contextlib.suppress(OSError):
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "w") as end:
            end.write(f"\n{line}\n")


def _write_record(path: Path, record: dict[str, Any]) -> OSError | None:
    """Writes a record; the error if it cannot, with what the record would have said."""
    try:
        write_atomic(path, json.dumps(record, indent=2) + "\n")
    except OSError as error:
        ended = f"{record['outcome']} {record['cause']}: {record['reason']}"
        return OSError(error.errno, f"{error.strerror}; it ended as {ended}", str(path))
    return None


def read_outcome(attempt: Path) -> dict[str, Any]:
    """What an attempt's record says in short; an ERROR where it cannot be read."""
    try:
        record = read_json(attempt / "record.json", inside=attempt)
        kept = {name: record.get(name) for name in ("outcome", "cause", "reason")}
    except (OSError, ValueError, AttributeError) as error:
        kept = {"outcome": "ERROR", "cause": "lost", "reason": f"its record: {error}"}
    return {"attempt": str(attempt), **kept}


def _watch(
    command: list[str],
    child: Child,
    attempt: Path,
    log: ChildLog,
    seen: Seen,
    ask_stop: AskStop | None,
) -> None:
    env = {**os.environ, **(child.env or {})}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (child.root, env.get("PYTHONPATH"))))
    env["PYTHONUNBUFFERED"] = "1"
    env["MXFP8_JOB_ID"] = child.job_id
    env[LOG_PIPE] = pipe_name(log.write_end)
    _raise_asked(ask_stop)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log.write_end,
            stderr=subprocess.STDOUT,
            env=env,
            # `-m` looks into the working directory first: a folder `jobs` there would be run.
            cwd=attempt,
            start_new_session=True,
            preexec_fn=_die_with(os.getpid()),
        )
    except OSError as error:
        seen.launch_error = f"{command[0]}: {error.strerror}"
        return
    try:
        log.start()
        _, status, usage = _wait(process, child.time_limit_s, ask_stop)
        seen.timed_out = usage is None
        if usage is None:
            status, usage = _end(process, ask_stop)
        seen.returncode = os.waitstatus_to_exitcode(status)
        seen.max_memory_gib = usage.ru_maxrss / 2**20
        process.returncode = seen.returncode  # or Popen takes it for still running
        _kill_group(process)  # what the point started must not outlive it
        if seen.returncode in (-signal.SIGTERM, -signal.SIGKILL):
            time.sleep(_SETTLE_S)  # where the whole job was meant, its signal comes meanwhile
            _raise_asked(ask_stop)
    except BaseException:  # whatever it is: no process outlives the one that watches it
        if seen.returncode is None:
            status, _ = _end(process, ask_stop)
            seen.returncode = os.waitstatus_to_exitcode(status)
        raise


def _die_with(parent: int) -> Callable[[], None] | None:
    """What makes a child end when its parent dies, by whatever signal; None where Linux is not.

    Without it the node process of a killed `launch.py` runs on, and its record comes after the
    one of the attempt that `resume` made in its place.
    """
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl  # loaded before the fork: the child may only call it

    def tie() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died in between
            os.kill(os.getpid(), signal.SIGKILL)

    return tie


def _raise_asked(ask_stop: AskStop | None) -> None:
    stop = ask_stop() if ask_stop else None
    if stop is not None:
        raise stop


def _wait(
    process: subprocess.Popen[bytes], limit_s: float | None, ask_stop: AskStop | None = None
) -> tuple[int, int, Any]:
    """Waits for the child itself, by wait4, for its memory high-water mark."""
    if limit_s is None and ask_stop is None:
        return os.wait4(process.pid, 0)
    deadline = time.monotonic() + (float("inf") if limit_s is None else limit_s)
    pause = 0.01
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            return pid, status, usage
        _raise_asked(ask_stop)
        if time.monotonic() >= deadline:
            return 0, 0, None
        time.sleep(pause)
        pause = min(0.2, pause * 1.5)


def _end(process: subprocess.Popen[bytes], ask_stop: AskStop | None) -> tuple[int, Any]:
    """Ends the child and all it started: TERM, then KILL after a grace, or when told again."""

    def ask_hurry() -> StopError | None:
        stop = ask_stop() if ask_stop else None
        return stop if stop is not None and stop.at_once else None

    for sign, grace, hurry in ((signal.SIGTERM, GRACE_S, ask_hurry), (signal.SIGKILL, None, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        try:
            pid, status, usage = _wait(process, grace, hurry)
        except StopError:
            continue
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            _kill_group(process)
            return status, usage
    raise AssertionError("a killed process was not waited for")


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
