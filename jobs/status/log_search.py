"""Finds the line of a log that shows why a point ended, and the cause that it names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from jobs.files import open_regular
from jobs.record import Cause
from jobs.text import mask_secrets, plain_text

TAIL_BYTES = 64 * 2**10
EXCERPT_LINES = 40
_SEARCHED_LINES = 2000
_LINES_BEFORE = 2

# The most specific sign first: what follows from it matches a later pattern.
_SIGNS: tuple[tuple[Cause, re.Pattern[str]], ...] = tuple(
    (cause, re.compile(pattern))
    for cause, pattern in (
        (Cause.lost, r"no record of \S+ could be written"),
        (Cause.timeout, r"CANCELLED AT .* DUE TO TIME LIMIT"),
        (Cause.preempted, r"CANCELLED AT .* DUE TO PREEMPTION"),
        (Cause.node_fail, r"CANCELLED AT .* DUE TO NODE FAILURE|Node failure on"),
        (Cause.cancelled, r"\*\*\* (?:JOB|STEP) .* CANCELLED AT"),
        (Cause.launch_failed, r"^setup line \d+ failed[,:] "),
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
_UNWRITTEN = re.compile(r"no record of (\S+) could be written")


@dataclass(frozen=True)
class LogSign:
    """A line that shows how a job ended.

    Attributes:
        cause: Cause that it names; None if it names none.
        line: The line.
        file: The log.
        before: Preceding lines, if they contain the reason.
    """

    cause: Cause | None
    line: str
    file: Path
    before: tuple[str, ...] = ()


def find_sign(logs: list[Path], point_id: str | None = None) -> LogSign | None:
    """Return the last line of the most specific kind that any of the logs contains.

    If there is none, it is the last line of the first log that is not empty. Lines about the
    record of another point than `point_id` do not count.
    """
    signs: list[tuple[int, LogSign]] = []
    last: LogSign | None = None
    for path in logs:
        lines = excerpt(path, _SEARCHED_LINES)
        if last is None and lines:
            last = LogSign(None, lines[-1].strip(), path)
        for number, line in enumerate(lines):
            unwritten = _UNWRITTEN.search(line)
            if unwritten is not None and unwritten[1] != point_id:
                continue
            rank = next((i for i, (_, sign) in enumerate(_SIGNS) if sign.search(line)), None)
            if rank is not None:
                cause = _SIGNS[rank][0]
                # The program that could not start the job printed the reason just before.
                first = number - _LINES_BEFORE if cause is Cause.launch_failed else number
                before = tuple(lines[max(0, first) : number])
                signs.append((rank, LogSign(cause, line.strip(), path, before)))
    best = min((rank for rank, _ in signs), default=None)
    return next((sign for rank, sign in reversed(signs) if rank == best), last)


def excerpt(path: Path, lines: int = EXCERPT_LINES) -> list[str]:
    """Return the last non-empty lines of a log, as plain text."""
    return [line.rstrip() for line in tail_of(path)[0].splitlines() if line.strip()][-lines:]


def tail_of(path: Path, size_bytes: int = TAIL_BYTES) -> tuple[str, int]:
    """Return the last part of a log as plain text, and the number of bytes before it.

    It begins with a whole line, or within one that is longer than `size_bytes`.
    """
    try:
        with open_regular(path) as handle:
            handle.seek(0, 2)
            start = max(0, handle.tell() - size_bytes)
            handle.seek(start)
            data = handle.read(size_bytes)
    except OSError:
        return "", 0
    # Half of a secret would not be recognized: start at a line, or at least at a word.
    cut = re.search(rb"(?s)[\r\n](?=.)", data) or re.search(rb"(?s)\s(?=.)", data)
    if start and cut is not None:
        start, data = start + cut.end(), data[cut.end() :]
    return mask_secrets(plain_text(data.decode("utf-8", errors="replace"))), start
