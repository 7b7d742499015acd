"""Data of the plots: timed points, grouped by GPU and shape."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from jobs.collect.points_table import arm_of
from jobs.record import ArmBenchmark, Speedup, Timing
from jobs.status.point_result import PointResult
from jobs.text import plain_text

_MOST = 1e12
_WITHOUT_EFFECT = ("tolerance", "benchmark", "seed")  # on what a step does, so on its time


@dataclass(frozen=True)
class Timed:
    """One timed point on real hardware.

    Attributes:
        point: The point.
        recipe: Name of its recipe.
        seq_len: Tokens of a sequence.
        arms: Both arms' figures, by `recipe` and `bf16`; one may be missing.
        speedups: By direction; None where none is claimed.
    """

    point: PointResult
    recipe: str
    seq_len: int
    arms: dict[str, ArmBenchmark]
    speedups: dict[str, Speedup | None]

    @property
    def settings(self) -> str:
        """Other settings that affect the point's time."""
        words = self.point.differences.split(" ")
        return " ".join(word for word in words if not word.startswith(_WITHOUT_EFFECT))

    def timing(self, arm: str, direction: str) -> Timing | None:
        """One direction of one arm."""
        found = self.arms.get(arm)
        if found is None:
            return None
        return found.fprop if direction == "fprop" else found.bprop


@dataclass(frozen=True)
class Group:
    """Timed points of one GPU, shape and batch, which may stand in one plot."""

    gpu: str
    shape: str
    timed: list[Timed]

    @property
    def title(self) -> str:
        """The group in a few words."""
        return f"{self.gpu}, {self.shape}"

    @property
    def recipes(self) -> list[str]:
        """The recipes that occur, in the order in which they do."""
        return list(dict.fromkeys(timed.recipe for timed in self.timed))

    @property
    def lengths(self) -> list[int]:
        """The sequence lengths that occur, ascending."""
        return sorted({timed.seq_len for timed in self.timed})

    @property
    def lines(self) -> Group:
        """The points that a line may join: of each recipe those with its most frequent settings.

        A line through points of which one ran as a CUDA graph, or with cached weights, would
        show a step where the length changed nothing.
        """
        often = Counter((timed.recipe, timed.settings) for timed in self.timed)
        usual: dict[str, str] = {}
        for (recipe, settings), _ in sorted(often.items(), key=lambda x: (-x[1], len(x[0][1]))):
            usual.setdefault(recipe, settings)
        joined = [timed for timed in self.timed if timed.settings == usual[timed.recipe]]
        return Group(self.gpu, self.shape, joined)

    def of_recipe(self, recipe: str) -> list[Timed]:
        """The points of one recipe by length."""
        mine = [timed for timed in self.timed if timed.recipe == recipe]
        return sorted(mine, key=lambda timed: timed.seq_len)


def groups(points: Iterable[PointResult]) -> list[Group]:
    """Timed points of real hardware, grouped; the largest group first.

    Args:
        points: Any points; emulated ones are left out, for their time says nothing.

    Returns:
        Groups whose figures may be compared with each other.
    """
    found: dict[tuple[str, str], list[Timed]] = defaultdict(list)
    for point in points:
        timed = _timed(point)
        if isinstance(timed, Timed):
            found[_gpu(point), _shape(point)].append(timed)
    made = [Group(gpu, shape, timed) for (gpu, shape), timed in found.items()]
    return sorted(made, key=lambda group: -len(group.timed))


def untimed(points: Iterable[PointResult]) -> list[tuple[PointResult, str]]:
    """The points that stand in no group, each with the reason; a probe times no layer."""
    asked = [point for point in points if point.setting("job") != "probe"]
    found = [(point, _timed(point)) for point in asked]
    return [(point, why) for point, why in found if isinstance(why, str)]


def aside(group: Group) -> list[PointResult]:
    """The points that no line joins: their settings are not those of their recipe's line."""
    joined = {id(timed) for timed in group.lines.timed}
    return [timed.point for timed in group.timed if id(timed) not in joined]


def merged(group: Group) -> list[PointResult]:
    """The points of which only the middle one is drawn: they share recipe and length."""
    found: dict[tuple[str, int], list[PointResult]] = defaultdict(list)
    for timed in group.timed:
        found[timed.recipe, timed.seq_len].append(timed.point)
    return [point for same in found.values() if len(same) > 1 for point in same]


def finite(*values: float | None) -> bool:
    """Return True if all of these are finite and of a plausible size."""
    return all(
        value is not None and math.isfinite(value) and abs(value) < _MOST for value in values
    )


def _timed(point: PointResult) -> Timed | str:
    """The point's figures, or why it has none that may be drawn."""
    record, length = point.record, point.setting("shape.seq_len")
    if record is None or record.benchmark is None:
        return "not ended" if not point.state.finished else f"{point.state}, and nothing was timed"
    if not isinstance(length, int) or length < 1:
        return "no sequence length is known"
    if any(arm.emulated for arm in record.benchmark.arms):
        return "emulated, whose times say nothing of hardware"
    arms = {
        name: arm
        for name in ("recipe", "bf16")
        if (arm := arm_of(record, name)) is not None
        and all(
            finite(timing.median_ms) and timing.median_ms > 0 for timing in (arm.fprop, arm.bprop)
        )
    }
    if not arms:
        return "no time that is a number"
    speedups = {
        "fprop": _claimed(record.benchmark.fprop_speedup),
        "bprop": _claimed(record.benchmark.bprop_speedup),
    }
    recipe = point.setting("recipe.name")
    return Timed(point, plain_text(str(recipe or "unknown")), length, arms, speedups)


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
