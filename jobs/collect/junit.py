"""A collection as JUnit XML, for CI systems: one test case a point, a skip as a skip."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from xml.etree import ElementTree

from jobs.perf import EMULATED_NOTE
from jobs.record import State
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult
from jobs.text import plain_text

_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ELEMENTS = {"FAILED": "failure", "ERROR": "error", "UNSUPPORTED": "skipped"}


def junit_text(collection: Collection) -> str:
    """The collection as a JUnit file: PASSED passes, UNSUPPORTED and unfinished are skipped.

    A plan that could not be read whole is an error of its own: points may be missing.

    Args:
        collection: Any collection.

    Returns:
        XML text; a suite a job, whose counts add up to the file's own.
    """
    damage = [
        PointResult(problem.file, "plan", {}, State.ERROR, reason=problem.what)
        for problem in collection.damage
    ]
    points = [*collection.points, *damage]
    suites: dict[str, list[PointResult]] = defaultdict(list)
    for point in points:
        suites[point.job_id or point.sweep_id].append(point)
    root = ElementTree.Element("testsuites", _counts(collection.name, points))
    for name, members in suites.items():
        suite = ElementTree.SubElement(root, "testsuite", _counts(name, members))
        for point in members:
            _case(suite, point)
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{body}\n'


def _case(suite: ElementTree.Element, point: PointResult) -> None:
    case = ElementTree.SubElement(
        suite,
        "testcase",
        {
            "classname": _legal(point.sweep_id),
            "name": _legal(f"{point.label} [{point.point_id}]"),
            "time": f"{_seconds(point):.3f}",
        },
    )
    element = _ELEMENTS.get(point.state, None if point.state.finished else "skipped")
    if element is not None:
        _reason(case, element, point)
    if point.emulated:
        ElementTree.SubElement(case, "system-out").text = EMULATED_NOTE


def _reason(case: ElementTree.Element, element: str, point: PointResult) -> None:
    message = f"{point.state}: {point.reason}" if not point.state.finished else point.reason
    shown = ElementTree.SubElement(
        case, element, {"type": point.cause or point.state, "message": _legal(message)}
    )
    lines = [line for quote in point.evidence for line in [*_source(quote.file), *quote.lines]]
    shown.text = _legal("\n".join(lines)) or None


def _source(file: str | None) -> list[str]:
    return [f"{file}:"] if file else []


def _counts(name: str, points: list[PointResult]) -> dict[str, str]:
    states = [point.state for point in points]
    skipped = sum(state is State.UNSUPPORTED or not state.finished for state in states)
    seconds = sum(_seconds(point) for point in points)
    return {
        "name": _legal(name),
        "tests": str(len(points)),
        "failures": str(states.count(State.FAILED)),
        "errors": str(states.count(State.ERROR)),
        "skipped": str(skipped),
        "time": f"{seconds:.3f}",
    }


def _seconds(point: PointResult) -> float:
    duration = point.record.duration_s if point.record else None
    return duration if duration is not None and math.isfinite(duration) else 0.0


def _legal(text: str) -> str:
    """Text without what XML 1.0 cannot hold."""
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", plain_text(text))
