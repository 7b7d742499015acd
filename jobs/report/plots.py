"""The plots of speed: speedup and time against length, share of peak, stages, speed for error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jobs.record import DIRECTIONS, Timing
from jobs.report.figures import (
    MARKERS,
    MUTED,
    Plot,
    colour_of,
    finish,
    length_axis,
    new_figure,
)
from jobs.report.series import Group, Timed, finite

Drawn = list[tuple[float, float, float, float]]  # x, value, low, high
_WIDTH, _HEIGHT = 3.7, 4.7  # inches; all cards of a group stand side by side


def speedup_plot(group: Group, number: int, folder: Path) -> Plot | None:
    """Speedup over BF16 against sequence length, with intervals; None where none is claimed."""
    figure, axes = new_figure(_WIDTH, _HEIGHT, rows=2)
    best: list[tuple[float, str]] = []
    for axis, direction in zip(axes, DIRECTIONS, strict=True):
        axis.axhline(1, color=MUTED, linewidth=1)
        for recipe in group.recipes:
            drawn = _speedups(group.of_recipe(recipe), direction)
            _line(axis, drawn, recipe, recipe)
            best += [(value, f"{recipe} {direction} at {int(x)}") for x, value, _, _ in drawn]
        axis.set_title(f"{direction} speedup over BF16")
        axis.set_ylabel("times faster")
        length_axis(axis, group.lengths)
    if not best:
        return None
    _layout(figure, axes, group)
    highest, where = max(best)
    caption = (
        "BF16 time over the recipe's time, from paired blocks; bars are the interval of each "
        f"record. Above 1 the recipe is faster. Highest: {highest:.2f}x, {where} tokens."
    )
    return finish(figure, f"speedup-{number}", "Speedup over BF16", caption, folder)


def time_plot(group: Group, number: int, folder: Path) -> Plot:
    """Time of both arms against sequence length, on logarithmic axes."""
    figure, axes = new_figure(_WIDTH, _HEIGHT, rows=2)
    for axis, direction in zip(axes, DIRECTIONS, strict=True):
        for recipe in group.recipes:
            _line(axis, _times(group.of_recipe(recipe), "recipe", direction), recipe, recipe)
        _line(axis, _baseline(group, direction), "bf16", "bf16 baseline")
        axis.set_title(f"{direction} time")
        axis.set_ylabel("milliseconds")
        axis.set_yscale("log")
        _readable_log(axis.yaxis)
        length_axis(axis, group.lengths)
    _layout(figure, axes, group)
    caption = "Time of one step, lower is better; bars are the interval of each record."
    return finish(figure, f"time-{number}", "Time of a step", caption, folder)


def peak_plot(group: Group, number: int, folder: Path) -> Plot | None:
    """Share of the GPU's peak that a whole step reaches, against sequence length."""
    figure, axes = new_figure(_WIDTH, _HEIGHT, rows=2)
    seen = False
    for axis, direction in zip(axes, DIRECTIONS, strict=True):
        lines = [(recipe, recipe, group.of_recipe(recipe), "recipe") for recipe in group.recipes]
        lines.append(("bf16", "bf16 baseline", group.timed, "bf16"))
        tops: list[float] = []
        for recipe, label, timed, arm in lines:
            drawn = [
                (float(one.seq_len), 100 * share, 100 * share, 100 * share)
                for one in timed
                if (timing := one.timing(arm, direction)) is not None
                and (share := timing.share_of_peak) is not None
                and finite(share)
            ]
            tops += [share for _, share, _, _ in drawn]
            _line(axis, _middle(drawn), recipe, label)
        seen = seen or bool(tops)
        axis.set_title(f"{direction} share of peak")
        axis.set_ylabel("percent of peak")
        axis.set_ylim(0, 1.1 * max(tops, default=100))
        length_axis(axis, group.lengths)
    if not seen:
        return None
    _layout(figure, axes, group)
    caption = (
        "Time that the step's operations would take at the data sheet's dense peak, each stage at "
        "the precision that ran, over the time that it took."
    )
    return finish(figure, f"peak-{number}", "Share of the GPU's peak", caption, folder)


def stage_plot(group: Group, number: int, folder: Path) -> Plot | None:
    """Plot each stage relative to its roofline; None if no stage was timed."""
    found: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for timed in group.timed:
        record = timed.point.record
        assert record is not None
        assert record.benchmark is not None
        for stage in record.benchmark.stages:
            if stage.share_of_roofline is not None and finite(stage.share_of_roofline):
                recipe = timed.recipe if stage.arm == "recipe" else "bf16"
                key = (stage.direction, stage.stage)
                found.setdefault(key, []).append((recipe, 100 * stage.share_of_roofline))
    if not found:
        return None
    rows = sorted(found, key=lambda key: DIRECTIONS.index(key[0]) if key[0] in DIRECTIONS else 9)
    figure, (axis,) = new_figure(_WIDTH, _HEIGHT)
    recipes = list(dict.fromkeys(recipe for values in found.values() for recipe, _ in values))
    for place, recipe in enumerate(recipes):
        shift = (place - (len(recipes) - 1) / 2) * 0.5 / max(len(recipes), 1)
        drawn = sorted(
            {
                (round(share, 1), row + shift)  # of marks that would cover each other, one
                for row, key in enumerate(rows)
                for name, share in found[key]
                if name == recipe
            }
        )
        axis.plot(
            [share for share, _ in drawn],
            [row for _, row in drawn],
            linestyle="none",
            marker=MARKERS.get(recipe, "P"),
            color=colour_of(recipe),
            label=recipe,
            markersize=4.5,
        )
    axis.axvline(100, color=MUTED, linewidth=1)
    axis.set_yticks(range(len(rows)), [f"{stage} {direction}" for direction, stage in rows])
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.set_xlim(0, 105)
    axis.set_xlabel("percent of roofline")
    axis.set_title("each stage, each length" if len(group.lengths) > 1 else "each stage")
    _legend(figure, axis)
    _name(figure, group)
    figure.subplots_adjust(left=0.31, right=0.96, top=0.885, bottom=0.2)
    caption = (
        "The roofline is the larger of the two floors of a stage, by operations at peak and by "
        "bytes at the memory's bandwidth; 100 is as fast as the data sheet allows."
    )
    return finish(figure, f"stages-{number}", "Stages against their roofline", caption, folder)


def tradeoff_plot(found: list[Group], folder: Path) -> Plot | None:
    """Speed against error for each recipe, over all groups."""
    figure, (axis,) = new_figure(5.2, 3.8)
    seen: dict[str, list[tuple[float, float]]] = {}
    for group in found:
        for timed in group.timed:
            speedup = timed.speedups["fprop"]
            error = _out_error(timed)
            if speedup is not None and error is not None:
                seen.setdefault(timed.recipe, []).append((error, speedup.ratio))
    if not seen:
        return None
    for recipe, values in seen.items():
        axis.plot(
            [error for error, _ in values],
            [ratio for _, ratio in values],
            linestyle="none",
            marker=MARKERS.get(recipe, "P"),
            color=colour_of(recipe),
            label=recipe,
            alpha=0.8,
        )
    axis.axhline(1, color=MUTED, linewidth=1)
    axis.set_xscale("log")
    _readable_log(axis.xaxis)
    axis.set_xlabel("relative L2 error of the output against FP32")
    axis.set_ylabel("fprop speedup over BF16")
    axis.set_title("faster is up, more exact is left")
    _legend(figure, axis)
    figure.subplots_adjust(left=0.12, right=0.97, top=0.92, bottom=0.24)
    caption = (
        "Each mark is a point. A recipe pays for its speed with error: compare marks of the same "
        "shape and length."
    )
    return finish(figure, "speed-error", "Speed against error", caption, folder)


def _out_error(timed: Timed) -> float | None:
    validation = timed.point.record.validation if timed.point.record else None
    for error in validation.tensors if validation else []:
        if (error.tensor, error.reference, error.arm) == ("out", "fp32", "recipe"):
            return error.rel_l2 if finite(error.rel_l2) and error.rel_l2 > 0 else None
    return None


def _speedups(timed: list[Timed], direction: str) -> Drawn:
    found = [(one.seq_len, one.speedups[direction]) for one in timed]
    return _middle([(float(x), s.ratio, s.low, s.high) for x, s in found if s is not None])


def _times(timed: list[Timed], arm: str, direction: str) -> Drawn:
    found = [(one.seq_len, one.timing(arm, direction)) for one in timed]
    return _middle([(float(x), *_interval(timing)) for x, timing in found if timing is not None])


def _baseline(group: Group, direction: str) -> Drawn:
    return _times(sorted(group.timed, key=lambda timed: timed.seq_len), "bf16", direction)


def _interval(timing: Timing) -> tuple[float, float, float]:
    low, high = timing.low_ms, timing.high_ms
    fits = finite(low, high) and 0 < low <= timing.median_ms <= high
    return timing.median_ms, low if fits else timing.median_ms, high if fits else timing.median_ms


def _middle(drawn: Drawn) -> Drawn:
    """One mark for each length: of several points the middle one."""
    by_length: dict[float, Drawn] = {}
    for one in drawn:
        by_length.setdefault(one[0], []).append(one)
    return [sorted(same)[len(same) // 2] for _, same in sorted(by_length.items())]


def _line(axis: Any, drawn: Drawn, recipe: str, label: str) -> None:  # noqa: ANN401 - matplotlib
    if not drawn:
        return
    xs, values, lows, highs = zip(*drawn, strict=True)
    below = [max(0.0, value - low) for value, low in zip(values, lows, strict=True)]
    above = [max(0.0, high - value) for value, high in zip(values, highs, strict=True)]
    axis.errorbar(
        xs,
        values,
        yerr=[below, above],
        marker=MARKERS.get(recipe, "P"),
        linestyle="--" if label.endswith("baseline") else "-",
        color=colour_of(recipe),
        label=label,
        capsize=2.5,
        elinewidth=1.1,
    )


def _layout(figure: Any, axes: list[Any], group: Group) -> None:  # noqa: ANN401 - matplotlib
    axes[1].set_xlabel("sequence length (tokens)")
    _legend(figure, axes[0])
    _name(figure, group)
    figure.subplots_adjust(left=0.155, right=0.97, top=0.885, bottom=0.2, hspace=0.4)


def _name(figure: Any, group: Group) -> None:  # noqa: ANN401 - matplotlib is untyped here
    """Add a title to the file, which may be pasted elsewhere."""
    figure.text(0.02, 0.965, group.title, color=MUTED, fontsize=8.5)


def _legend(figure: Any, axis: Any) -> None:  # noqa: ANN401 - matplotlib is untyped here
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=3, columnspacing=1.4)


def _readable_log(axis: Any) -> None:  # noqa: ANN401 - matplotlib is untyped here
    """Ticks at 1, 2 and 5 of each decade: a range of less than one decade has some, too."""
    from matplotlib.ticker import LogLocator, NullLocator

    axis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:g}")
