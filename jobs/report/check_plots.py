"""The plots of trust: each tensor against its gate, and what the nodes did meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jobs.collect.gate_use import gate_uses
from jobs.collect.points_table import median
from jobs.report.figures import (
    BAD,
    GOOD,
    MARKERS,
    MUTED,
    Plot,
    colour_of,
    finish,
    new_figure,
)
from jobs.report.series import finite
from jobs.status.point_result import PointResult
from jobs.text import plain_text, pluralize

_MOST_TENSORS = 36
_MOST_NODES = 24
_NODE_PANELS = (
    ("sm_clock_mhz", "SM clock (MHz)"),
    ("power_watt", "power (W)"),
    ("temperature_celsius", "temperature (°C)"),
)


def accuracy_plot(points: Iterable[PointResult], folder: Path) -> Plot | None:
    """Every gated tensor of every point against its gate; None where nothing is gated."""
    marks: dict[str, list[tuple[float, str, bool]]] = {}
    for point in points:
        validation = point.record.validation if point.record else None
        recipe = str(point.setting("recipe.name") or "unknown")
        for use in gate_uses(validation) if validation else []:
            shown = max(-35.0, min(135.0, 100 * use.position))
            arm = recipe if use.error.arm == "recipe" else "bf16"
            marks.setdefault(use.error.tensor, []).append((shown, arm, bool(use.error.passed)))
    if not marks:
        return None
    names = list(marks)[:_MOST_TENSORS]
    height = 1.35 + 0.25 * len(names)
    figure, (axis,) = new_figure(5.6, height)
    axis.axvspan(0, 100, color=GOOD, alpha=0.12, linewidth=0)
    for edge in (0, 100):
        axis.axvline(edge, color=GOOD, linewidth=1)
    recipes = list(dict.fromkeys(arm for values in marks.values() for _, arm, _ in values))
    for place, recipe in enumerate(recipes):
        shift = (place - (len(recipes) - 1) / 2) * 0.5 / len(recipes)
        _marks(axis, names, marks, recipe, shift)
    misses = [
        (shown, row)
        for row, name in enumerate(names)
        for shown, _, passed in marks[name]
        if not passed
    ]
    if misses:
        axis.plot(
            [shown for shown, _ in misses],
            [row for _, row in misses],
            linestyle="none",
            marker="x",
            markersize=9,
            markeredgewidth=2,
            color=BAD,
            label="missed its gate",
        )
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.set_xlim(-40, 140)
    axis.set_xticks([0, 50, 100], ["lower edge", "middle", "upper edge"])
    axis.set_title("position of each error within its gate")
    figure.legend(*axis.get_legend_handles_labels(), loc="lower center", ncols=3)
    figure.subplots_adjust(left=0.34, right=0.97, top=1 - 0.3 / height, bottom=0.8 / height)
    caption = (
        "Each mark is a tensor of a point, on a logarithmic scale from the lower to the upper "
        "edge of its gate, or from zero without a lower edge. The BF16 arm of every "
        "point is among the marks of bf16. Marks outside the axes "
        f"are drawn at the border. {len(misses)} missed."
        + _left_out(len(marks) - len(names), "tensor")
    )
    return finish(figure, "accuracy", "Accuracy against the gates", caption, folder)


def nodes_plot(points: Iterable[PointResult], folder: Path) -> Plot | None:
    """Clock, power and temperature while points ran, by node; None where nothing was seen."""
    seen: dict[str, list[tuple[list[float | None], bool]]] = {}
    for point in points:
        if point.record is None:
            continue
        during = [sample for sample in point.record.telemetry if sample.when == "during"]
        values = [median([getattr(s, name) for s in during]) for name, _ in _NODE_PANELS]
        throttled = any(sample.throttled for sample in during)
        if any(value is not None for value in values):
            host = plain_text(point.record.environment.host or "unknown")
            seen.setdefault(host, []).append((values, throttled))
    if not seen:
        return None
    hosts = sorted(seen)[:_MOST_NODES]
    height = 1.1 + 0.28 * len(hosts)
    figure, axes = new_figure(7.6, height, columns=3)
    for panel, (axis, (_, title)) in enumerate(zip(axes, _NODE_PANELS, strict=True)):
        for throttled, colour, marker in ((False, colour_of("mxfp8"), "o"), (True, BAD, "x")):
            drawn = [
                (value, row)
                for row, host in enumerate(hosts)
                for values, was_throttled in seen[host]
                if (value := values[panel]) is not None
                and finite(value)
                and was_throttled is throttled
            ]
            axis.plot(
                [value for value, _ in drawn],
                [row for _, row in drawn],
                linestyle="none",
                marker=marker,
                color=colour,
                alpha=0.7,
            )
        axis.set_title(title)
        axis.set_ylim(len(hosts) - 0.5, -0.5)
        axis.set_yticks(range(len(hosts)), hosts if panel == 0 else [""] * len(hosts))
        axis.margins(x=0.15)
    figure.subplots_adjust(
        left=0.12, right=0.98, top=1 - 0.35 / height, bottom=0.4 / height, wspace=0.12
    )
    caption = (
        "Medians while each point was timed. A node that differs from the others may explain a "
        "slow point; "
        "a cross marks throttled points." + _left_out(len(seen) - len(hosts), "node")
    )
    return finish(figure, "nodes", "Nodes during the measurement", caption, folder)


def _marks(
    axis: Any,  # noqa: ANN401 - matplotlib is untyped here
    names: list[str],
    marks: dict[str, list[tuple[float, str, bool]]],
    recipe: str,
    shift: float,
) -> None:
    drawn = sorted(
        {
            (round(shown), row + shift)  # of marks that would cover each other, one
            for row, name in enumerate(names)
            for shown, arm, _ in marks[name]
            if arm == recipe
        }
    )
    axis.plot(
        [shown for shown, _ in drawn],
        [row for _, row in drawn],
        linestyle="none",
        marker=MARKERS.get(recipe, "P"),
        markersize=4,
        alpha=0.75,
        color=colour_of(recipe) if recipe else MUTED,
        label=recipe,
    )


def _left_out(count: int, what: str) -> str:
    more = pluralize(count, f"more {what} is", f"more {what}s are")
    return f" {more} in the tables." if count > 0 else ""
