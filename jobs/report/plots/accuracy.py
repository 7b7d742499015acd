"""Plot of the position of each tensor's error within its gate."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jobs.collect.gate_use import gate_uses
from jobs.report.plots.figure import BAD, GOOD, Figure, Plot, draw_marks, draw_rows
from jobs.status.point_result import PointResult

_MAX_TENSORS = 36


def accuracy_plot(points: Iterable[PointResult], folder: Path) -> Plot | None:
    """Plot every gated tensor of every point; None if nothing is gated."""
    tensors: dict[str, list[tuple[float, str]]] = {}
    missed: list[tuple[float, str]] = []
    for point in points:
        validation = point.record.validation if point.record else None
        recipe = str(point.setting("recipe.name") or "unknown")
        for use in gate_uses(validation) if validation else []:
            percent = max(-35.0, min(135.0, 100 * use.position))
            arm = recipe if use.error.arm == "recipe" else "bf16"
            tensors.setdefault(use.error.tensor, []).append((percent, arm))
            if not use.error.passed:
                missed.append((percent, use.error.tensor))
    if not tensors:
        return None
    rows = list(tensors.items())[:_MAX_TENSORS]
    places = {name: place for place, (name, _) in enumerate(rows)}
    misses = [(percent, places[name]) for percent, name in missed if name in places]
    height = 1.35 + 0.25 * len(rows)
    figure = Figure(5.6, height)
    (axis,) = figure.axes
    axis.axvspan(0, 100, color=GOOD, alpha=0.12, linewidth=0)
    for edge in (0, 100):
        axis.axvline(edge, color=GOOD, linewidth=1)
    draw_rows(axis, rows, 0, markersize=4, alpha=0.75)
    if misses:
        cross: dict[str, Any] = {"marker": "x", "markersize": 9, "markeredgewidth": 2}
        draw_marks(axis, misses, label="missed its gate", color=BAD, **cross)
    axis.set_xlim(-40, 140)
    axis.set_xticks([0, 50, 100], ["lower edge", "middle", "upper edge"])
    axis.set_title("position of each error within its gate")
    figure.add_legend()
    figure.canvas.subplots_adjust(left=0.34, right=0.97, top=1 - 0.3 / height, bottom=0.8 / height)
    caption = (
        "Each mark is a tensor of a point, on a logarithmic scale from the lower to the upper "
        "edge of its gate, or from zero without a lower edge. The BF16 arm of every point is "
        "among the marks of bf16. Marks outside the axes are drawn at the border. "
        f"{len(missed)} missed."
    )
    if len(tensors) > len(rows):
        caption += f" Tensors not plotted: {len(tensors) - len(rows)}; the tables list them."
    return figure.save("accuracy", "Accuracy against the gates", caption, folder)
