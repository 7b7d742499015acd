"""All plots of a collection, and the points that are in none, with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from jobs.report.plots.accuracy import accuracy_plot
from jobs.report.plots.figure import Plot, style
from jobs.report.plots.nodes import nodes_plot
from jobs.report.plots.series import Group, group_points
from jobs.report.plots.speed import SpeedPlots, tradeoff_plot
from jobs.report.text import by_reason
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult
from jobs.text import pluralize

_MAX_PLOTS = 16
_PLOTS_WITH_CURVES = 4
_MAX_NAMED = 12


@dataclass(frozen=True)
class GroupPlots:
    """Plots of one GPU and shape."""

    title: str
    plots: list[Plot]


@dataclass(frozen=True)
class Plots:
    """Every plot of the report, by its section.

    Attributes:
        speed: One or four plots for each GPU and shape.
        accuracy: Tensors against their gates.
        tradeoff: Speed against error.
        nodes: Telemetry of the nodes.
        left_out: Lines that name what is in no plot of speed, and the reason.
    """

    speed: list[GroupPlots] = field(default_factory=list)
    accuracy: list[Plot] = field(default_factory=list)
    tradeoff: list[Plot] = field(default_factory=list)
    nodes: list[Plot] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def draw_plots(collection: Collection, folder: Path) -> Plots:
    """Draw every plot that has data into an existing folder."""
    groups, untimed = group_points(collection.points)
    chosen = _within_limit(groups)
    with style():
        speed = [
            GroupPlots(group.title, SpeedPlots(group, number, folder).draw())
            for number, group in enumerate(chosen, start=1)
        ]
        other = (
            accuracy_plot(collection.points, folder),
            tradeoff_plot(groups, folder),
            nodes_plot(collection.points, folder),
        )
    accuracy, tradeoff, nodes = ([plot] if plot else [] for plot in other)
    plotted = [group for group, drawn in zip(chosen, speed, strict=True) if drawn.plots]
    left_out = [
        *_unplotted_groups(groups, chosen, plotted),
        *by_reason([(point.label, why) for point, why in untimed], most=_MAX_NAMED),
        *_unplotted_points([group for group in plotted if group.has_curves]),
    ]
    return Plots(_side_by_side(speed), accuracy, tradeoff, nodes, left_out)


def _within_limit(groups: Sequence[Group]) -> list[Group]:
    """Return the groups to plot, the largest first, because plotting takes time."""
    left, chosen = _MAX_PLOTS, []
    for group in groups:
        count = _PLOTS_WITH_CURVES if group.has_curves else 1
        if count <= left:
            left -= count
            chosen.append(group)
    return chosen


def _side_by_side(speed: list[GroupPlots]) -> list[GroupPlots]:
    """Return the groups with those of a single plot joined to one."""
    many = [group for group in speed if len(group.plots) > 1]
    single = [
        replace(plot, title=f"{plot.title}: {group.title}")
        for group in speed
        if len(group.plots) == 1
        for plot in group.plots
    ]
    return [*many, GroupPlots("Stages only", single)] if single else many


def _unplotted_groups(
    groups: Sequence[Group], chosen: Sequence[Group], plotted: Sequence[Group]
) -> list[str]:
    limit = f"limit of {_MAX_PLOTS} plots; the largest groups are plotted first"
    lines = [
        (
            f"{group.title} ({pluralize(len(group.timed), 'point')})",
            "one length, one recipe, no stage times" if group in chosen else limit,
        )
        for group in groups
        if group not in plotted
    ]
    return by_reason(lines, "pair of GPU and shape", "pairs of GPU and shape", most=_MAX_NAMED)


def _unplotted_points(groups: Sequence[Group]) -> list[str]:
    reasons: dict[str, list[PointResult]] = {
        "settings differ from the rest of the curve": [
            point for group in groups for point in group.off_curve
        ],
        "same recipe and length: only the median is plotted": [
            point for group in groups for point in group.curves.repeated
        ],
    }
    return [
        line
        for reason, points in reasons.items()
        for line in by_reason([(point.label, reason) for point in points], most=_MAX_NAMED)
    ]
