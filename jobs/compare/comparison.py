"""`compare`: what changed between collections, by how much, and is it more than noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from jobs.compare.accuracy import judge_accuracy
from jobs.compare.match import Pair, Unmatched, gpu_of, known_keys, match, other_inputs
from jobs.compare.metrics import ARMS, stage_times
from jobs.compare.provenance import Difference, circumstances, shared_differences
from jobs.compare.repeats import at_one_clock, pooled_metrics
from jobs.compare.sides import Side, of_other_gpus, side_of
from jobs.compare.verdict import REGRESSIONS, Judged, Verdict, judge_metric
from jobs.errors import InvalidValue
from jobs.record import DIRECTIONS, INFRASTRUCTURE_CAUSES, Cause, State
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult, with_labels
from jobs.sweeps.labels import without

THRESHOLD = 0.02
ACCURACY_THRESHOLD = 0.05
_SAYS_NOTHING = frozenset(
    cause.value for cause in INFRASTRUCTURE_CAUSES | {Cause.cancelled, Cause.submit_rejected}
)
"""Causes that are no fault of what a point runs: neither its time nor its error got worse."""


@dataclass(frozen=True)
class Rules:
    """Rules of a comparison.

    Attributes:
        threshold: Relative change of a time that matters.
        accuracy_threshold: Relative change of an error that matters.
        ignore: Dotted keys in which matched points may differ.
        across_gpus: True to compare points of different GPUs.
        metrics: Words one of which a judged metric's name must hold; empty: every metric.
    """

    threshold: float = THRESHOLD
    accuracy_threshold: float = ACCURACY_THRESHOLD
    ignore: tuple[str, ...] = ()
    across_gpus: bool = False
    metrics: tuple[str, ...] = ()

    @property
    def ignored(self) -> tuple[str, ...]:
        """Every key in which matched points may differ."""
        return (*self.ignore, "gpu") if self.across_gpus else self.ignore

    def __post_init__(self) -> None:
        for name in ("threshold", "accuracy_threshold"):
            value = getattr(self, name)
            if not 0 < value < 1:
                raise InvalidValue(f"compare.{name}", "be between 0 and 1", value)


@dataclass(frozen=True)
class ComparedPoint:
    """Two points that were asked for the same, and what changed.

    Attributes:
        pair: The points.
        label: What both are, in a few words: nothing of the keys in which they may differ.
        judged: Every metric of both, times first.
        stages: Stages of the recipe's arm whose time changed beyond the threshold, as ratios;
            they have no interval and decide nothing.
        outcome: What the change of outcome means; empty where both passed.
        verdict: The gravest of all.
    """

    pair: Pair
    label: str
    judged: list[Judged]
    stages: dict[str, float]
    outcome: str
    verdict: Verdict

    @property
    def gpus(self) -> tuple[str | None, str | None]:
        """The GPUs that both ran on."""
        return gpu_of(self.pair.first), gpu_of(self.pair.second)

    @property
    def note(self) -> str:
        """Remark on the figures of this pair."""
        return self.pair.first.note or self.pair.second.note


@dataclass(frozen=True)
class Comparison:
    """One collection judged against another.

    Attributes:
        sides: What is compared with, and what is judged.
        rules: How.
        points: Matched points.
        only_first: Points of the first unmatched; not those of a baseline on GPUs that
            the second did not run on, nor the other way round.
        only_second: Points of the second unmatched.
        differences: Why they may differ: facts that are not the same.
        repeated: Points that were left out because a newer one was asked for the same.
        command: What was typed, without `compare.ignore`; None: it was not.
    """

    sides: tuple[Side, Side]
    rules: Rules
    points: list[ComparedPoint]
    only_first: list[Unmatched]
    only_second: list[Unmatched]
    differences: list[Difference]
    repeated: int
    command: str | None = None

    @property
    def first(self) -> str:
        """Name of what is compared with."""
        return self.sides[0].name

    @property
    def second(self) -> str:
        """Name of what is judged."""
        return self.sides[1].name

    @property
    def words(self) -> tuple[str, str]:
        """Names of both sides in columns: `first`, and `second`, `third`, ..."""
        return self.sides[0].word, self.sides[1].word

    @property
    def counts(self) -> dict[Verdict, int]:
        """Number of matched points by verdict."""
        counts = Counter(point.verdict for point in self.points)
        return {verdict: counts[verdict] for verdict in Verdict if counts[verdict]}

    @property
    def exit_code(self) -> int:
        """0: nothing is worse; 1: a regression; 3: something UNCLEAR or missing."""
        if REGRESSIONS & set(self.counts):
            return 1
        lost = [one for one in self.only_first if not one.point.partial]
        missing = bool(lost) or not self.points
        return 3 if missing or Verdict.UNCLEAR in self.counts else 0


def compare(
    collections: Sequence[Collection], rules: Rules | None = None, command: str | None = None
) -> list[Comparison]:
    """Compare every further collection with the first.

    Args:
        collections: At least two; the first is what the others are compared with.
        rules: Thresholds, and what may differ.
        command: What was typed, without `compare.ignore`; None: it was not.

    Returns:
        One comparison for each collection after the first.
    """
    assert len(collections) >= 2
    rules = rules or Rules()
    _check_words(collections, rules)
    first = collections[0]
    return [
        replace(
            _compare(first, other, rules, (side_of(first, 0), side_of(other, place))),
            command=command,
        )
        for place, other in enumerate(collections)
        if place
    ]


def exit_code(comparisons: Sequence[Comparison]) -> int:
    """The gate over all: 1 if any holds a regression, 3 if any is unclear or lacks points."""
    codes = {comparison.exit_code for comparison in comparisons}
    return 1 if 1 in codes else max(codes, default=3)


def compare_points(pair: Pair, rules: Rules, sides: tuple[str, str]) -> ComparedPoint:
    """Compare every metric of two points with the same settings."""
    first, second = pair.first, pair.second
    judged: list[Judged] = []
    stages: dict[str, float] = {}
    if first.record is not None and second.record is not None:
        runs = [
            at_one_clock([point.record for point in (*older, newest) if point.record is not None])
            for older, newest in ((pair.before, first), (pair.after, second))
        ]
        before, after = (pooled_metrics(side) for side in runs)
        known = circumstances(runs[0], runs[1], sides)
        judged = [
            judge_metric(before[name], after[name], rules.threshold, known)
            for name in before
            if name in after
        ]
        if not (first.partial or second.partial):
            other = other_inputs(first, second)
            judged += judge_accuracy(
                first.record, second.record, rules.accuracy_threshold, other, sides
            )
        if rules.metrics:
            judged = [one for one in judged if any(word in one.metric for word in rules.metrics)]
        old, new = stage_times(first.record), stage_times(second.record)
        ratios = {name: new[name] / old[name] for name in old if name in new}
        stages = {
            name: ratio
            for name, ratio in ratios.items()
            if name.startswith("recipe")
            and not 1 / (1 + rules.threshold) <= ratio <= 1 + rules.threshold
        }
    outcome, worst = _outcome(first, second, judged)
    shown = second if first.partial else first
    label = replace(shown, config=without(shown.config, rules.ignored)).label
    return ComparedPoint(pair, label, judged, stages, outcome, worst)


def _check_words(collections: Sequence[Collection], rules: Rules) -> None:
    """Raise InvalidValue for a word of the rules that matches nothing in these collections."""
    points = [point for collection in collections for point in collection.points]
    keys = {key for point in points for key in known_keys(point.config)}
    for word in rules.ignore if keys else ():
        if word not in keys:
            raise InvalidValue(
                *("compare.ignore", "name keys of a point", word),
                "for example shape.seed, recipe or benchmark",
            )
    names = [f"{arm} {direction}" for arm in ARMS for direction in DIRECTIONS]
    names += [f"{direction} speedup" for direction in DIRECTIONS]
    names += [f"error of {tensor}, worst head" for tensor in ("", *_tensors(points))]
    for word in rules.metrics:
        if not any(word in name for name in names):
            raise InvalidValue(
                *("compare.metrics", "be part of a metric's name", word),
                "for example speedup, recipe, bprop or error",
            )


def _tensors(points: Sequence[PointResult]) -> set[str]:
    validations = [point.record.validation for point in points if point.record]
    return {error.tensor for one in validations if one for error in one.tensors}


def _compare(
    first: Collection, second: Collection, rules: Rules, sides: tuple[Side, Side]
) -> Comparison:
    # Named together, so that labels tell both sides apart.
    points = with_labels([*first.points, *second.points], rules.ignored)
    before, after = points[: len(first.points)], points[len(first.points) :]
    matched = match(before, after, rules.ignore, across_gpus=rules.across_gpus)
    only_first, only_second = matched.only_first, matched.only_second
    gpus: list[tuple[str, ...]] = [(), ()]
    if first.baseline and not rules.across_gpus:
        only_first, gpus[0] = of_other_gpus(only_first, after)
    if second.baseline and not rules.across_gpus:
        only_second, gpus[1] = of_other_gpus(only_second, before)
    old, new = (replace(one, not_compared=those) for one, those in zip(sides, gpus, strict=True))
    words = old.word, new.word
    return Comparison(
        (old, new),
        rules,
        [compare_points(pair, rules, words) for pair in matched.pairs],
        only_first,
        only_second,
        shared_differences(matched.pairs),
        matched.repeated,
    )


def _outcome(first: PointResult, second: PointResult, judged: list[Judged]) -> tuple[str, Verdict]:
    """Return the change of outcome in words, and the worst verdict."""
    verdicts = {one.verdict for one in judged}
    words = f"{first.state_text} before, {second.state_text} now"
    if first.state == second.state == "UNSUPPORTED":
        return "UNSUPPORTED, as before", Verdict.SAME
    if first.cause in _SAYS_NOTHING or second.cause in _SAYS_NOTHING:
        return f"{words}, which is unrelated to the point itself", Verdict.UNCLEAR
    if second.state in ("FAILED", "ERROR"):
        if first.state in ("FAILED", "ERROR"):
            return words, _gravest(verdicts | {Verdict.UNCLEAR})
        return words, Verdict.WORSE
    if second.state is State.UNSUPPORTED or not second.state.finished:
        return words, Verdict.UNCLEAR
    if first.state != "PASSED":
        fixed = Verdict.BETTER if first.state in ("FAILED", "ERROR") else Verdict.UNCLEAR
        return words, _gravest(verdicts | {fixed})
    if first.setting("job") == second.setting("job") == "probe":
        return "", Verdict.SAME  # what a fingerprint shows stands among the differences
    if not judged:
        return "nothing to compare: neither times nor errors", Verdict.UNCLEAR
    return "", _gravest(verdicts)


def _gravest(verdicts: set[Verdict]) -> Verdict:
    """The verdict of a point: a regression before doubt, doubt before a gain."""
    order = (
        Verdict.SLOWER,
        Verdict.WORSE,
        Verdict.UNCLEAR,
        Verdict.FASTER,
        Verdict.BETTER,
        Verdict.SAME,
    )
    return min(verdicts, key=order.index)
