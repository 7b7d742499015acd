"""Data of the plots: timed points, grouped by GPU and shape."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from jobs.collect.points_table import arm_of
from jobs.record import ArmBenchmark, Record, Speedup, Timing
from jobs.status.point_result import PointResult
from jobs.text import plain_text

_LARGEST = 1e12
_WITHOUT_EFFECT_ON_TIME = ("tolerance", "benchmark", "seed")


class NotPlottable(Exception):
    """A point has no times to plot; the text is the reason."""


@dataclass(frozen=True)
class Timed:
    """One timed point on real hardware.

    Attributes:
        point: The point.
        recipe: Name of its recipe.
        seq_len: Tokens of a sequence.
        arms: Times by arm, `recipe` and `bf16`; one may be missing.
        speedups: Speedups by direction; None without a claim.
    """

    point: PointResult
    recipe: str
    seq_len: int
    arms: dict[str, ArmBenchmark]
    speedups: dict[str, Speedup | None]

    @classmethod
    def of(cls, point: PointResult) -> Timed:
        """Return the times of a point.

        Raises:
            NotPlottable: It has none, or none of real hardware.
        """
        record, length = point.record, point.setting("shape.seq_len")
        if record is None or record.benchmark is None:
            finished = point.state.finished
            raise NotPlottable(f"{point.state}, not timed" if finished else "not finished")
        if not isinstance(length, int) or length < 1:
            raise NotPlottable("unknown sequence length")
        if any(arm.emulated for arm in record.benchmark.arms):
            raise NotPlottable("emulated: its times say nothing about hardware")
        arms = _valid_arms(record)
        if not arms:
            raise NotPlottable("no valid times")
        speedups = {
            "fprop": _claimed(record.benchmark.fprop_speedup),
            "bprop": _claimed(record.benchmark.bprop_speedup),
        }
        recipe = plain_text(str(point.setting("recipe.name") or "unknown"))
        return cls(point, recipe, length, arms, speedups)

    @property
    def settings(self) -> str:
        """Other settings that affect the point's time."""
        settings = self.point.differences.split(" ")
        return " ".join(s for s in settings if not s.startswith(_WITHOUT_EFFECT_ON_TIME))

    def timing(self, arm: str, direction: str) -> Timing | None:
        """Return the times of one direction of one arm."""
        benchmark = self.arms.get(arm)
        if benchmark is None:
            return None
        return benchmark.fprop if direction == "fprop" else benchmark.bprop


@dataclass(frozen=True)
class Group:
    """Timed points of one GPU, shape and batch, which may share a plot."""

    gpu: str
    shape: str
    timed: list[Timed]

    @property
    def title(self) -> str:
        """Display name."""
        return f"{self.gpu}, {self.shape}"

    @property
    def recipes(self) -> list[str]:
        """Recipes in the order of their first points."""
        return list(dict.fromkeys(timed.recipe for timed in self.timed))

    @property
    def lengths(self) -> list[int]:
        """Sequence lengths, ascending."""
        return sorted({timed.seq_len for timed in self.timed})

    @property
    def has_curves(self) -> bool:
        """True if there are several lengths or recipes to compare."""
        return len(self.curves.lengths) > 1 or len(self.recipes) > 1

    @property
    def curves(self) -> Group:
        """Points that a curve may join: those of each recipe with its most frequent settings.

        A curve through points of which one ran as a CUDA graph, or with cached weights, would
        show a step that the length did not cause.
        """
        counts = Counter((timed.recipe, timed.settings) for timed in self.timed)
        usual: dict[str, str] = {}
        for (recipe, settings), _ in sorted(counts.items(), key=lambda x: (-x[1], len(x[0][1]))):
            usual.setdefault(recipe, settings)
        joined = [timed for timed in self.timed if timed.settings == usual[timed.recipe]]
        return Group(self.gpu, self.shape, joined)

    @property
    def off_curve(self) -> list[PointResult]:
        """Points whose settings differ from those of their recipe's curve."""
        joined = {id(timed) for timed in self.curves.timed}
        return [timed.point for timed in self.timed if id(timed) not in joined]

    @property
    def repeated(self) -> list[PointResult]:
        """Points that share recipe and length, so that only their median is plotted."""
        by_place: dict[tuple[str, int], list[PointResult]] = defaultdict(list)
        for timed in self.timed:
            by_place[timed.recipe, timed.seq_len].append(timed.point)
        return [point for points in by_place.values() if len(points) > 1 for point in points]

    def of_recipe(self, recipe: str) -> list[Timed]:
        """Return the points of one recipe by length."""
        points = [timed for timed in self.timed if timed.recipe == recipe]
        return sorted(points, key=lambda timed: timed.seq_len)


def group_points(
    points: Iterable[PointResult],
) -> tuple[list[Group], list[tuple[PointResult, str]]]:
    """Return the groups, the largest first, and the other points with the reason.

    A probe is in neither, because it times no layer.
    """
    by_title: dict[tuple[str, str], list[Timed]] = defaultdict(list)
    untimed: list[tuple[PointResult, str]] = []
    for point in points:
        try:
            by_title[_gpu(point), _shape(point)].append(Timed.of(point))
        except NotPlottable as reason:
            if point.setting("job") != "probe":
                untimed.append((point, str(reason)))
    groups = [Group(gpu, shape, timed) for (gpu, shape), timed in by_title.items() if timed]
    return sorted(groups, key=lambda group: -len(group.timed)), untimed


def finite(*values: float | None) -> bool:
    """Return True if all of these are finite and of a plausible size."""
    return all(
        value is not None and math.isfinite(value) and abs(value) < _LARGEST for value in values
    )


def _valid_arms(record: Record) -> dict[str, ArmBenchmark]:
    arms = {name: arm_of(record, name) for name in ("recipe", "bf16")}
    return {
        name: arm
        for name, arm in arms.items()
        if arm is not None
        and finite(arm.fprop.median_ms, arm.bprop.median_ms)
        and min(arm.fprop.median_ms, arm.bprop.median_ms) > 0
    }


def _claimed(speedup: Speedup | None) -> Speedup | None:
    if speedup is None or speedup.claim == "emulated":
        return None
    return speedup if finite(speedup.ratio, speedup.low, speedup.high) else None


def _gpu(point: PointResult) -> str:
    name = point.record.environment.gpu_name if point.record else None
    return plain_text(name or str(point.setting("gpu.name") or "unknown GPU"))


def _shape(point: PointResult) -> str:
    batch = point.setting("shape.batch")
    extra = f" b={batch}" if batch not in (None, 1) else ""
    return plain_text(f"{point.setting('shape.name') or 'unknown shape'}{extra}")
