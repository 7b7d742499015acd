"""From the samples of two runs to an interval on their ratio, robust to what GPUs do.

Iterations of a block share their moment, so a block is one value. Values are compared as
logarithms: a ratio and its inverse then get the same verdict. Locations are trimmed means, so
that a few outliers do not move them; the standard error grows where neighbouring blocks are alike
and where the run drifts. A run whose blocks have two speeds is reduced to the faster one. What a
single run cannot see of itself, how it differs from the next run, enters as a floor.

Source: K. Yuen, "The two-sample trimmed t for unequal population variances", Biometrika 61, 1974.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist, fmean

MIN_BLOCKS = 5
"""With fewer blocks a block says nothing: iterations are the values then."""

BETWEEN_RUNS = 0.003
"""Relative standard deviation between two runs of the same thing, which no single run shows."""

BETWEEN_GPUS = 0.008
"""The same between two GPUs of one model: no two of them are equally fast."""

MIN_MODE = 3
"""Blocks that make a speed; fewer slow ones tell that the others ran at the faster one."""

_TRIM = 0.2
_LEAST, _MOST = 1e-9, 1e12  # no time in milliseconds and no speedup lies outside
_MODES_APART = 0.015
_MODES_CLEAR = 4.0


@dataclass(frozen=True)
class Sample:
    """One quantity of one run, on a logarithmic scale.

    Attributes:
        log: The location: the natural logarithm of the quantity.
        error: Its standard error within the run; 0 where nothing is known of it.
        freedom: Degrees of freedom of that error.
        count: Values behind it.
        slow_blocks: Blocks left out because they ran at the slower of two speeds.
        speeds_apart: How far, as a logarithm, the slower blocks lie from these; 0: none did.
        runs: Runs behind it.
    """

    log: float
    error: float
    freedom: float
    count: int
    slow_blocks: int = 0
    speeds_apart: float = 0.0
    runs: int = 1

    @property
    def two_speeds(self) -> bool:
        """True if too many blocks ran slower for an accident."""
        return self.slow_blocks >= MIN_MODE

    @property
    def slow_share(self) -> float:
        """Share of the blocks that ran slower."""
        return self.slow_blocks / max(1, self.slow_blocks + self.count)


@dataclass(frozen=True)
class Ratio:
    """The second run's quantity over the first run's, with its interval."""

    value: float
    low: float
    high: float


def block_logs(
    samples: Sequence[float], throttled: Sequence[bool], block_size: int
) -> list[float | None]:
    """One logarithm for each block, in the order in which they ran.

    Args:
        samples: Times of iterations, a block's after one another.
        throttled: True for each throttled sample; empty: none.
        block_size: Iterations in a block.

    Returns:
        The logarithm of each block's trimmed mean; None for a block that ran throttled or holds
        what is no time. With too few blocks, iterations stand for themselves.
    """
    if block_size < 1 or len(samples) < MIN_BLOCKS * block_size:
        block_size = 1
    marks = list(throttled) if len(throttled) == len(samples) else [False] * len(samples)
    logs: list[float | None] = []
    for start in range(0, len(samples) - block_size + 1, block_size):
        block = samples[start : start + block_size]
        clean = all(_LEAST < time < _MOST for time in block)
        if clean and not any(marks[start : start + block_size]):
            logs.append(math.log(_trimmed_mean(block)))
        else:
            logs.append(None)
    return logs


@dataclass(frozen=True)
class Speeds:
    """Two speeds of a run.

    Attributes:
        fast: Which blocks ran at the faster one.
        apart: How far the two are apart, as a logarithm.
    """

    fast: list[bool]
    apart: float


def two_speeds(moments: Sequence[float]) -> Speeds | None:
    """Which blocks ran at the faster of two speeds.

    Args:
        moments: How slow each moment was, both arms together, as logarithms.

    Returns:
        The speeds; None where the blocks have one.
    """
    ordered = sorted(moments)
    best: tuple[float, int] | None = None
    # One slow block tells where the others ran; a few fast ones are too few to compare.
    for cut in range(MIN_MODE, len(ordered)):
        spread = _squares(ordered[:cut]) + _squares(ordered[cut:])
        if best is None or spread < best[0]:
            best = (spread, cut)
    if best is None:
        return None
    spread, cut = best
    apart = fmean(ordered[cut:]) - fmean(ordered[:cut])
    within = math.sqrt(spread / max(1, len(ordered) - 2))
    gap = ordered[cut] - ordered[cut - 1]
    if apart < _MODES_APART or apart < _MODES_CLEAR * within or gap < 2 * within:
        return None
    border = (ordered[cut] + ordered[cut - 1]) / 2
    return Speeds([moment < border for moment in moments], apart)


def summarize(
    logs: Sequence[float], speeds: Speeds | None = None, wander: float = 0.0
) -> Sample | None:
    """The trimmed mean of a run's values with its standard error.

    Args:
        logs: Values in the order in which they were taken.
        speeds: The speeds of the run, of which these are the faster blocks.
        wander: What a drift of the whole run adds to the error.

    Returns:
        The sample; None where there are fewer than two values.
    """
    count = len(logs)
    if count < 2:
        return None
    cut = int(_TRIM * count)
    ordered = sorted(logs)
    kept = ordered[cut : count - cut]
    location = _trimmed_mean(logs)
    winsorized = [ordered[cut]] * cut + kept + [ordered[-cut - 1]] * cut
    variance = _squares(winsorized) / (len(kept) * (len(kept) - 1)) if len(kept) > 1 else 0.0
    alike = _alikeness([min(max(log, ordered[cut]), ordered[-cut - 1]) for log in logs])
    inflation = (1 + alike) / (1 - alike)
    error = math.hypot(math.sqrt(variance * inflation), wander)
    slow, apart = (speeds.fast.count(False), speeds.apart) if speeds else (0, 0.0)
    return Sample(location, error, max(1, len(kept) - 1), count, slow, apart)


def from_interval(value: float, low: float, high: float, confidence: float) -> Sample | None:
    """A sample of which only a value and its interval are known.

    Args:
        value: The quantity.
        low: Lower end of its interval.
        high: Upper end.
        confidence: Coverage of the interval.

    Returns:
        The sample; None where these are no positive numbers.
    """
    if not all(_LEAST < number < _MOST for number in (value, low, high)):
        return None
    wide = NormalDist().inv_cdf((1 + confidence) / 2)
    error = (math.log(high) - math.log(low)) / (2 * wide)
    return Sample(math.log(value), max(0.0, error), 1e6, 1)


def ratio(
    first: Sample,
    second: Sample,
    confidence: float,
    between: float = BETWEEN_RUNS,
    counts: tuple[int, int] | None = None,
) -> Ratio:
    """The second run over the first, with an interval that covers what runs differ by.

    Args:
        first: Reference.
        second: Compared with the reference.
        confidence: Coverage of the interval.
        between: Relative standard deviation of what one run cannot see of itself.
        counts: How many such differences each side averages; None: as many as it has runs.

    Returns:
        The ratio of the two quantities.
    """
    parts = [(first.error**2, first.freedom), (second.error**2, second.freedom)]
    within = sum(variance for variance, _ in parts)
    counts = counts or (first.runs, second.runs)
    floor = between**2 * (1 / counts[0] + 1 / counts[1])
    spread = within + floor
    # Welch's degrees of freedom; the floor is a constant, as if known from many runs.
    total = sum(variance**2 / freedom for variance, freedom in parts)
    freedom = spread**2 / total if total > 0 else 1e6
    half = _student((1 + confidence) / 2, max(5.0, freedom)) * math.sqrt(spread)
    change = second.log - first.log
    return Ratio(math.exp(change), math.exp(change - half), math.exp(change + half))


def _student(probability: float, freedom: float) -> float:
    """Quantile of Student's t by the Cornish-Fisher expansion, within 1 % from 5 degrees on."""
    z = NormalDist().inv_cdf(probability)
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )


def _squares(values: Sequence[float]) -> float:
    middle = fmean(values)
    return sum((value - middle) ** 2 for value in values)


def wander(logs: Sequence[float]) -> float:
    """Return the error due to a drift: the start of a run is as representative as its end.

    Args:
        logs: How slow each moment of a run was, in order.

    Returns:
        Half of the drift from start to end; 0 where it is no more than chance.
    """
    half = len(logs) // 2
    if half < MIN_BLOCKS:
        return 0.0
    early, late = logs[:half], logs[-half:]
    drift = 2 * (_trimmed_mean(late) - _trimmed_mean(early))
    # The two halves differ by chance, too: less than two standard errors are no drift.
    chance = 4 * (_squares(early) + _squares(late)) / (half * (half - 1))
    return math.sqrt(drift**2 - chance) / 2 if drift**2 > 4 * chance else 0.0


def _trimmed_mean(values: Sequence[float]) -> float:
    cut = int(_TRIM * len(values))
    return fmean(sorted(values)[cut : len(values) - cut])


def _alikeness(logs: Sequence[float]) -> float:
    """Return the lag-one autocorrelation, limited to 0 to 0.8."""
    spread = _squares(logs)
    if spread == 0 or len(logs) < MIN_BLOCKS:
        return 0.0
    middle = fmean(logs)
    shared = sum((a - middle) * (b - middle) for a, b in pairwise(logs))
    return min(0.8, max(0.0, shared / spread - 1 / math.sqrt(len(logs))))
