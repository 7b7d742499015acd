"""A collection as JUnit XML, for CI systems: one test case a point."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from jobs.perf import EMULATED_NOTE
from jobs.record import State
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult
from jobs.sweeps.file_problem import FileProblem
from jobs.text import plain_text

_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ELEMENTS = {State.PASSED: "", State.FAILED: "failure", State.ERROR: "error"}


@dataclass(frozen=True)
class _Case:
    """One test case; `element` is empty if it passed."""

    suite: str
    classname: str
    name: str
    element: str
    kind: str
    message: str
    lines: Sequence[str] = ()
    seconds: float = 0.0
    emulated: bool = False


def junit_text(collection: Collection) -> str:
    """Return the collection as a JUnit file, with a suite for each job.

    UNSUPPORTED and unfinished points are skipped. A plan that was not read completely is an error
    of its own, because points may be missing.
    """
    cases = [*map(_point_case, collection.points), *map(_damage_case, collection.damage)]
    suites: dict[str, list[_Case]] = defaultdict(list)
    for case in cases:
        suites[case.suite].append(case)
    root = ElementTree.Element("testsuites", _counts(collection.name, cases))
    for name, members in suites.items():
        suite = ElementTree.SubElement(root, "testsuite", _counts(name, members))
        for case in members:
            _add(suite, case)
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{body}\n'


def _point_case(point: PointResult) -> _Case:
    duration = point.record.duration_s if point.record else None
    lines: list[str] = []
    for quote in point.evidence:
        lines += [f"{quote.file}:"] if quote.file else []
        lines += quote.lines
    return _Case(
        suite=point.job_id or point.sweep_id,
        classname=point.sweep_id,
        name=f"{point.label} [{point.point_id}]",
        element=_ELEMENTS.get(point.state, "skipped"),
        kind=point.cause or point.state,
        message=point.reason if point.state.finished else f"{point.state}: {point.reason}",
        lines=lines,
        seconds=duration if duration is not None and math.isfinite(duration) else 0.0,
        emulated=point.emulated,
    )


def _damage_case(problem: FileProblem) -> _Case:
    name = f"{problem.file} [{problem.file}]"
    return _Case("plan", "plan", name, "error", "damaged", problem.what)


def _add(suite: ElementTree.Element, case: _Case) -> None:
    attributes = {
        "classname": _legal(case.classname),
        "name": _legal(case.name),
        "time": f"{case.seconds:.3f}",
    }
    node = ElementTree.SubElement(suite, "testcase", attributes)
    if case.element:
        attributes = {"type": str(case.kind), "message": _legal(case.message)}
        reason = ElementTree.SubElement(node, case.element, attributes)
        reason.text = _legal("\n".join(case.lines)) or None
    if case.emulated:
        ElementTree.SubElement(node, "system-out").text = EMULATED_NOTE


def _counts(name: str, cases: Sequence[_Case]) -> dict[str, str]:
    elements = [case.element for case in cases]
    return {
        "name": _legal(name),
        "tests": str(len(cases)),
        "failures": str(elements.count("failure")),
        "errors": str(elements.count("error")),
        "skipped": str(elements.count("skipped")),
        "time": f"{sum(case.seconds for case in cases):.3f}",
    }


def _legal(text: str) -> str:
    """Return text without the characters that XML 1.0 cannot hold."""
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", plain_text(text))
