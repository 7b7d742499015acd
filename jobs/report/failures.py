"""Points that did not pass, grouped by reason, with evidence and logs."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

from jobs.files import is_outside
from jobs.record import State
from jobs.status.collection import Collection
from jobs.status.log_search import excerpt
from jobs.status.point_result import PointResult
from jobs.text import plain_text

_ORDER = ("FAILED", "ERROR", "UNSUPPORTED", "REQUEUED", "RUNNING", "PENDING", "PLANNED")
_EXCERPT_LINES = 30
_LINE_CHARS = 400
_MAX_LOGS = 3  # of one point
_MAX_POINTS_WITH_LOGS = 200
# In a row of sacct the ids and the elapsed time; in the shell's log the raw id; any time of day.
_IDS_AND_TIMES = re.compile(
    r"(?m)^sacct: [^|\n]*\|[^|\n]*(?P<kept>\|[^|\n]*\|[^|\n]*\|)\d*"
    r"|\b(?:JOB|STEP) \d[\d_.+]*"
    r"|\b(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:\d\d)?"
)
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")


@dataclass(frozen=True)
class Excerpt:
    """Lines of a file; `files` are further files with the same lines."""

    file: str
    lines: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Failure:
    """Points that did not pass, with the evidence that they share.

    Attributes:
        points: The points, at least one.
        evidence: Evidence of the first point.
        logs: Last lines of the points' logs, without repetition.
        differs: True if ids and times in the evidence of other points differ.
    """

    points: list[PointResult]
    evidence: list[Excerpt]
    logs: list[Excerpt]
    differs: bool = False

    @property
    def anonymous_evidence(self) -> tuple[str, ...]:
        """Evidence without ids and times; equal for points that failed in the same way."""
        return tuple(_without_ids(piece.lines, self.points[0]) for piece in self.evidence)

    @classmethod
    def merge(cls, failures: list[Failure]) -> Failure:
        """Return one failure for several with the same anonymous evidence."""
        first = failures[0]
        logs: dict[str, Excerpt] = {}
        for failure in failures:
            for piece in failure.logs:
                text = _without_ids(piece.lines, failure.points[0])
                if text in logs:
                    logs[text] = replace(logs[text], files=(*logs[text].files, piece.file))
                elif text not in first.anonymous_evidence:
                    logs[text] = piece
        texts = {tuple(piece.lines for piece in failure.evidence) for failure in failures}
        points = [point for failure in failures for point in failure.points]
        return cls(points, first.evidence, list(logs.values()), differs=len(texts) > 1)


@dataclass(frozen=True)
class FailureGroup:
    """Points with the same state, cause and reason."""

    state: State
    cause: str | None
    reason: str
    failures: list[Failure]

    @property
    def count(self) -> int:
        """Number of points."""
        return sum(len(failure.points) for failure in self.failures)


def failure_groups(collection: Collection) -> list[FailureGroup]:
    """Return the points that did not pass, the worst first, grouped by reason and evidence."""
    groups: dict[tuple[State, str | None, str], list[Failure]] = defaultdict(list)
    points_with_logs = 0
    others = [point for point in collection.points if point.state is not State.PASSED]
    for point in sorted(others, key=lambda point: _ORDER.index(point.state)):
        with_logs = point.state in ("FAILED", "ERROR") and points_with_logs < _MAX_POINTS_WITH_LOGS
        logs = _logs(point, collection.folder) if with_logs and collection.folder else []
        points_with_logs += bool(logs)
        # Numbers in the reason differ between points with the same problem.
        reason = _NUMBER.sub("#", _reason(point))
        failure = Failure([point], _evidence(point), logs)
        groups[point.state, point.cause, reason].append(failure)
    return [
        FailureGroup(state, cause, _reason(failures[0].points[0]), _merge_same(failures))
        for (state, cause, _), failures in groups.items()
    ]


def _merge_same(failures: list[Failure]) -> list[Failure]:
    by_evidence: dict[tuple[str, ...], list[Failure]] = defaultdict(list)
    for failure in failures:
        by_evidence[failure.anonymous_evidence].append(failure)
    return [Failure.merge(same) for same in by_evidence.values()]


def _without_ids(text: str, point: PointResult) -> str:
    """Return text without the ids of a point and its job, and without times."""
    for name in (point.point_id, point.job_id):
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\d|_\d)", "#", text) if name else text
    return _IDS_AND_TIMES.sub(lambda match: f"{match['kept'] or ''}#", text)


def _reason(point: PointResult) -> str:
    if point.reason:
        return plain_text(point.reason)
    lines = [line for quote in point.evidence for line in quote.lines]
    return plain_text(lines[-1]) if lines else "no reason was given"


def _evidence(point: PointResult) -> list[Excerpt]:
    return [
        Excerpt(quote.file or "", _cut(quote.lines[-_EXCERPT_LINES:]))
        for quote in point.evidence
        if quote.lines
    ]


def _logs(point: PointResult, folder: Path) -> list[Excerpt]:
    paths = {name: folder / name for name in point.logs[:_MAX_LOGS]}
    return [
        Excerpt(name, _cut(lines))
        for name, path in paths.items()
        if not is_outside(path, folder) and (lines := excerpt(path, _EXCERPT_LINES))
    ]


def _cut(lines: list[str]) -> str:
    plain = [line for text in lines for line in plain_text(text).splitlines()]
    return "\n".join(
        line if len(line) <= _LINE_CHARS else line[:_LINE_CHARS] + " ..." for line in plain
    )
