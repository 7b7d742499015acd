"""Medians, and bootstrap intervals on an arm's time and on the ratio of two arms.

Samples come in blocks: B blocks of I iterations. Iterations of one block share their moment, so
whole blocks are resampled, and both arms' blocks of one pair together.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from conf.choices import Statistic

# With fewer blocks, resampling blocks says nothing: iterations are resampled then.
MIN_BLOCKS = 5
_SEED = 20240607


@dataclass(frozen=True)
class Interval:
    """An estimate with its bootstrap interval, in the unit of what was estimated."""

    value: float
    low: float
    high: float


def estimate(samples_BI: Tensor, statistic: Statistic) -> float:
    """One number for all samples.

    Args:
        samples_BI: Times in milliseconds, float64.
        statistic: Median or mean.

    Returns:
        Milliseconds.
    """
    return float(_reduce(samples_BI.flatten()[None], statistic)[0])


def time_interval(
    samples_BI: Tensor, statistic: Statistic, confidence: float, resamples: int
) -> Interval:
    """An arm's time with its interval.

    Args:
        samples_BI: Times in milliseconds, float64.
        statistic: Median or mean.
        confidence: Coverage, as 0.95.
        resamples: Bootstrap resamples.

    Returns:
        The percentile interval around the statistic of all samples.
    """
    samples_BI = _resampling_units(samples_BI)
    picks_RB = _picks(len(samples_BI), resamples, _SEED)
    drawn_R = _reduce(samples_BI[picks_RB].flatten(1), statistic)
    return _interval(estimate(samples_BI, statistic), drawn_R, confidence)


def ratio_interval(
    baseline_BI: Tensor,
    recipe_BI: Tensor,
    statistic: Statistic,
    confidence: float,
    resamples: int,
    *,
    paired: bool,
) -> Interval:
    """How many times faster the recipe's arm is, with its interval.

    Args:
        baseline_BI: The baseline's times in milliseconds, float64.
        recipe_BI: The recipe's.
        statistic: Median or mean of each arm.
        confidence: Coverage, as 0.95.
        resamples: Bootstrap resamples.
        paired: Whether block i of both arms ran side by side; then both are drawn together.

    Returns:
        statistic(baseline) / statistic(recipe).
    """
    baseline_BI, recipe_BI = _resampling_units(baseline_BI), _resampling_units(recipe_BI)
    picks_RB = _picks(len(recipe_BI), resamples, _SEED)
    if paired and len(baseline_BI) == len(recipe_BI):
        baseline_picks_RB = picks_RB
    else:
        baseline_picks_RB = _picks(len(baseline_BI), resamples, _SEED + 1)
    drawn_R = _reduce(baseline_BI[baseline_picks_RB].flatten(1), statistic) / _reduce(
        recipe_BI[picks_RB].flatten(1), statistic
    )
    value = estimate(baseline_BI, statistic) / estimate(recipe_BI, statistic)
    return _interval(value, drawn_R, confidence)


def is_stable(times_ms: list[float], window: int = 5, tolerance: float = 0.01) -> bool:
    """Whether warming up has ended: the last window's median equals the one before.

    Args:
        times_ms: Times of the iterations so far.
        window: Iterations of each of the two windows.
        tolerance: Relative difference of the two medians that counts as none.

    Returns:
        True once two windows agree.
    """
    if len(times_ms) < 2 * window:
        return False
    before = estimate(torch.tensor(times_ms[-2 * window : -window]), Statistic.median)
    last = estimate(torch.tensor(times_ms[-window:]), Statistic.median)
    return abs(last - before) <= tolerance * before


def _resampling_units(samples_BI: Tensor) -> Tensor:
    return samples_BI if len(samples_BI) >= MIN_BLOCKS else samples_BI.reshape(-1, 1)


def _picks(blocks: int, resamples: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(blocks, (resamples, blocks), generator=generator)


def _reduce(samples_RN: Tensor, statistic: Statistic) -> Tensor:
    if statistic is Statistic.mean:
        return samples_RN.mean(dim=1)
    return samples_RN.quantile(0.5, dim=1)


def _interval(value: float, drawn_R: Tensor, confidence: float) -> Interval:
    tail = (1 - confidence) / 2
    ends = torch.tensor([tail, 1 - tail], dtype=drawn_R.dtype)
    low, high = drawn_R.quantile(ends).tolist()
    return Interval(value, min(low, value), max(high, value))
