"""A collection on a screen: a line a point, nothing said twice, no name broken."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

from jobs.collect.output import print_collection, reason_lines
from jobs.perf import EMULATED_NOTE
from jobs.record import Cause, Outcome, State
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult
from jobs.sweeps.file_problem import FileProblem
from jobs.terminal.console import Console
from tests.builders.records import point_config, record, untimed
from tests.builders.runs import collected
from tests.builders.terminal import printed


def collection(gpu: str, jobs: int = 1, reason: str = "") -> Collection:
    points = []
    for number, projection in enumerate(("fused", "split", "fused", "split")):
        config = point_config(
            "mxfp8" if number > 1 else "bf16", gpu, "tiny", shape__projection=projection
        )
        point_id, job_id = f"p-7a0d52d4303{number}", f"local-a977dea{number % jobs}"
        left = record(point_id, config, Outcome.PASSED, job_id=job_id, reason=reason)
        points.append(collected(left, reason=reason, job_id=job_id))
    return Collection("s-20261201-102835-9556fe", points, Path("/results/s-1"))


def shown(points: Collection, width: int) -> list[str]:
    out = Console(file=io.StringIO(), width=width)
    print_collection(points, out)
    return printed(out).splitlines()


@pytest.mark.parametrize("width", [80, 132])
@pytest.mark.parametrize(("gpu", "jobs"), [("cpu", 1), ("cpu", 2), ("gb300", 1), ("gb300", 3)])
def test_a_point_is_one_line_with_whole_names(gpu: str, jobs: int, width: int) -> None:
    lines = shown(collection(gpu, jobs, f"within tolerance calibrated; {EMULATED_NOTE}"), width)
    rows = [line for line in lines if "p-7a0d52d4303" in line]
    assert len(rows) == 4
    assert all("projection=" in row and "PASSED" in row for row in rows)
    at = lines.index(rows[0])
    assert lines[at : at + 4] == rows
    assert max(map(len, lines)) <= width


def test_what_holds_for_all_is_said_once() -> None:
    text = "\n".join(shown(collection("cpu", 1, f"within tolerance seed; {EMULATED_NOTE}"), 80))
    assert text.count(EMULATED_NOTE) == 1
    assert text.count("local-a977dea0") == 1
    assert "PASSED, 4 points: within tolerance seed\n" in text


def test_speedups_of_real_arms_are_shown() -> None:
    lines = shown(collection("gb300"), 132)
    assert any("fprop" in line and "bprop" in line for line in lines)
    assert EMULATED_NOTE not in "\n".join(lines)


def test_what_was_emulated_is_counted_timed_or_not() -> None:
    real, emulated = collection("gb300").points, collection("cpu").points[0]
    assert emulated.record is not None
    for left in (emulated.record, untimed(emulated.record)):
        mixed = [*real[1:], replace(emulated, record=left)]
        lines = shown(Collection("s", mixed), 132)
        assert f"1 of 4 points was {EMULATED_NOTE}" in lines
        assert sum(line.count("emulated") for line in lines if "PASSED" in line) == 2
        lines = shown(Collection("s", mixed[-1:]), 132)
        assert f"The point was {EMULATED_NOTE}" in lines
        assert "fprop" not in "\n".join(lines)


def test_reasons_of_what_did_not_pass_come_first_and_are_cut() -> None:
    left = record("p-1", point_config(), Outcome.ERROR, cause=Cause.crashed)
    bad = collected(left, record=None, reason="died " * 200)
    good = PointResult("p-2", "s", point_config(), State.PASSED, reason="within tolerance seed")
    first, second = reason_lines([good, bad])
    assert first.startswith("ERROR (crashed) p-1: died")
    assert second == "PASSED p-2: within tolerance seed"
    lines = shown(Collection("s", [good, bad]), 80)
    assert sum("died" in line for line in lines) <= 2


def test_a_thousand_reasons_are_counted() -> None:
    points = [
        PointResult(f"p-{n}", "s", point_config(), State.FAILED, reason=f"reason {n}")
        for n in range(30)
    ]
    assert reason_lines(points)[-1] == "... and 10 more reasons"


def test_of_very_many_points_and_files_those_that_went_wrong_are_shown() -> None:
    points = [
        PointResult(f"p-{n:04d}", "s", point_config(shape__seed=n), State(state), job_id="14")
        for n, state in enumerate(["PASSED"] * 990 + ["FAILED"] * 10)
    ]
    problems = [FileProblem(f"file-{n}", "is damaged") for n in range(100)]
    lines = shown(Collection("s", points, Path("/results/s"), problems=problems), 100)
    rows = [line for line in lines if "p-0" in line]
    assert len(rows) == 200
    assert all("FAILED" in row for row in rows[:10])
    assert "... and 800 more points, in points.csv and report.html" in lines
    assert "All points: job 14" in lines
    assert "1000 planned, 990 PASSED, 10 FAILED" in lines
    assert sum(line.startswith("damaged: ") for line in lines) == 41
    assert "damaged: 60 more files, in collection.json" in lines
