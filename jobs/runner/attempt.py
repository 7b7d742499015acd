"""Runs one point in a child process and leaves a record, whatever happens to the child.

Runs on the node, under submitit or inside `launch.py`, with the standard library only: a node with
a broken torch or pydantic still leaves an honest record. Each point of a slot has a process of its
own, so a CUDA fault, an OOM kill or a `sys.exit` costs that point alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
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
from jobs.runner.postmortem import ProcessEnd, oom_kills, record_of_death
from jobs.span import Span

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
GRACE_S = 10.0
# A signal to the whole job reaches the child and this process in any order.
_SETTLE_S = 1.0

NO_RECORD = re.compile(r"no record of (\S+) could be written")
"""Matches the log line of a point whose record could not be written; `collect` looks for it."""


class StopRequest(BaseException):
    """A request to end the running point.

    Signal handlers only note it and `PollStop` returns it. Raised from a handler it would be lost
    wherever Python swallows exceptions, for example between a fork and an exec.

    Args:
        cause: Cause for the record; None leaves no record, because the scheduler knows the cause.
        reason: One line.
        at_once: Skip the child's grace period.
    """

    def __init__(self, cause: str | None, reason: str, *, at_once: bool = False) -> None:
        super().__init__(reason)
        self.cause = cause
        self.reason = reason
        self.at_once = at_once


PollStop = Callable[[], StopRequest | None]
"""Returns the pending request to stop; called a few times a second."""


@dataclass(frozen=True)
class PointRunner:
    """Starts the points of one job and watches them.

    Attributes:
        python: Absolute path of the interpreter.
        root: Checkout or snapshot, for the child's PYTHONPATH.
        job_id: Job id as users type it.
        time_limit_s: Time limit of each point.
        env: Variables added to the child's environment.
        max_log_mib: Size limit of a point's log.
    """

    python: str
    root: str
    job_id: str
    time_limit_s: float | None = None
    env: Mapping[str, str] | None = None
    max_log_mib: int | None = None

    def run(
        self, point_file: Path, point_folder: Path, poll_stop: PollStop | None = None
    ) -> dict[str, Any]:
        """Run a point as a new attempt and return the summary of its record.

        Raises:
            OSError: The attempt's folder or its record cannot be written; the message says how
                the process ended.
            StopRequest: From `poll_stop`, after the process was ended and, if the request has a
                cause, recorded.
        """
        attempt = new_attempt(point_folder)
        reserve_space(attempt)
        span = Span()
        earlier_kills = oom_kills()
        stop: StopRequest | None = None
        end = ProcessEnd()
        max_bytes = None if self.max_log_mib is None else self.max_log_mib * 2**20
        log = ChildLog(attempt / "output.log", max_bytes)
        try:
            self._watch(point_file, attempt, log, end, poll_stop)
        except StopRequest as request:
            stop = request
            if request.cause is not None:
                end.stopped = (request.cause, request.reason)
        finally:
            log.close()
        if log.error is not None:
            end.unlogged = log.tail
        end.oom_kills = oom_kills() - earlier_kills
        for unfinished in attempt.glob(".*.json.*"):  # the process died while writing it
            with contextlib.suppress(OSError):
                unfinished.unlink()
        write_error: OSError | None = None
        if not (attempt / "record.json").exists() and not (stop and stop.cause is None):
            record = record_of_death(
                point_file, attempt, self.job_id, end, span, self.time_limit_s
            )
            write_error = _write_record(attempt / "record.json", record)
        release_space(attempt)
        if write_error is not None:
            _append(attempt / "output.log", no_record_line(point_folder.name, write_error))
        if stop is not None:
            raise stop
        if write_error is not None:
            raise write_error
        return read_outcome(attempt)

    def _watch(
        self,
        point_file: Path,
        attempt: Path,
        log: ChildLog,
        end: ProcessEnd,
        poll_stop: PollStop | None,
    ) -> None:
        _raise_stop(poll_stop)
        command = [self.python, "-m", "jobs.node", str(point_file), str(attempt)]
        try:
            child = _Child(command, attempt, self._child_env(log.write_end), log.write_end)
        except OSError as error:
            end.launch_error = f"{self.python}: {error.strerror}"
            return
        try:
            log.start()
            end.timed_out = not child.wait(self.time_limit_s, poll_stop)
            if end.timed_out:
                child.terminate(poll_stop)
            end.returncode, end.max_memory_gib = child.returncode, child.max_memory_gib
            if end.returncode in (-signal.SIGTERM, -signal.SIGKILL):
                time.sleep(_SETTLE_S)  # a signal to the whole job arrives here meanwhile
                _raise_stop(poll_stop)
        except BaseException:  # whatever it is: the child must not outlive its parent
            if child.returncode is None:
                child.terminate(poll_stop)
            end.returncode = child.returncode
            raise

    def _child_env(self, log_descriptor: int) -> dict[str, str]:
        env = {**os.environ, **(self.env or {})}
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (self.root, env.get("PYTHONPATH"))))
        env["PYTHONUNBUFFERED"] = "1"
        env["MXFP8_JOB_ID"] = self.job_id
        env[LOG_PIPE] = pipe_name(log_descriptor)
        return env


class _Child:
    """The process of one point, leader of its own process group.

    Attributes:
        returncode: As in subprocess: negative for a signal, None while running.
        max_memory_gib: Memory high-water mark, known at the end.
    """

    def __init__(self, command: list[str], cwd: Path, env: dict[str, str], output: int) -> None:
        self.returncode: int | None = None
        self.max_memory_gib: float | None = None
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=env,
            # `-m` searches the working directory first: a folder `jobs` there would be imported.
            cwd=cwd,
            start_new_session=True,
            preexec_fn=_tie_to_parent(os.getpid()),
        )

    def wait(self, limit_s: float | None, poll_stop: PollStop | None = None) -> bool:
        """Wait for the end; return False at the time limit.

        Raises:
            StopRequest: From `poll_stop`.
        """
        deadline = time.monotonic() + (float("inf") if limit_s is None else limit_s)
        pause_s = 0.01
        while not self._reap():
            _raise_stop(poll_stop)
            if time.monotonic() >= deadline:
                return False
            time.sleep(pause_s)
            pause_s = min(0.2, pause_s * 1.5)
        return True

    def terminate(self, poll_stop: PollStop | None) -> None:
        """Send SIGTERM to the group, and SIGKILL after a grace period or at a second request."""

        def second_request() -> StopRequest | None:
            stop = poll_stop() if poll_stop else None
            return stop if stop is not None and stop.at_once else None

        self._signal_group(signal.SIGTERM)
        with contextlib.suppress(StopRequest):
            if self.wait(GRACE_S, second_request):
                return
        self._signal_group(signal.SIGKILL)
        self.wait(None)

    def _reap(self) -> bool:
        # wait4 rather than Popen.wait: it reports this child's memory high-water mark.
        pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
        if not pid:
            return False
        self.returncode = self._process.returncode = os.waitstatus_to_exitcode(status)
        self.max_memory_gib = usage.ru_maxrss / 2**20
        self._signal_group(signal.SIGKILL)  # nothing that the point started outlives it
        return True

    def _signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def no_record_line(point_id: str, error: OSError) -> str:
    """Return the log line of a point whose record cannot be written; matches `NO_RECORD`."""
    return f"no record of {point_id} could be written: {error}"


def read_outcome(attempt: Path) -> dict[str, Any]:
    """Return folder, outcome, cause and reason of an attempt; an unreadable record is lost."""
    try:
        record = read_json(attempt / "record.json", inside=attempt)
        summary = {name: record.get(name) for name in ("outcome", "cause", "reason")}
    except (OSError, ValueError, AttributeError) as error:
        summary = {"outcome": "ERROR", "cause": "lost", "reason": f"its record: {error}"}
    return {"attempt": str(attempt), **summary}


def _append(log: Path, line: str) -> None:
    # The point may have replaced its log by anything, a FIFO or a link included.
    with contextlib.suppress(OSError):
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"\n{line}\n")


def _write_record(path: Path, record: dict[str, Any]) -> OSError | None:
    """Write a record; return the error, extended by the outcome, if that fails."""
    try:
        write_atomic(path, json.dumps(record, indent=2) + "\n")
    except OSError as error:
        outcome = f"{record['outcome']} {record['cause']}: {record['reason']}"
        return OSError(error.errno, f"{error.strerror}; it ended as {outcome}", str(path))
    return None


def _tie_to_parent(parent: int) -> Callable[[], None] | None:
    """Return a function that makes a child die with its parent; None outside Linux.

    Otherwise the node process of a killed `launch.py` keeps running, and its record arrives after
    that of the attempt with which `resume` replaced it.
    """
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl  # loaded before the fork: the child may only call it

    def tie() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died in between
            os.kill(os.getpid(), signal.SIGKILL)

    return tie


def _raise_stop(poll_stop: PollStop | None) -> None:
    stop = poll_stop() if poll_stop else None
    if stop is not None:
        raise stop
