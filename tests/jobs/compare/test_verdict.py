"""Verdicts on times: calibrated by simulation, honest about clocks, GPUs and intervals."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from jobs.compare.metrics import Metric, assumed, metrics
from jobs.compare.statistics import (
    Sample,
    _student,
    block_logs,
    from_interval,
    ratio,
    summarize,
    two_speeds,
    wander,
)
from jobs.compare.verdict import Circumstances, Verdict, judge_metric
from tools.compare_simulation import (
    BEGIN,
    CHANGES,
    END,
    KINDS,
    REPEATED,
    RUNS,
    Noise,
    at_best,
    main,
    rates,
    simulate,
)


@pytest.mark.parametrize("noise", KINDS, ids=lambda noise: noise.name)
def test_false_alarms_are_rarer_than_two_in_a_hundred(noise: Noise) -> None:
    found = rates(noise, {}, 200, seed=1)
    assert found.slower + found.faster <= 0.02


@pytest.mark.parametrize("noise", KINDS, ids=lambda noise: noise.name)
@pytest.mark.parametrize("name", ["recipe 3 % slower", "recipe 3 % faster"])
def test_a_change_of_three_percent_is_found(noise: Noise, name: str) -> None:
    found = rates(noise, CHANGES[name], 60, seed=2)
    assert (found.slower if name.endswith("slower") else found.faster) >= 0.95


@pytest.mark.parametrize("noise", KINDS, ids=lambda noise: noise.name)
def test_a_change_of_both_arms_is_found_or_at_least_never_called_the_same(noise: Noise) -> None:
    found = rates(noise, CHANGES["both arms 3 % slower"], 200, seed=3)
    assert found.slower + found.unclear >= 0.98
    if noise.name in ("as on an H200", "outliers", "two clocks, in turns"):
        assert found.slower >= 0.95


def test_what_could_be_found_at_best_stands_in_the_docs() -> None:
    text = (Path(__file__).parents[3] / "docs" / "compare.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    stated = {row[0]: row[2] for row in rows if len(row) == 4}
    for noise in KINDS:
        if noise.name in stated:
            assert stated[noise.name] == f"{100 * at_best(noise):.0f} %"
    assert {"drift", "two clocks, one a run", "two GPUs of one model"} <= stated.keys()


def test_the_figures_of_the_docs_are_of_this_simulation(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = Path(__file__).parents[3] / "docs" / "compare.md"
    text = page.read_text(encoding="utf-8")
    shown = text.partition(BEGIN)[2].partition(END)[0]
    for noise in KINDS:
        for change in CHANGES:
            assert f"| {noise.name} | {change} |" in shown
        for change in REPEATED:
            assert f"| {noise.name} | {change}, {RUNS} runs a side |" in shown
    copy = tmp_path / "compare.md"
    copy.write_text(text, encoding="utf-8")
    monkeypatch.setattr("tools.compare_simulation.table", lambda *_: "made\n")
    assert main([str(copy)]) == 0
    assert f"{BEGIN}\nmade\n{END}\n" in copy.read_text(encoding="utf-8")
    assert copy.read_text(encoding="utf-8").endswith(text.partition(END)[2])


@pytest.mark.parametrize("freedom", [5, 8, 20, 1e6])
@pytest.mark.parametrize("probability", [0.95, 0.995])
def test_the_quantile_is_students(freedom: float, probability: float) -> None:
    expected = stats.t.ppf(probability, freedom)
    assert _student(probability, freedom) == pytest.approx(expected, rel=0.01)


def restless(values: list[float]) -> list[float]:
    """An order in which no neighbour is like the next and nothing drifts."""
    ordered = sorted(values)
    pairs = list(zip(ordered[: len(ordered) // 2], ordered[::-1], strict=False))
    return [value for pair in pairs[::2] + pairs[1::2] for value in pair]


def test_location_and_error_are_yuens() -> None:
    rng = np.random.default_rng(0)
    first, second = list(rng.normal(0, 0.01, 20)), list(rng.normal(0.01, 0.01, 20))
    one, other = summarize(restless(first)), summarize(restless(second))
    assert one is not None
    assert other is not None
    assert one.log == pytest.approx(stats.trim_mean(first, 0.2))
    expected = stats.ttest_ind(first, second, equal_var=False, trim=0.2)
    found = (one.log - other.log) / math.hypot(one.error, other.error)
    assert found == pytest.approx(expected.statistic, rel=0.05)


def test_a_run_whose_neighbours_are_alike_knows_its_time_less_well() -> None:
    values = list(np.random.default_rng(0).normal(0, 0.01, 20))
    steady, alike = summarize(restless(values)), summarize(sorted(values))
    assert steady is not None
    assert alike is not None
    assert alike.log == pytest.approx(steady.log)
    assert alike.error > 2 * steady.error


def test_a_drift_adds_half_its_size_and_chance_adds_nothing() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.002, 20)
    assert wander(list(noise + np.linspace(0, 0.03, 20))) == pytest.approx(0.015, rel=0.1)
    assert wander(list(noise)) == 0.0
    assert wander([0.0, 1.0]) == 0.0


def test_a_block_is_one_value_and_what_ran_throttled_is_none() -> None:
    logs = block_logs([1.0, 1.0, 9.0, 1.0, 1.0] * 6, [False] * 25 + [True] * 5, 5)
    assert logs == [0.0] * 5 + [None]
    assert len(block_logs([1.0] * 9, [], 3)) == 9  # three blocks are too few to stand for a run


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0, 1e123])
def test_what_is_no_time_makes_no_value(bad: float) -> None:
    assert block_logs([bad, 1.0, 1.0, 1.0, 1.0], [], 1)[0] is None


def test_two_speeds_are_seen_and_noise_is_not_taken_for_them() -> None:
    rng = np.random.default_rng(0)
    slow = np.arange(20) % 7 > 3
    found = two_speeds(list(rng.normal(0, 0.002, 20) + 0.05 * slow))
    assert found is not None
    assert found.fast == [not mark for mark in slow]
    assert found.apart == pytest.approx(0.05, rel=0.1)
    assert two_speeds(list(rng.normal(0, 0.02, 20))) is None
    assert two_speeds([0.0, 0.5]) is None


def test_one_slow_block_is_seen_and_one_fast_block_is_too_few_to_compare() -> None:
    noise = np.random.default_rng(0).normal(0, 0.002, 20)
    one = np.arange(20) == 7
    found = two_speeds(list(noise + 0.05 * one))
    assert found is not None
    assert found.fast.count(False) == 1
    assert two_speeds(list(noise - 0.05 * one)) is None


def timed(log: float, slow: int = 0, apart: float = 0.05) -> Metric:
    """A time of twenty blocks, some of which ran slower."""
    sample = Sample(log, 0.001, 11, 20 - slow, slow, apart if slow else 0.0)
    return Metric("recipe fprop", "ms", True, sample)


def test_a_clock_that_explains_a_change_leaves_it_unclear() -> None:
    change = math.log(1.05)
    known = Circumstances((1980.0, 1980.0 / 1.05))
    assert judge_metric(timed(0), timed(change), 0.02).verdict is Verdict.SLOWER
    found = judge_metric(timed(0), timed(change), 0.02, known)
    assert found.verdict is Verdict.UNCLEAR
    assert "1980 vs 1886 MHz" in found.note
    beyond = judge_metric(timed(0), timed(2 * change), 0.02, known)
    assert beyond.verdict is Verdict.SLOWER


def test_a_change_against_the_clock_is_unclear_too() -> None:
    found = judge_metric(timed(0), timed(-0.03), 0.02, Circumstances((1900.0, 2000.0)))
    assert found.verdict is Verdict.UNCLEAR


def test_two_speeds_on_one_side_alone_are_unclear_and_on_both_compared() -> None:
    found = judge_metric(timed(0), timed(0.04, slow=8), 0.02)
    assert found.verdict is Verdict.UNCLEAR
    assert "two speeds" in found.note
    both = judge_metric(timed(0, slow=6), timed(0.04, slow=8), 0.02)
    assert both.verdict is Verdict.SLOWER
    assert "second: 40 % of the blocks excluded" in both.note


def test_a_few_slow_blocks_tell_at_which_of_two_speeds_the_others_ran() -> None:
    found = judge_metric(timed(0, slow=2), timed(0.04, slow=8), 0.02)
    assert found.verdict is Verdict.SLOWER
    hiccup = judge_metric(timed(0, slow=2, apart=0.2), timed(0.04, slow=8), 0.02)
    assert hiccup.verdict is Verdict.UNCLEAR  # something else than the other's slower speed
    alone = judge_metric(timed(0, slow=1, apart=0.2), timed(0.04), 0.02)
    assert alone.verdict is Verdict.SLOWER  # one slow block makes no second speed


def test_another_gpu_of_the_model_widens_the_interval_of_times_alone() -> None:
    other, same = Circumstances(same_gpu=False), Circumstances(same_gpu=True)
    wide, narrow = (judge_metric(timed(0), timed(0), 0.02, known) for known in (other, same))
    assert wide.ratio is not None
    assert narrow.ratio is not None
    assert wide.ratio.high > narrow.ratio.high
    speedup = Metric("fprop speedup", "x", False, Sample(0, 0.001, 11, 20))
    assert judge_metric(speedup, speedup, 0.02, other).verdict is Verdict.SAME


def test_a_figure_without_an_interval_is_good_to_five_percent() -> None:
    sample = assumed(4.718)
    assert sample is not None
    found = ratio(sample, Sample(math.log(4.718), 0.0, 1e6, 1), 0.95, between=0.0)
    assert found.high == pytest.approx(1.05, rel=1e-3)
    assert found.low == pytest.approx(1 / 1.05, rel=1e-3)


def test_an_interval_of_a_record_without_samples_is_used() -> None:
    sample = from_interval(2.0, 1.9, 2.1, 0.95)
    assert sample is not None
    assert sample.error == pytest.approx(0.0255, rel=0.01)
    assert from_interval(2.0, math.nan, 2.1, 0.95) is None


def test_a_run_without_pairs_has_times_and_a_speedup_all_the_same() -> None:
    rng = np.random.default_rng(0)
    record = simulate(KINDS[0], {}, rng)
    config = {"benchmark": {"order": "sequential", "iterations_per_block": 100}}
    found = metrics(record.model_copy(update={"config": config}))
    assert len(found) == 6
    assert found["fprop speedup"].sample.error > 0


def test_a_hostile_configuration_costs_precision_not_the_comparison() -> None:
    record = simulate(KINDS[0], {}, np.random.default_rng(0))
    for config in ({}, {"benchmark": "x"}, {"benchmark": {"iterations_per_block": -3}}):
        assert len(metrics(record.model_copy(update={"config": config}))) == 6
