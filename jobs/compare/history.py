"""`history`: each metric over many collections, and where it changed for good.

A series is cut where both sides differ by more than the practical threshold and by more than
chance allows: binary segmentation, whose cuts are tested with Welch's t on a robust noise level.
With fewer than two values on a side, a cut is only as good as the intervals of the two runs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from statistics import fmean, median

from jobs.compare.accuracy import error_metrics
from jobs.compare.comparison import ACCURACY_THRESHOLD, THRESHOLD
from jobs.compare.load import moment
from jobs.compare.match import asked_key, gpu_of
from jobs.compare.metrics import Metric, is_emulated, metrics
from jobs.compare.provenance import Difference, differences
from jobs.compare.statistics import BETWEEN_RUNS, Sample, ratio
from jobs.compare.verdict import CONFIDENCE, Verdict
from jobs.record import Record
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult, with_labels


@dataclass(frozen=True)
class Seen:
    """One value of a series."""

    collection: str
    when: str
    point: PointResult
    metric: Metric

    @property
    def value(self) -> float:
        """The quantity."""
        return math.exp(self.metric.sample.log)


@dataclass(frozen=True)
class Change:
    """A place where a series changed for good.

    Attributes:
        at: Index of the first value after the change.
        collection: The collection that shows it first.
        when: When that one ended.
        ratio: Level after over level before.
        verdict: FASTER or SLOWER; of an error BETTER or WORSE.
        why: What else changed between the last value before and the first after.
    """

    at: int
    collection: str
    when: str
    ratio: float
    verdict: Verdict
    why: list[Difference]


@dataclass(frozen=True)
class Series:
    """One metric of one point asked, on one GPU, over time."""

    gpu: str
    label: str
    metric: str
    unit: str
    values: list[Seen]
    changes: list[Change]

    @property
    def drift(self) -> float:
        """The last value over the first."""
        return self.values[-1].value / self.values[0].value


def history(
    collections: Sequence[Collection],
    threshold: float = THRESHOLD,
    accuracy_threshold: float = ACCURACY_THRESHOLD,
) -> list[Series]:
    """Return every metric over collections.

    Args:
        collections: Any number, in any order; they are put in the order of their time.
        threshold: Relative change of a time that matters.
        accuracy_threshold: Relative change of an error that matters.

    Returns:
        A series for each GPU, thing asked and metric that occurs at least twice, those that
        changed first.
    """
    found: dict[tuple[str, str, str], list[Seen]] = defaultdict(list)
    ordered = sorted(collections, key=moment)
    points = iter(with_labels([point for collection in ordered for point in collection.points]))
    for collection in ordered:
        for point in islice(points, len(collection.points)):
            if point.record is None or point.partial:
                continue
            when = point.record.finished_at or ""
            gpu, asked = gpu_of(point) or "no GPU", asked_key(point.config)
            followed = metrics(point.record) | error_metrics(point.record)
            for name, metric in followed.items():
                found[gpu, asked, name].append(Seen(collection.name, when, point, metric))
    series = []
    for (gpu, _, name), values in found.items():
        once = _once(values)
        if len(once) > 1:
            label, unit = once[0].point.label, once[0].metric.unit
            changes = change_points(once, threshold if unit else accuracy_threshold)
            series.append(Series(gpu, label, name, unit, once, changes))
    return sorted(series, key=lambda one: -len(one.changes))


def emulated_points(collections: Sequence[Collection]) -> int:
    """Return the number of points with emulated times, each record counted once."""
    return len(
        {
            _run_of(point.record)
            for one in collections
            for point in one.points
            if point.record is not None and is_emulated(point.record)
        }
    )


def why_nothing(collections: Sequence[Collection]) -> str:
    """Return the reason why these collections have no history.

    Args:
        collections: What was given to it.

    Returns:
        The reason with what helps.
    """
    records = [one.record for each in collections for one in each.points if one.record is not None]
    if not any(record.benchmark or record.validation for record in records):
        return "none of the collections has times or errors"
    if all(is_emulated(record) and not record.validation for record in records):
        return "they have no errors, and times of emulated arms do not measure hardware"
    return "no point ran twice on the same GPU with the same configuration"


def change_points(values: Sequence[Seen], threshold: float) -> list[Change]:
    """Return the permanent changes of a series.

    Args:
        values: The series in its order.
        threshold: Relative change that matters.

    Returns:
        The changes in their order.
    """
    logs = [seen.metric.sample.log for seen in values]
    errors = [seen.metric.sample.error for seen in values]
    noise = _noise(logs, errors)
    cuts = sorted(_cuts(logs, noise, threshold, 0, len(logs)))
    edges = [0, *cuts, len(logs)]
    changes = []
    for start, cut, end in zip(edges, edges[1:], edges[2:], strict=False):
        step = median(logs[cut:end]) - median(logs[start:cut])
        worse = (step > 0) is values[cut].metric.lower_is_better
        before, after = values[cut - 1].point.record, values[cut].point.record
        why = differences(before, after) if before and after else []
        changes.append(
            Change(
                cut,
                values[cut].collection,
                values[cut].when,
                math.exp(step),
                _verdict(values[cut].metric, worse=worse),
                why,
            )
        )
    return changes


def _verdict(metric: Metric, *, worse: bool) -> Verdict:
    if metric.unit:
        return Verdict.SLOWER if worse else Verdict.FASTER
    return Verdict.WORSE if worse else Verdict.BETTER


def _once(values: Sequence[Seen]) -> list[Seen]:
    """Each record once: a sweep that was gathered under two names is one moment."""
    seen: dict[tuple[str, str, str, int], Seen] = {}
    for value in values:
        assert value.point.record is not None
        seen.setdefault(_run_of(value.point.record), value)
    return sorted(seen.values(), key=lambda value: value.when)


def _run_of(record: Record) -> tuple[str, str, str, int]:
    """Return the identity of a run, the same in every collection."""
    which = record.identity
    return record.finished_at or "", which.point_id, which.job_id or "", which.attempt


def _noise(logs: Sequence[float], errors: Sequence[float]) -> float:
    """The standard deviation of one value, from neighbours, which a few changes do not disturb."""
    steps = [abs(b - a) for a, b in pairwise(logs)]
    robust = 1.4826 * median(steps) / math.sqrt(2) if len(steps) >= 4 else 0.0
    return max(robust, math.hypot(median(errors), BETWEEN_RUNS))


def _cuts(
    logs: Sequence[float], noise: float, threshold: float, start: int, end: int
) -> list[int]:
    """Cuts of a stretch, found by halving it where its two sides differ most."""
    best, best_score = None, 0.0
    for cut in range(start + 1, end):
        left, right = logs[start:cut], logs[cut:end]
        score = abs(fmean(right) - fmean(left)) / math.sqrt(1 / len(left) + 1 / len(right))
        if score > best_score:
            best, best_score = cut, score
    if best is None:
        return []
    left, right = logs[start:best], logs[best:end]
    error_left, error_right = noise / math.sqrt(len(left)), noise / math.sqrt(len(right))
    found = ratio(
        Sample(median(left), error_left, max(1, len(logs) - 2), len(left)),
        Sample(median(right), error_right, max(1, len(logs) - 2), len(right)),
        # The best of many places was picked: each must pass a stricter test.
        1 - (1 - CONFIDENCE) / max(1, end - start - 1),
        between=0.0,
    )
    size = abs(math.log(found.value))
    if not (found.low > 1 or found.high < 1) or size < math.log1p(threshold):
        return []
    return [
        *_cuts(logs, noise, threshold, start, best),
        best,
        *_cuts(logs, noise, threshold, best, end),
    ]
