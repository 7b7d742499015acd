"""Plots of speed: speedup, time and share of peak against length, stages, speed against error."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from jobs.record import DIRECTIONS, Timing
from jobs.report.plots.figure import (
    MARKERS,
    MUTED,
    Figure,
    Plot,
    color_of,
    draw_marks,
    draw_rows,
    use_length_ticks,
    use_log_ticks,
)
from jobs.report.plots.series import Group, Timed, finite

_WIDTH, _HEIGHT = 3.7, 4.7  # inches: all plots of a group stand side by side


class _Mark(NamedTuple):
    length: int
    value: float
    low: float
    high: float


class _Curve(NamedTuple):
    recipe: str
    label: str
    marks: list[_Mark]


@dataclass(frozen=True)
class SpeedPlots:
    """Plots of one group; `number` sets their file names apart from those of other groups."""

    group: Group
    number: int
    folder: Path

    def draw(self) -> list[Plot]:
        """Draw the plots that have data; curves only if there is something to compare."""
        plots = [self.speedup(), self.time(), self.peak()] if self.group.has_curves else []
        return [plot for plot in (*plots, self.stages()) if plot is not None]

    def speedup(self) -> Plot | None:
        """Plot speedup over BF16 against length; None without a claim."""
        curves = {direction: self._speedups(direction) for direction in DIRECTIONS}
        values = [
            (mark.value, f"{curve.label} {direction} at {mark.length}")
            for direction in DIRECTIONS
            for curve in curves[direction]
            for mark in curve.marks
        ]
        if not values:
            return None
        figure = self._panels(curves, "speedup over BF16", "times faster")
        for axis in figure.axes:
            axis.axhline(1, color=MUTED, linewidth=1, zorder=1)
        highest, place = max(values)
        caption = (
            "BF16 time over the recipe's time, from paired blocks; bars are the interval of each "
            f"record. Above 1, the recipe is faster. Highest: {highest:.2f}x, {place} tokens."
        )
        return self._save(figure, "speedup", "Speedup over BF16", caption)

    def time(self) -> Plot:
        """Plot the time of both arms against length, on logarithmic axes."""
        curves = {direction: self._arms(direction, _time_mark) for direction in DIRECTIONS}
        figure = self._panels(curves, "time", "milliseconds")
        for axis in figure.axes:
            axis.set_yscale("log")
            use_log_ticks(axis.yaxis)
        caption = "Time of one step; lower is better. Bars are the interval of each record."
        return self._save(figure, "time", "Time of a step", caption)

    def peak(self) -> Plot | None:
        """Plot the share of the GPU's peak that a step reaches; None if no peak is known."""
        curves = {direction: self._arms(direction, _peak_mark) for direction in DIRECTIONS}
        tops = {
            direction: max(
                (m.value for curve in curves[direction] for m in curve.marks), default=0
            )
            for direction in DIRECTIONS
        }
        if not any(tops.values()):
            return None
        figure = self._panels(curves, "share of peak", "percent of peak")
        for axis, top in zip(figure.axes, tops.values(), strict=True):
            axis.set_ylim(0, 1.1 * top or 110)
        caption = (
            "Time that the step's operations would take at the data sheet's dense peak, each "
            "stage at the precision that ran, divided by the measured time."
        )
        return self._save(figure, "peak", "Share of the GPU's peak", caption)

    def stages(self) -> Plot | None:
        """Plot each stage relative to its roofline; None if no stage was timed."""
        stages: dict[tuple[str, str], list[tuple[float, str]]] = {}
        for timed in self.group.timed:
            benchmark = timed.point.record and timed.point.record.benchmark
            for stage in benchmark.stages if benchmark else ():
                if stage.share_of_roofline is not None and finite(stage.share_of_roofline):
                    recipe = timed.recipe if stage.arm == "recipe" else "bf16"
                    marks = stages.setdefault((stage.direction, stage.stage), [])
                    marks.append((100 * stage.share_of_roofline, recipe))
        if not stages:
            return None
        figure = Figure(_WIDTH, _HEIGHT)
        (axis,) = figure.axes
        forward_first = sorted(stages.items(), key=lambda item: item[0][0] != "fprop")
        rows = [(f"{stage} {direction}", marks) for (direction, stage), marks in forward_first]
        draw_rows(axis, rows, 1, markersize=4.5)
        axis.axvline(100, color=MUTED, linewidth=1)
        axis.set_xlim(0, 105)
        axis.set_xlabel("percent of roofline")
        several = len(self.group.lengths) > 1
        axis.set_title("each stage, each length" if several else "each stage")
        figure.add_legend()
        figure.canvas.subplots_adjust(left=0.31, right=0.96, top=0.885, bottom=0.2)
        caption = (
            "The roofline of a stage is the larger of two times: its operations at the GPU's "
            "peak, and its bytes at the memory bandwidth. 100 is as fast as the data sheet allows."
        )
        return self._save(figure, "stages", "Stages against their roofline", caption)

    def _panels(self, curves: dict[str, list[_Curve]], title: str, unit: str) -> Figure:
        """Draw curves against length, a panel for each direction."""
        figure = Figure(_WIDTH, _HEIGHT, rows=2)
        for axis, direction in zip(figure.axes, DIRECTIONS, strict=True):
            for recipe, label, marks in curves[direction]:
                axis.errorbar(
                    [mark.length for mark in marks],
                    [mark.value for mark in marks],
                    yerr=[
                        [max(0.0, mark.value - mark.low) for mark in marks],
                        [max(0.0, mark.high - mark.value) for mark in marks],
                    ],
                    marker=MARKERS.get(recipe, "P"),
                    linestyle="-" if label == recipe else "--",
                    color=color_of(recipe),
                    label=label,
                    capsize=2.5,
                    elinewidth=1.1,
                )
            axis.set_title(f"{direction} {title}")
            axis.set_ylabel(unit)
            use_length_ticks(axis, self.group.curves.lengths)
        figure.axes[1].set_xlabel("sequence length (tokens)")
        figure.add_legend()
        figure.canvas.subplots_adjust(left=0.155, right=0.97, top=0.885, bottom=0.2, hspace=0.4)
        return figure

    def _save(self, figure: Figure, name: str, title: str, caption: str) -> Plot:
        figure.add_name(self.group.title)
        return figure.save(f"{name}-{self.number}", title, caption, self.folder)

    def _speedups(self, direction: str) -> list[_Curve]:
        group = self.group.curves
        curves = []
        for recipe in group.recipes:
            timed = [(one.seq_len, one.speedups[direction]) for one in group.of_recipe(recipe)]
            marks = [_Mark(length, s.ratio, s.low, s.high) for length, s in timed if s is not None]
            curves.append(_Curve(recipe, recipe, _medians(marks)))
        return [curve for curve in curves if curve.marks]

    def _arms(self, direction: str, mark: Callable[[int, Timing], _Mark | None]) -> list[_Curve]:
        """Return a curve for each recipe, and one of all BF16 arms."""
        group = self.group.curves
        arms = [(recipe, recipe, group.of_recipe(recipe), "recipe") for recipe in group.recipes]
        arms.append(("bf16", "bf16 baseline", group.timed, "bf16"))
        curves = []
        for recipe, label, points, arm in arms:
            timed = [(point.seq_len, point.timing(arm, direction)) for point in points]
            marks = [mark(length, timing) for length, timing in timed if timing is not None]
            curves.append(_Curve(recipe, label, _medians(m for m in marks if m is not None)))
        return [curve for curve in curves if curve.marks]


def tradeoff_plot(groups: list[Group], folder: Path) -> Plot | None:
    """Plot speedup against error over all groups; None if no point has both."""
    marks: dict[str, list[tuple[float, float]]] = {}
    for timed in (timed for group in groups for timed in group.timed):
        speedup, error = timed.speedups["fprop"], _out_error(timed)
        if speedup is not None and error is not None:
            marks.setdefault(timed.recipe, []).append((error, speedup.ratio))
    if not marks:
        return None
    figure = Figure(5.2, 3.8)
    (axis,) = figure.axes
    for recipe, places in marks.items():
        draw_marks(axis, places, recipe, label=recipe, alpha=0.8)
    axis.axhline(1, color=MUTED, linewidth=1)
    axis.set_xscale("log")
    use_log_ticks(axis.xaxis)
    axis.set_xlabel("relative L2 error of the output against FP32")
    axis.set_ylabel("fprop speedup over BF16")
    axis.set_title("higher is faster, further left is more accurate")
    figure.add_legend()
    figure.canvas.subplots_adjust(left=0.12, right=0.97, top=0.92, bottom=0.24)
    caption = "Each mark is a point. Compare only marks of the same shape and length."
    return figure.save("speed-error", "Speed against error", caption, folder)


def _out_error(timed: Timed) -> float | None:
    validation = timed.point.record.validation if timed.point.record else None
    for error in validation.tensors if validation else []:
        if (error.tensor, error.reference, error.arm) == ("out", "fp32", "recipe"):
            return error.rel_l2 if finite(error.rel_l2) and error.rel_l2 > 0 else None
    return None


def _time_mark(length: int, timing: Timing) -> _Mark:
    value, low, high = timing.median_ms, timing.low_ms, timing.high_ms
    valid = finite(low, high) and 0 < low <= value <= high
    return _Mark(length, value, *((low, high) if valid else (value, value)))


def _peak_mark(length: int, timing: Timing) -> _Mark | None:
    share = timing.share_of_peak
    if share is None or not finite(share):
        return None
    return _Mark(length, 100 * share, 100 * share, 100 * share)


def _medians(marks: Iterable[_Mark]) -> list[_Mark]:
    """Return one mark for each length, by length: the median of several."""
    by_length: dict[int, list[_Mark]] = {}
    for mark in marks:
        by_length.setdefault(mark.length, []).append(mark)
    return [sorted(same)[len(same) // 2] for _, same in sorted(by_length.items())]
