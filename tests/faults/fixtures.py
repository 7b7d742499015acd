"""`tell`: holds a test to its row, and counts for the summary of `make faults`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.faults.matrix import Row, Told

Tell = Callable[[Told], None]
_PROPERTY = "fault"


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Iterator[Tell]:
    """Compares what was told with the test's row; a row that tells nothing fails."""
    mark = request.node.get_closest_marker("fault")
    assert mark is not None, "`tell` belongs to a test that is marked with @fault"
    (row,) = mark.args
    assert isinstance(row, Row)
    told: list[Told] = []

    def check(seen: Told) -> None:
        told.append(seen)
        request.node.user_properties.append((_PROPERTY, [row.fault, seen.lost]))
        differences = row.differences(seen)
        assert not differences, f"{row.fault}:\n  " + "\n  ".join(differences)

    yield check
    if not request.session.shouldfail and not told:
        pytest.fail(f"{row.fault}: nothing was told")


def summary(reports: dict[str, list[pytest.TestReport]]) -> str:
    """The line that `make faults` ends with.

    Args:
        reports: The terminal reporter's reports, by outcome.
    """
    counted = [
        (held, outcome)
        for outcome in ("passed", "failed", "error")
        for report in reports.get(outcome, [])
        for name, held in getattr(report, "user_properties", [])
        if name == _PROPERTY and report.when == "call"
    ]
    right = sum(outcome == "passed" for _, outcome in counted)
    lost = sum(held[1] for held, _ in counted)
    return f"{len(counted)} faults injected, {right} told right, {lost} results lost"
