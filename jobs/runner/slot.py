"""Runs the points of one SLURM job or array task, one after another.

submitit unpickles `run_slot` on the node. This module uses the standard library only and travels
in the sweep's folder with everything that it imports.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any

from jobs.files import attempt_folders, new_attempt, read_json, write_atomic
from jobs.runner.attempt import (
    PointRunner,
    PollStop,
    StopRequest,
    no_record_line,
    read_outcome,
)
from jobs.runner.postmortem import ProcessEnd, record_of_death
from jobs.span import Span
from jobs.text import parse_int

JOB_UPTIME = "MXFP8_JOB_UPTIME"
"""Variable with the node's uptime when the job script started."""
# The scheduler may send its warning a minute early.
_WARNING_SLACK_S = 75.0
_JOB_TIMES = ("START", "END")
_RETRIED = frozenset(
    {"node_fail", "preempted", "launch_failed", "container_failed", "storage", "lost"}
)


def run_slot(submission_json: str) -> list[dict[str, Any]]:
    """Run every point of this task that has no final record yet, and return their summaries.

    A requeued job calls this again and continues; finished points stay as they are.

    Args:
        submission_json: File written before the submission: the tasks and how to run them.

    Raises:
        SystemExit: The job was asked to end (the scheduler knows why, so no record is written),
            or a record could not be written.
    """
    return Slot(read_json(Path(submission_json))).run()


class Slot:
    """The points of one task.

    Args:
        submission: Content of the submission file.
    """

    def __init__(self, submission: dict[str, Any]) -> None:
        self.sweep = Path(submission["sweep"])
        raw = os.environ["SLURM_JOB_ID"]
        array, task = (os.environ.get(f"SLURM_ARRAY_{name}_ID") for name in ("JOB", "TASK"))
        self.folder = self.sweep / (array or raw)
        self.points: list[str] = submission["tasks"][task or "0"]
        self.poll_stop = _handle_signals(submission["warning_s"], submission["time_min"])
        # A snapshot lies inside the checkout, and git must not take it for the checkout.
        in_snapshot = Path(submission["root"]).is_relative_to(self.sweep)
        self.runner = PointRunner(
            python=submission["python"],
            root=submission["root"],
            job_id=f"{array}_{task}" if array else raw,
            time_limit_s=submission["point_time_limit_s"],
            env={"GIT_CEILING_DIRECTORIES": submission["sweep"]} if in_snapshot else {},
            max_log_mib=submission["max_log_mib"],
        )
        self.stop: StopRequest | None = None

    def run(self) -> list[dict[str, Any]]:
        """Run the points in order, and return their summaries."""
        summaries: list[dict[str, Any]] = []
        write_failed = False
        for number, point_id in enumerate(self.points, 1):
            _log(f"point {number} of {len(self.points)}: {point_id}")
            try:
                summary = self._run_point(point_id)
            except OSError as error:  # a full disk, a folder that is gone: continue with the rest
                write_failed = True
                reason = no_record_line(point_id, error)
                summary = {"outcome": "ERROR", "cause": "lost", "reason": reason}
            fields = (summary[key] or "" for key in ("outcome", "cause", "reason"))
            _log(f"  {' '.join(fields)}".rstrip())
            summaries.append({"point_id": point_id, **summary})
        signal.setitimer(signal.ITIMER_REAL, 0)
        if write_failed:
            raise SystemExit(os.EX_IOERR)
        return summaries

    def _run_point(self, point_id: str) -> dict[str, Any]:
        point_file = self.sweep / "points" / f"{point_id}.json"
        point_folder = self.folder / point_id
        self.stop = self.stop or self.poll_stop()
        summary = _final_outcome(point_folder)
        if summary is None and self.stop is None:
            try:
                summary = self.runner.run(point_file, point_folder, self.poll_stop)
            except StopRequest as stop:
                self.stop = stop
        if self.stop is not None and self.stop.cause is None:
            _log(self.stop.reason)
            raise SystemExit(128 + signal.SIGTERM)
        return (
            summary
            or _final_outcome(point_folder)
            or self._record_not_started(point_file, point_folder)
        )

    def _record_not_started(self, point_file: Path, point_folder: Path) -> dict[str, Any]:
        attempt = new_attempt(point_folder)
        end = ProcessEnd(stopped=("timeout", "not started: its job's time limit came first"))
        record = record_of_death(point_file, attempt, self.runner.job_id, end, Span())
        write_atomic(attempt / "record.json", json.dumps(record, indent=2) + "\n")
        return read_outcome(attempt)


def time_left_s(time_min: int, variables: Mapping[str, str] | None = None) -> float:
    """Return the seconds until the job's time limit of `time_min` minutes, or its moved end.

    The clocks of scheduler and node may differ by hours, so only timestamps of the same clock are
    subtracted.
    """
    variables = os.environ if variables is None else variables
    limit_s = time_min * 60.0
    start, end = (parse_int(variables.get(f"SLURM_JOB_{name}_TIME", "")) for name in _JOB_TIMES)
    if start is not None and end is not None:
        limit_s = min(limit_s, float(end - start))
    try:
        spent_s = time.clock_gettime(time.CLOCK_BOOTTIME) - float(variables[JOB_UPTIME])
    except (KeyError, ValueError):
        spent_s = 0.0
    return limit_s - max(0.0, spent_s)


def _handle_signals(warning_s: float, time_min: int) -> PollStop:
    """Install handlers that note why the running point has to end, and an alarm near the end."""
    requests: list[StopRequest] = []
    left_s = time_left_s(time_min)
    deadline = time.monotonic() + left_s

    def on_alarm(number: int, frame: FrameType | None) -> None:
        reason = f"still running when its job's time limit of {time_min} min came near"
        requests.append(StopRequest("timeout", reason))

    def on_warning(number: int, frame: FrameType | None) -> None:
        # On a short job the warning may come a minute early, and our own alarm is exact. A warning
        # long before the known end means that somebody has moved the end.
        if deadline - time.monotonic() > warning_s + _WARNING_SLACK_S:
            reason = "the scheduler warned that its job's time limit was near"
            requests.append(StopRequest("timeout", reason))

    def on_termination(number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        requests.append(StopRequest(None, f"the job was asked to end ({name})"))

    signal.signal(signal.SIGALRM, on_alarm)
    signal.signal(signal.SIGUSR2, on_warning)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_termination)
    signal.setitimer(signal.ITIMER_REAL, max(1.0, left_s - min(warning_s, left_s / 6)))
    return lambda: requests[0] if requests else None


def _final_outcome(point_folder: Path) -> dict[str, Any] | None:
    """Return the newest outcome that needs no retry, None if the point has to run."""
    for attempt in reversed(attempt_folders(point_folder)):
        if not (attempt / "record.json").exists():
            continue
        summary = read_outcome(attempt)
        if summary.get("cause") not in _RETRIED:
            return summary
    return None


def _log(line: str) -> None:
    with contextlib.suppress(OSError):  # the log may be on a full disk
        print(f"[{datetime.now():%H:%M:%S}] {line}", flush=True)
