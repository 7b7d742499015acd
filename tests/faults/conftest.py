"""`check`, which compares a test with its row, and the summary line of `make faults`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.matrix import Check, Report, Row

_PROPERTY = "fault"


@pytest.fixture
def check(request: pytest.FixtureRequest) -> Iterator[Check]:
    """Compare a report with the test's row; a test that reports nothing fails."""
    mark = request.node.get_closest_marker("fault")
    assert mark is not None, "`check` belongs to a test that is marked with @fault"
    (row,) = mark.args
    assert isinstance(row, Row)
    reports: list[Report] = []

    def compare(report: Report) -> None:
        reports.append(report)
        request.node.user_properties.append((_PROPERTY, report.lost))
        assert row.differences(report) == {}, row.fault

    yield compare
    if not request.session.shouldfail and not reports:
        pytest.fail(f"{row.fault}: nothing was reported")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """End a run with its counts."""
    lost_by_outcome = [
        (outcome, lost)
        for outcome in ("passed", "failed", "error")
        for report in terminalreporter.stats.get(outcome, [])
        for name, lost in getattr(report, "user_properties", [])
        if name == _PROPERTY and report.when == "call"
    ]
    right = sum(outcome == "passed" for outcome, _ in lost_by_outcome)
    lost = sum(lost for _, lost in lost_by_outcome)
    terminalreporter.write_line(
        f"{len(lost_by_outcome)} faults injected, {right} reported correctly, {lost} results lost"
    )
