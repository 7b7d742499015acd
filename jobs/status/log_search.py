"""Finds the line of a log that shows why a point ended, and the cause that it names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from jobs.files import open_regular
from jobs.record import Cause
from jobs.runner.attempt import NO_RECORD
from jobs.text import mask_secrets, plain_text

TAIL_BYTES = 64 * 2**10
EXCERPT_LINES = 40
_BEFORE = 2

_SIGNS: tuple[tuple[Cause, re.Pattern[str]], ...] = tuple(
    (cause, re.compile(pattern))
    for cause, pattern in (
        (Cause.lost, NO_RECORD.pattern),
        (Cause.timeout, r"CANCELLED AT .* DUE TO TIME LIMIT"),
        (Cause.preempted, r"CANCELLED AT .* DUE TO PREEMPTION"),
        (Cause.node_fail, r"CANCELLED AT .* DUE TO NODE FAILURE|Node failure on"),
        (Cause.cancelled, r"\*\*\* (?:JOB|STEP) .* CANCELLED AT"),
        (Cause.launch_failed, r"^setup line \d+ failed, so the job does: "),
        (Cause.out_of_memory_host, r"oom[-_]kill|Out Of Memory|OUT_OF_MEMORY"),
        (Cause.out_of_memory_gpu, r"CUDA out of memory|CUDA_ERROR_OUT_OF_MEMORY"),
        (Cause.container_failed, r"pyxis: .*(?:fail|error)|enroot.*\[ERROR\]"),
        (
            Cause.import_error,
            r"^(?:ImportError|ModuleNotFoundError)\b|: No module named '"
            r"|^the node's interpreter must be Python",
        ),
        (
            Cause.launch_failed,
            r"execve\(\): |JobLaunchFailure|launch failed|^(?:\S*/)?(?:env|mkdir): "
            r"|: line \d+: srun: ",
        ),
        (Cause.crashed, r"Segmentation fault|core dumped|Aborted|Bus error|Killed$"),
        (Cause.exception, r"^[\w.]*(?:Error|Exception|Interrupt)\b"),
    )
)


@dataclass(frozen=True)
class LogSign:
    """A line that tells how a job ended.

    Attributes:
        cause: What it names; None: nothing that is known.
        line: The line.
        file: Where it stands.
        before: The lines before it, where those say why.
    """

    cause: Cause | None
    line: str
    file: Path
    before: tuple[str, ...] = ()


def read_tail(path: Path, size_bytes: int = TAIL_BYTES) -> str:
    """The last part of a log, whole lines, as plain text; empty where it cannot be read."""
    return tail_of(path, size_bytes)[0]


def tail_of(path: Path, size_bytes: int = TAIL_BYTES) -> tuple[str, int]:
    """The last part of a log, and what stands before it.

    Args:
        path: The log.
        size_bytes: How much of it is read.

    Returns:
        Whole lines, as plain text, or the end of one that is longer than what is read; and how
        many bytes before them were left out. Empty and 0 where it cannot be read.
    """
    try:
        with open_regular(path) as handle:
            handle.seek(0, 2)
            start = max(0, handle.tell() - size_bytes)
            handle.seek(start)
            data = handle.read(size_bytes)
    except OSError:
        return "", 0
    # Half a token is not known as one: what is cut begins at a line, or at least at a word.
    cut = re.search(rb"(?s)[\r\n](?=.)", data) or re.search(rb"(?s)\s(?=.)", data)
    if start and cut is not None:
        start, data = start + cut.end(), data[cut.end() :]
    return mask_secrets(plain_text(data.decode("utf-8", errors="replace"))), start


def excerpt(path: Path, lines: int = EXCERPT_LINES) -> list[str]:
    """The last lines of a log, as plain text."""
    return [line.rstrip() for line in read_tail(path).splitlines() if line.strip()][-lines:]


def find_sign(logs: list[Path], point_id: str | None = None) -> LogSign | None:
    """The line that shows why a job ended.

    Args:
        logs: Files to look into, the most telling first.
        point_id: The point that is asked for; lines on the record of another do not count.

    Returns:
        The last line of the gravest kind that any of them holds; where none is known, the last
        line of the first log that holds one, without a cause; None where all are empty.
    """
    found: list[tuple[int, LogSign]] = []
    last: LogSign | None = None
    for path in logs:
        lines = excerpt(path, lines=2000)
        for number, line in enumerate(lines):
            unwritten = NO_RECORD.search(line)
            if unwritten is not None and unwritten[1] != point_id:
                continue
            rank = next((i for i, (_, sign) in enumerate(_SIGNS) if sign.search(line)), None)
            if rank is not None:
                cause = _SIGNS[rank][0]
                # What kept a job from starting was printed by the program that could not.
                first = max(0, number - _BEFORE) if cause is Cause.launch_failed else number
                before = tuple(lines[first:number])
                found.append((rank, LogSign(cause, line.strip(), path, before)))
        if last is None:
            tail = excerpt(path, lines=1)
            last = LogSign(None, tail[0].strip(), path) if tail else None
    if not found:
        return last
    best = min(rank for rank, _ in found)
    return [sign for rank, sign in found if rank == best][-1]
