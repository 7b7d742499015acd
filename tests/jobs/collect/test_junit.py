"""JUnit XML: counts that add up, skips as skips, and any text."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from jobs.collect.junit import junit_text
from jobs.perf import EMULATED_NOTE
from jobs.record import Outcome, State
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult, Quote
from jobs.sweeps.file_problem import FileProblem
from tests.builders.records import point_config, record, untimed


def point(state: str, job_id: str = "14_0", **more: object) -> PointResult:
    return PointResult(f"p-{state}", "s-1", point_config(), State(state), job_id=job_id, **more)  # type: ignore[arg-type]


def parsed(*points: PointResult) -> ElementTree.Element:
    return ElementTree.fromstring(junit_text(Collection("c", list(points))))


def test_every_point_is_one_case_and_the_counts_add_up() -> None:
    root = parsed(*(point(state) for state in State), point("PASSED", "15"))
    assert len(root.findall(".//testcase")) == 9 == int(root.attrib["tests"])
    for name in ("tests", "failures", "errors", "skipped"):
        assert int(root.attrib[name]) == sum(int(suite.attrib[name]) for suite in root)
    assert [suite.attrib["name"] for suite in root] == ["14_0", "15"]


def test_a_damaged_plan_is_an_error_of_its_own() -> None:
    problems = [
        FileProblem("s-1/plan.jsonl:3", "is damaged: x"),
        FileProblem("14/x/record.json", "y"),
    ]
    text = junit_text(Collection("c", [point("PASSED")], problems=problems))
    root = ElementTree.fromstring(text)
    assert (root.attrib["tests"], root.attrib["errors"]) == ("2", "1")
    (error,) = root.findall(".//error")
    assert error.attrib == {"type": "damaged", "message": "is damaged: x"}
    (name,) = (case.attrib["name"] for case in root.findall("testsuite[@name='plan']/testcase"))
    assert name == "s-1/plan.jsonl:3 [s-1/plan.jsonl:3]"


@pytest.mark.parametrize(
    ("state", "element"),
    [
        ("PASSED", None),
        ("FAILED", "failure"),
        ("ERROR", "error"),
        ("UNSUPPORTED", "skipped"),
        *((state, "skipped") for state in State if not state.finished),
    ],
)
def test_each_state_has_its_element(state: str, element: str | None) -> None:
    (case,) = parsed(point(state)).findall(".//testcase")
    assert [child.tag for child in case] == ([element] if element else [])


@pytest.mark.parametrize("state", ["PASSED", "FAILED"])
def test_an_emulated_case_has_a_note(state: str) -> None:
    left = untimed(record("p-1", point_config(gpu="cpu"), Outcome[state]))
    (case,) = parsed(point(state, record=left)).findall(".//testcase")
    assert case.findtext("system-out") == EMULATED_NOTE
    (case,) = parsed(point(state, record=record("p-1", point_config()))).findall(".//testcase")
    assert case.find("system-out") is None


def test_evidence_and_hostile_text_arrive_as_text() -> None:
    quote = Quote(["]]><script>alert(1)</script> \x00\x1b[31mred\ufffe\ud800"], "jobs/14/x.err")
    root = parsed(point("ERROR", reason='<&">', cause="crashed", evidence=[quote]))
    (error,) = root.findall(".//error")
    assert error.attrib == {"type": "crashed", "message": '<&">'}
    assert error.text is not None
    assert error.text.startswith("jobs/14/x.err:\n]]><script>alert(1)</script> \\x00red")
