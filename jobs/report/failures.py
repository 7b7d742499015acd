"""Points that did not pass, grouped by reason, with evidence and logs."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from jobs.files import is_outside
from jobs.status.collection import Collection
from jobs.status.log_search import excerpt
from jobs.status.point_result import PointResult
from jobs.text import plain_text

ORDER = ("FAILED", "ERROR", "UNSUPPORTED", "REQUEUED", "RUNNING", "PENDING", "PLANNED")
_EXCERPT_LINES = 30
_LINE_CHARS = 400
_MOST_EXCERPTS = 200
# Of a row of sacct ids and elapsed time; of the shell's log the raw id; any moment.
_OWN = re.compile(
    r"(?m)^sacct: [^|\n]*\|[^|\n]*(?P<kept>\|[^|\n]*\|[^|\n]*\|)\d*"
    r"|\b(?:JOB|STEP) \d[\d_.+]*"
    r"|\b(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:\d\d)?"
)


@dataclass(frozen=True)
class Excerpt:
    """Lines of a log or a record.

    Attributes:
        file: Where they stand; empty where no file holds them.
        lines: The lines.
        files: Further files that hold the same.
    """

    file: str
    lines: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Failure:
    """Points that did not pass, with the evidence that all of them left.

    Attributes:
        points: The points, at least one.
        evidence: As the first of them left it.
        logs: The last lines of their logs, each text once.
        differs: True if the evidence of the others has other ids and times.
    """

    points: list[PointResult]
    evidence: list[Excerpt]
    logs: list[Excerpt]
    differs: bool = False


@dataclass(frozen=True)
class FailureGroup:
    """Points with the same state, cause and reason."""

    state: str
    cause: str | None
    reason: str
    failures: list[Failure]

    @property
    def count(self) -> int:
        """Number of points."""
        return sum(len(failure.points) for failure in self.failures)


def failure_groups(collection: Collection) -> list[FailureGroup]:
    """Return the points that did not pass, the worst first, grouped by reason and evidence.

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
        failure = Failure([point], _evidence(point), logs)
        groups.setdefault((point.state, point.cause, _sameness(point)), []).append(failure)
    return [
        FailureGroup(state, cause, _reason(failures[0].points[0]), _merged(failures))
        for (state, cause, _), failures in groups.items()
    ]


def _merged(failures: list[Failure]) -> list[Failure]:
    """One failure for each evidence that is the same but for the ids and times in it."""
    alike: dict[tuple[str, ...], list[Failure]] = {}
    for failure in failures:
        texts = tuple(_bare(piece.lines, failure.points[0]) for piece in failure.evidence)
        alike.setdefault(texts, []).append(failure)
    return [
        Failure(
            [point for one in same for point in one.points],
            same[0].evidence,
            _each_once(same, texts),
            any(_lines(one.evidence) != _lines(same[0].evidence) for one in same),
        )
        for texts, same in alike.items()
    ]


def _each_once(same: list[Failure], told: tuple[str, ...]) -> list[Excerpt]:
    """The logs' last lines: each text once, and none that the evidence has told whole."""
    found: dict[str, Excerpt] = {}
    for failure in same:
        for piece in failure.logs:
            text = _bare(piece.lines, failure.points[0])
            if text in found:
                first = found[text]
                found[text] = replace(first, files=(*first.files, piece.file))
            elif text not in told:
                found[text] = piece
    return list(found.values())


def _lines(pieces: list[Excerpt]) -> list[str]:
    return [piece.lines for piece in pieces]


def _bare(text: str, point: PointResult) -> str:
    """A text without what names one point, one job or one moment."""
    for name in (point.point_id, point.job_id):
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\d|_\d)", "#", text) if name else text
    return _OWN.sub(lambda match: f"{match['kept'] or ''}#", text)


def _sameness(point: PointResult) -> str:
    """The reason without the numbers in it, which differ between points of one trouble."""
    return re.sub(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?", "#", _reason(point))


def _reason(point: PointResult) -> str:
    if point.reason:
        return plain_text(point.reason)
    lines = [line for quote in point.evidence for line in quote.lines]
    return plain_text(lines[-1]) if lines else "no reason was given"


def _evidence(point: PointResult) -> list[Excerpt]:
    return [
        Excerpt(quote.file or "", _shown(quote.lines[-_EXCERPT_LINES:]))
        for quote in point.evidence
        if quote.lines
    ]


def _logs(point: PointResult, folder: Path | None) -> list[Excerpt]:
    if folder is None:
        return []
    found = []
    for name in point.logs[:3]:
        path = folder / name
        if not is_outside(path, folder):
            lines = excerpt(path, _EXCERPT_LINES)
            found += [Excerpt(name, _shown(lines))] if lines else []
    return found


def _shown(lines: list[str]) -> str:
    plain = [line for text in lines for line in plain_text(text).splitlines()]
    return "\n".join(
        line if len(line) <= _LINE_CHARS else line[:_LINE_CHARS] + " ..." for line in plain
    )
