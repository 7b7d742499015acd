"""Intervals cover what they claim, pairs are kept together, and warm-up ends when it should."""

from __future__ import annotations

import pytest
import torch
from scipy import stats

from conf.choices import Statistic
from jobs.node.statistics import (
    MIN_BLOCKS,
    estimate,
    is_stable,
    ratio_interval,
    time_interval,
)


def drifting(blocks: int, iterations: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two arms, 1.5 apart, whose clocks drift together by far more than they differ."""
    generator = torch.Generator().manual_seed(seed)
    drift = 1 + 0.3 * torch.rand(blocks, 1, generator=generator, dtype=torch.float64)
    noise = 1 + 0.01 * torch.randn(2, blocks, iterations, generator=generator, dtype=torch.float64)
    return 15 * drift * noise[0], 10 * drift * noise[1]


def test_the_median_of_an_even_number_lies_between_the_two_in_the_middle() -> None:
    assert estimate(torch.tensor([[1.0, 2.0], [10.0, 4.0]]), Statistic.median) == 3.0


def test_the_mean_is_the_mean() -> None:
    assert estimate(torch.tensor([[1.0, 2.0], [10.0, 3.0]]), Statistic.mean) == 4.0


def test_constant_samples_have_an_interval_of_no_width() -> None:
    samples = torch.full((8, 3), 2.5, dtype=torch.float64)
    found = time_interval(samples, Statistic.median, 0.95, 100)
    assert (found.value, found.low, found.high) == (2.5, 2.5, 2.5)


def test_equal_input_gives_equal_intervals() -> None:
    baseline, recipe = drifting(20, 5, 0)
    one, other = (
        ratio_interval(baseline, recipe, Statistic.median, 0.95, 500, paired=True)
        for _ in range(2)
    )
    assert one == other


def test_pairing_takes_a_common_drift_out_of_the_ratio() -> None:
    baseline, recipe = drifting(20, 5, 1)
    paired = ratio_interval(baseline, recipe, Statistic.mean, 0.95, 2000, paired=True)
    apart = ratio_interval(baseline, recipe, Statistic.mean, 0.95, 2000, paired=False)
    assert paired.low <= 1.5 <= paired.high
    assert paired.high - paired.low < (apart.high - apart.low) / 4


def test_a_95_percent_interval_covers_the_truth_about_that_often() -> None:
    covered = 0
    for seed in range(200):
        baseline, recipe = drifting(20, 5, seed)
        found = ratio_interval(baseline, recipe, Statistic.mean, 0.95, 300, paired=True)
        covered += found.low <= 1.5 <= found.high
    assert 175 <= covered <= 199


def test_the_interval_agrees_with_scipys_bootstrap() -> None:
    baseline, recipe = drifting(30, 1, 3)
    found = ratio_interval(baseline, recipe, Statistic.mean, 0.95, 4000, paired=True)
    theirs = stats.bootstrap(
        (baseline.flatten().numpy(), recipe.flatten().numpy()),
        lambda b, r, axis: b.mean(axis) / r.mean(axis),
        paired=True,
        vectorized=True,
        method="percentile",
        rng=0,
        n_resamples=4000,
    ).confidence_interval
    assert found.low == pytest.approx(theirs.low, rel=2e-3)
    assert found.high == pytest.approx(theirs.high, rel=2e-3)


def test_few_blocks_are_resampled_by_iteration() -> None:
    assert MIN_BLOCKS > 1
    samples = torch.arange(1.0, 101.0, dtype=torch.float64)[None]
    found = time_interval(samples, Statistic.mean, 0.95, 1000)
    assert found.low < found.value < found.high


def test_warming_up_ends_when_two_windows_agree() -> None:
    assert not is_stable([1.0] * 9)
    assert is_stable([1.0] * 10)
    assert not is_stable([2.0] * 5 + [1.0] * 5)
    assert is_stable([9.0, 2.0] + [1.0] * 5 + [1.005] * 5)
