"""Several runs on one side: which count together, and what they say together."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from jobs.compare.repeats import at_one_clock, pool, pooled_metrics, repeats
from jobs.compare.statistics import BETWEEN_RUNS, Sample, ratio
from jobs.record import Record, State, TelemetrySample
from jobs.status.point_result import PointResult
from tests.builders.runs import run
from tools.compare_simulation import CHANGES, KINDS, RUNS, Noise, rates


def point(day: int = 1, **about: Any) -> PointResult:  # noqa: ANN401
    return run(lengths=(4096,), day=day, seed=day, **about).points[0]


def left(one: PointResult) -> Record:
    assert one.record is not None
    return one.record


@pytest.mark.parametrize("noise", KINDS, ids=lambda noise: noise.name)
def test_some_runs_a_side_find_a_change_of_both_arms_and_raise_no_alarm(noise: Noise) -> None:
    found = rates(noise, CHANGES["both arms 3 % slower"], 100, seed=3, runs=RUNS)
    assert found.slower >= 0.95
    assert rates(noise, {}, 50, seed=4, runs=RUNS).slower <= 0.02


def test_runs_of_other_software_and_other_ends_do_not_count_together() -> None:
    newest = point(9)
    others = [
        point(1, driver="570.1"),
        point(2, commit="another"),
        dataclasses.replace(point(3), state=State.FAILED),
        dataclasses.replace(point(4), record=None),
        run(lengths=(2048,), day=5).points[0],
        point(9),  # gathered twice
    ]
    same = point(6, host="another-node")
    assert repeats([*others, same], newest) == [same]


def test_the_error_of_a_mean_is_what_runs_know_or_what_they_differ_by() -> None:
    alike = pool([Sample(log, 0.002, 11, 20) for log in (0.0, 0.001, -0.001, 0.0)])
    assert alike.log == pytest.approx(0.0)
    assert (alike.runs, alike.count) == (4, 80)
    assert alike.error == pytest.approx(0.001)
    assert alike.freedom == 44
    apart = pool([Sample(log, 0.002, 11, 20) for log in (0.0, 0.02, -0.02, 0.0)])
    spread = math.sqrt(0.0008 / 3 - BETWEEN_RUNS**2) / 2
    assert apart.error == pytest.approx(spread)
    assert apart.freedom == 3


def test_more_runs_narrow_an_interval() -> None:
    one = Sample(0.0, 0.001, 11, 20)
    four = pool([one] * 4)
    wide, narrow = ratio(one, one, 0.99), ratio(four, four, 0.99)
    assert narrow.high - 1 < 0.6 * (wide.high - 1)
    assert ratio(four, four, 0.99, counts=(1, 1)).high > narrow.high  # all on one GPU


def at_clock(record: Record, mhz: float) -> Record:
    seen = [TelemetrySample(when="during", sm_clock_mhz=mhz + step) for step in (-5, 0, 5)]
    return record.model_copy(update={"telemetry": seen})


def test_runs_at_another_clock_are_another_measurement() -> None:
    runs = [at_clock(left(point(day)), mhz) for day, mhz in ((1, 1900), (2, 1980), (3, 1975))]
    assert at_one_clock(runs) == runs[1:]
    blind = left(point(4)).model_copy(update={"telemetry": []})
    assert at_one_clock([*runs, blind]) == [*runs, blind]


def test_what_only_the_newest_measured_is_its_own() -> None:
    old = left(point(1)).model_copy(update={"benchmark": None})
    new = left(point(2))
    assert {metric.sample.runs for metric in pooled_metrics([old, new]).values()} == {1}
    assert {metric.sample.runs for metric in pooled_metrics([new, new]).values()} == {2}
