"""Several runs of the same thing on one side of a comparison: they count together.

What differs from run to run, no number of blocks of one run can average out; more runs do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, stdev

from jobs.compare.metrics import Metric, metrics
from jobs.compare.statistics import BETWEEN_RUNS, Sample
from jobs.record import Record
from jobs.status.point_result import PointResult

_SAME_CLOCK = 0.015
_CLOCK_ERRORS = 3.0
_SOFTWARE = (
    *("driver", "cuda", "cudnn_transformer_engine", "cudnn_torch", "transformer_engine"),
    *("torch", "triton", "image", "commit", "dirty_hash"),
)


def repeats(older: Sequence[PointResult], newest: PointResult) -> list[PointResult]:
    """Earlier runs that may stand beside the newest one.

    Args:
        older: Points that were asked for the same on the same GPU model, oldest first.
        newest: The one that counts.

    Returns:
        Those that passed with times, with the same configuration and the same software, each once.
    """
    found = {_moment(newest): newest}
    for point in older:
        if _is_timed(point) and _is_timed(newest) and point.config == newest.config:
            assert point.record is not None
            assert newest.record is not None
            if _software(point.record) == _software(newest.record):
                found.setdefault(_moment(point), point)
    return [point for point in found.values() if point is not newest]


def at_one_clock(records: Sequence[Record]) -> list[Record]:
    """Return the runs at the fastest clock: another clock is another measurement.

    Args:
        records: Runs of the same thing.

    Returns:
        All of them where a clock is not known.
    """
    clocks = [clock(record) for record in records]
    known = [mhz for mhz, _ in clocks if mhz is not None]
    if len(known) < len(records):
        return list(records)
    kept = []
    for record, (mhz, error) in zip(records, clocks, strict=True):
        limit = max(_SAME_CLOCK, _CLOCK_ERRORS * error)
        if mhz is not None and math.log(max(known) / mhz) <= limit:
            kept.append(record)
    return kept


def clock(record: Record) -> tuple[float | None, float]:
    """The mean SM clock while a point was timed, and its relative standard error."""
    clocks = [
        sample.sm_clock_mhz
        for sample in record.telemetry
        if sample.when == "during" and sample.sm_clock_mhz and math.isfinite(sample.sm_clock_mhz)
    ]
    if not clocks or fmean(clocks) <= 0:
        return None, 0.0
    middle = fmean(clocks)
    spread = stdev(clocks) if len(clocks) > 1 else 0.0
    return middle, spread / middle / math.sqrt(len(clocks))


def pooled_metrics(records: Sequence[Record]) -> dict[str, Metric]:
    """Return each time and speedup over several runs.

    Args:
        records: Runs of the same thing, the newest last; at least one.

    Returns:
        The newest one's metrics, each the mean over all runs that measured it alike.
    """
    *older, newest = (metrics(record) for record in records)
    found = {}
    for name, metric in newest.items():
        alike = [each[name] for each in older if name in each and _is_alike(each[name], metric)]
        runs = (*alike, metric)
        throttled = fmean(one.throttled_share for one in runs)
        pooled = pool([one.sample for one in runs]) if alike else metric.sample
        found[name] = replace(metric, sample=pooled, throttled_share=throttled)
    return found


def pool(samples: Sequence[Sample]) -> Sample:
    """Several runs as one sample.

    Args:
        samples: At least two, of runs that may differ by BETWEEN_RUNS as any two may.

    Returns:
        Their mean. Its error is what each run knows of itself, or what they are seen to differ by
        where that is more.
    """
    count = len(samples)
    logs = [sample.log for sample in samples]
    within = math.sqrt(sum(sample.error**2 for sample in samples)) / count
    # BETWEEN_RUNS is added to every ratio: what they differ by beyond that belongs to the error.
    seen = math.sqrt(max(0.0, stdev(logs) ** 2 - BETWEEN_RUNS**2) / count)
    freedom = count - 1 if seen > within else sum(sample.freedom for sample in samples)
    return Sample(
        fmean(logs),
        max(within, seen),
        freedom,
        sum(sample.count for sample in samples),
        sum(sample.slow_blocks for sample in samples),
        fmean(sample.speeds_apart for sample in samples),
        count,
    )


def _is_alike(one: Metric, other: Metric) -> bool:
    """Return True if both have a measured error and the same number of speeds."""
    speeds = [bool(metric.sample.speeds_apart) for metric in (one, other)]
    return not one.assumed and not other.assumed and speeds[0] is speeds[1]


def _is_timed(point: PointResult) -> bool:
    timed = point.record is not None and point.record.benchmark is not None
    return timed and point.state == "PASSED" and not point.partial


def _software(record: Record) -> tuple[object, ...]:
    facts = [getattr(record.environment, name) for name in _SOFTWARE]
    return (*facts, sorted(record.capability.attention_backend.items()))


def _moment(point: PointResult) -> tuple[object, ...]:
    """Which run a point is of: a record that was gathered twice is one run."""
    record = point.record
    if record is None:
        return (id(point),)
    identity = record.identity
    return record.finished_at, identity.job_id, identity.attempt, identity.point_id
