"""What one SLURM job, or one task of an array, runs: the points of its slot, one after another.

submitit unpickles `run_slot` on the node. It uses the standard library alone, and travels in the
sweep's folder with everything it imports, so that the node's interpreter needs none of it.
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

from jobs.files import new_attempt, read_json, write_atomic
from jobs.runner.entry import (
    AskStop,
    Child,
    StopError,
    read_outcome,
    run_point,
    unwritten_words,
)
from jobs.runner.postmortem import Seen, record_of_death
from jobs.span import Span
from jobs.text import parse_int

JOB_UPTIME = "MXFP8_JOB_UPTIME"
"""The variable that tells how long the node had been up when the job's script began there."""
# The scheduler may warn a minute earlier than it was asked to.
_WARNING_SLACK_S = 75.0
_RETRIED = frozenset(
    {"node_fail", "preempted", "launch_failed", "container_failed", "storage", "lost"}
)


def run_slot(submission_json: str) -> list[dict[str, Any]]:
    """Runs every point of this task that has no final record yet.

    A requeued job runs this again and goes on where it was; what it had finished stays.

    Args:
        submission_json: What was written before the submission: the tasks and how to run them.

    Returns:
        What became of each point, in short; the records are the truth.

    Raises:
        SystemExit: The job was told to end; the scheduler knows why, so no record says more. Or
            a record could not be written: the job's log says so, and its exit code.
    """
    asked = read_json(Path(submission_json))
    job_id, folder = _job(Path(asked["sweep"]))
    points = asked["tasks"][os.environ.get("SLURM_ARRAY_TASK_ID", "0")]
    ask_stop = _handle_signals(asked["warning_s"], asked["time_min"])
    child = Child(
        python=asked["python"],
        root=asked["root"],
        job_id=job_id,
        time_limit_s=asked["point_time_limit_s"],
        env=_environment(asked),
        max_log_mib=asked["max_log_mib"],
    )
    ended: list[dict[str, Any]] = []
    stopped: StopError | None = None
    unwritten = False
    for number, point_id in enumerate(points, 1):
        point_file = Path(asked["sweep"]) / "points" / f"{point_id}.json"
        point_folder = folder / point_id
        _say(f"point {number} of {len(points)}: {point_id}")
        stopped = stopped or ask_stop()
        try:
            known, stopped = _turn(point_file, point_folder, child, ask_stop, stopped)
        except OSError as error:  # a full disk, a folder that went away: the rest still runs
            unwritten = True
            reason = unwritten_words(point_id, error)
            known = {"outcome": "ERROR", "cause": "lost", "reason": reason}
        _say(
            f"  {known['outcome']} {known.get('cause') or ''} {known.get('reason') or ''}".rstrip()
        )
        ended.append({"point_id": point_id, **known})
    signal.setitimer(signal.ITIMER_REAL, 0)
    if unwritten:
        raise SystemExit(os.EX_IOERR)
    return ended


def _turn(
    point_file: Path,
    point_folder: Path,
    child: Child,
    ask_stop: AskStop,
    stopped: StopError | None,
) -> tuple[dict[str, Any], StopError | None]:
    """A point's turn: how it ended, in short, and whether the job has to stop after it."""
    known = _finished(point_folder)
    if known is None and stopped is None:
        try:
            known = run_point(point_file, point_folder, child, ask_stop)
        except StopError as stop:
            stopped = stop
    if stopped is not None and stopped.cause is None:
        _say(stopped.reason)
        raise SystemExit(128 + signal.SIGTERM)
    known = (
        known or _finished(point_folder) or _not_started(point_file, point_folder, child.job_id)
    )
    return known, stopped


def _environment(asked: dict[str, Any]) -> dict[str, str]:
    """A snapshot lies below the checkout: git must not take it for that."""
    inside = Path(asked["root"]).is_relative_to(asked["sweep"])
    return {"GIT_CEILING_DIRECTORIES": asked["sweep"]} if inside else {}


def _job(sweep: Path) -> tuple[str, Path]:
    """The job as people type it, and its folder."""
    raw = os.environ["SLURM_JOB_ID"]
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    job_id = f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}" if array else raw
    return job_id, sweep / (array or raw)


def time_left_s(time_min: int, variables: Mapping[str, str] | None = None) -> float:
    """Seconds until the job's time is over.

    The scheduler's clock and the node's may differ by hours: two moments are compared only where
    one clock told both.

    Args:
        time_min: Minutes that it asked for.
        variables: The job's environment, `os.environ` if None.
    """
    variables = os.environ if variables is None else variables
    limit_s = time_min * 60.0
    began, ends = (
        parse_int(variables.get(f"SLURM_JOB_{word}_TIME", "")) for word in ("START", "END")
    )
    if began is not None and ends is not None:
        limit_s = min(limit_s, float(ends - began))
    try:
        spent_s = time.clock_gettime(time.CLOCK_BOOTTIME) - float(variables[JOB_UPTIME])
    except (KeyError, ValueError):
        spent_s = 0.0
    return limit_s - max(0.0, spent_s)


def _handle_signals(warning_s: float, time_min: int) -> AskStop:
    """Notes when the running point has to end: before the scheduler ends the job, or told so."""
    asked: list[StopError] = []
    left_s = time_left_s(time_min)
    deadline = time.monotonic() + left_s

    def stop(cause: str | None, reason: str) -> None:
        asked.append(StopError(cause, reason))

    def near_the_end(number: int, frame: FrameType | None) -> None:
        stop("timeout", f"still running when its job's time limit of {time_min} min came near")

    def warned(number: int, frame: FrameType | None) -> None:
        # On a short job the warning may come a minute early: our own alarm is exact. A warning
        # long before the end that we know of means that somebody has moved the end.
        if deadline - time.monotonic() > warning_s + _WARNING_SLACK_S:
            stop("timeout", "the scheduler warned that its job's time limit was near")

    def told_to_end(number: int, frame: FrameType | None) -> None:
        stop(None, f"the job was told to end ({signal.Signals(number).name})")

    signal.signal(signal.SIGALRM, near_the_end)
    signal.signal(signal.SIGUSR2, warned)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, told_to_end)
    signal.setitimer(signal.ITIMER_REAL, max(1.0, left_s - min(warning_s, left_s / 6)))
    return lambda: asked[0] if asked else None


def _finished(point_folder: Path) -> dict[str, Any] | None:
    """The newest record that stands, None where the point is to be run."""
    for path in sorted(point_folder.glob("attempt-*/record.json"), key=_number, reverse=True):
        known = read_outcome(path.parent)
        if known.get("cause") not in _RETRIED:
            return known
    return None


def _number(record: Path) -> int:
    digits = record.parent.name.rpartition("-")[2]
    return parse_int(digits) or 0


def _not_started(point_file: Path, point_folder: Path, job_id: str) -> dict[str, Any]:
    """Records a point whose turn did not come before the job had to end."""
    attempt = new_attempt(point_folder)
    seen = Seen(stopped=("timeout", "not started: its job's time limit came first"))
    record = record_of_death(point_file, attempt, job_id, seen, Span())
    write_atomic(attempt / "record.json", json.dumps(record, indent=2) + "\n")
    return read_outcome(attempt)


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # the log may lie on a disk that is full
        print(f"[{datetime.now():%H:%M:%S}] {line}", flush=True)
