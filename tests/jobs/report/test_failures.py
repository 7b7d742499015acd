"""Failures are grouped by evidence, with every point that shares it."""

from __future__ import annotations

from pathlib import Path

from jobs.record import Cause, State
from jobs.report.failures import Failure, failure_groups
from jobs.report.report import write_report
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult, Quote
from tests.builders.records import point_config

TRACE = ["Traceback (most recent call last):", '  File "x.py", line 3', "RuntimeError: no plan"]


def ended(
    number: int, lines: list[str], reason: str = "RuntimeError: no plan", **changes: object
) -> PointResult:
    fields: dict[str, object] = {
        "point_id": f"p-{number}",
        "sweep_id": "s",
        "config": point_config(shape__seed=number),
        "state": State.ERROR,
        "cause": Cause.exception,
        "reason": reason,
        "evidence": [Quote(lines, "output.log")] if lines else [],
        "job_id": f"14_{number}",
    }
    return PointResult(**fields | changes)  # type: ignore[arg-type]


def failures(*points: PointResult, folder: Path | None = None) -> list[Failure]:
    """The failures of the only group of a collection."""
    (group,) = failure_groups(Collection("c", list(points), folder))
    assert group.count == len(points)
    return group.failures


def ids(groups: list[Failure]) -> list[list[str]]:
    return [[point.point_id for point in failure.points] for failure in groups]


def test_equal_evidence_is_shown_once_with_every_point(tmp_path: Path) -> None:
    groups = failures(*(ended(number, TRACE) for number in range(5)))
    assert ids(groups) == [["p-0", "p-1", "p-2", "p-3", "p-4"]]
    assert not groups[0].differs
    points = [ended(number, TRACE) for number in range(5)]
    text = write_report(Collection("c", points, tmp_path)).read_text(encoding="utf-8")
    section = text[text.index('id="failures"') : text.index('id="points"')]
    assert section.count("Traceback") == 1
    assert "5 points with the same evidence" in section
    assert all(f"seed={number} <small>p-{number}, job 14_{number}" in section for number in (0, 4))


def test_evidence_that_differs_in_ids_and_times_is_shown_once_and_marked() -> None:
    groups = failures(
        *(
            ended(
                number,
                [
                    f"point p-{number} of job 14_{number}",
                    f"error: *** JOB 6{number} ON n1 CANCELLED AT 2026-12-01T15:28:2{number} ***",
                    f"sacct: 14_{number}|6{number}|CANCELLED by 0|0:0|3{number}|n1|None",
                ],
            )
            for number in (1, 2, 3)
        )
    )
    assert ids(groups) == [["p-1", "p-2", "p-3"]]
    assert groups[0].differs
    assert "JOB 61 ON n1" in groups[0].evidence[0].lines


def test_other_figures_other_nodes_and_other_words_are_other_evidence() -> None:
    rows = ["sacct: 14_1|61|FAILED|1:0|3|n1|None", "sacct: 14_2|62|FAILED|1:0|3|n2|None"]
    figures = ["dx 0.684, must be at most 0.45", "dx 0.912, must be at most 0.45"]
    lines = [*rows, *figures, "CUDA error 700", "CUDA error 719"]
    groups = failures(*(ended(number, [line]) for number, line in enumerate(lines, start=1)))
    assert ids(groups) == [[f"p-{number}"] for number in range(1, 7)]


def test_the_points_of_one_evidence_keep_reasons_of_their_own(tmp_path: Path) -> None:
    points = [
        ended(number, [], reason=f"the process ended with exit code {number}") for number in (1, 7)
    ]
    assert ids(failures(*points)) == [["p-1", "p-7"]]
    text = write_report(Collection("c", points, tmp_path)).read_text(encoding="utf-8")
    section = text[text.index('id="failures"') : text.index('id="points"')]
    assert section.count("ended with exit code 1") == section.count("ended with exit code 7") == 1


def test_a_log_is_quoted_once_and_not_if_it_repeats_the_evidence(tmp_path: Path) -> None:
    names = []
    for number in range(3):
        names.append(f"{number}.log")
        (tmp_path / names[-1]).write_text(
            f"[15:27:2{number}] point p-{number}\nLoading 14/14_{number}_submitted.pkl\n"
        )
        (tmp_path / f"{number}.out").write_text("\n".join(TRACE) + "\n")
    points = [ended(number, TRACE, logs=[f"{number}.out", f"{number}.log"]) for number in range(3)]
    (failure,) = failures(*points, folder=tmp_path)
    (log,) = failure.logs
    assert (log.file, log.files) == ("0.log", ("1.log", "2.log"))
    text = write_report(Collection("c", points, tmp_path)).read_text(encoding="utf-8")
    assert "Last lines of <code>0.log</code> and of 2 similar logs" in text
