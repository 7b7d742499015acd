"""What did not pass, grouped by what is the same, each point with its evidence and log."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from jobs.cluster.collect_log import excerpt
from jobs.cluster.collect_points import CollectedPoint, Collection
from jobs.files import leaves
from jobs.text import plain_text

ORDER = ("FAILED", "ERROR", "UNSUPPORTED", "REQUEUED", "RUNNING", "PENDING", "PLANNED")
_EXCERPT_LINES = 30
_LINE_CHARS = 400
_MOST_EXCERPTS = 200


@dataclass(frozen=True)
class Excerpt:
    """The last lines of a log."""

    file: str
    lines: str


@dataclass(frozen=True)
class Failure:
    """One point that did not pass."""

    point: CollectedPoint
    evidence: list[Excerpt]
    logs: list[Excerpt]


@dataclass(frozen=True)
class FailureGroup:
    """Points with the same state, cause and reason."""

    state: str
    cause: str | None
    reason: str
    failures: list[Failure]


def failure_groups(collection: Collection) -> list[FailureGroup]:
    """Everything that did not pass, the gravest first, equal reasons together.

    Args:
        collection: A collection whose folder holds its logs.

    Returns:
        Groups; a log is quoted as plain text, for at most 200 points.
    """
    groups: dict[tuple[str, str | None, str], list[Failure]] = {}
    quoted = 0
    others = [point for point in collection.points if point.state != "PASSED"]
    for point in sorted(others, key=lambda point: ORDER.index(point.state)):
        ended = point.state in ("FAILED", "ERROR")
        logs = _logs(point, collection.folder) if ended and quoted < _MOST_EXCERPTS else []
        quoted += bool(logs)
        failure = Failure(point, _evidence(point), logs)
        groups.setdefault((point.state, point.cause, _sameness(point)), []).append(failure)
    return [
        FailureGroup(state, cause, _reason(failures[0].point), failures)
        for (state, cause, _), failures in groups.items()
    ]


def _sameness(point: CollectedPoint) -> str:
    """The reason without the numbers in it, which differ between points of one trouble."""
    return re.sub(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?", "#", _reason(point))


def _reason(point: CollectedPoint) -> str:
    if point.reason:
        return plain_text(point.reason)
    lines = [line for quote in point.evidence for line in quote.lines]
    return plain_text(lines[-1]) if lines else "no reason was given"


def _evidence(point: CollectedPoint) -> list[Excerpt]:
    return [
        Excerpt(quote.file or "", _shown(quote.lines[-_EXCERPT_LINES:]))
        for quote in point.evidence
        if quote.lines
    ]


def _logs(point: CollectedPoint, folder: Path | None) -> list[Excerpt]:
    if folder is None:
        return []
    found = []
    for name in point.logs[:3]:
        path = folder / name
        if not leaves(path, folder):
            lines = excerpt(path, _EXCERPT_LINES)
            found += [Excerpt(name, _shown(lines))] if lines else []
    return found


def _shown(lines: list[str]) -> str:
    plain = [line for text in lines for line in plain_text(text).splitlines()]
    return "\n".join(
        line if len(line) <= _LINE_CHARS else line[:_LINE_CHARS] + " ..." for line in plain
    )
