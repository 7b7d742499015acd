"""Which drawings a collection calls for, and what is left out of them, with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from jobs.report.check_plots import accuracy_plot, nodes_plot
from jobs.report.figures import Plot, style
from jobs.report.plots import (
    peak_plot,
    speedup_plot,
    stage_plot,
    time_plot,
    tradeoff_plot,
)
from jobs.report.series import Group, aside, groups, merged, untimed
from jobs.report.text import by_reason
from jobs.status.collection import Collection
from jobs.text import pluralize

_MOST_DRAWINGS = 16
_OF_LINES, _OF_ONE_LENGTH = 4, 1
_MOST_NAMED = 12


@dataclass(frozen=True)
class GroupPlots:
    """The drawings of one GPU and shape."""

    title: str
    plots: list[Plot]


@dataclass(frozen=True)
class Plots:
    """Every drawing of the report, by the section it stands in.

    Attributes:
        speed: A drawing or four for each GPU and shape.
        accuracy: Tensors against their gates.
        tradeoff: Speed against error.
        nodes: What the nodes did meanwhile.
        left_out: Lines that name what stands in no drawing of speed, and why.
    """

    speed: list[GroupPlots] = field(default_factory=list)
    accuracy: list[Plot] = field(default_factory=list)
    tradeoff: list[Plot] = field(default_factory=list)
    nodes: list[Plot] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def draw(collection: Collection, folder: Path) -> Plots:
    """Draw every plot that has data, as SVG and PNG files.

    Args:
        collection: Any collection.
        folder: Where the files go; it exists.

    Returns:
        The plots, for the page.
    """
    found = groups(collection.points)
    fitting = _fitting(found)
    with style():
        speed = [_group(group, number, folder) for number, group in enumerate(fitting, start=1)]
        return Plots(
            _gathered(speed),
            _there([accuracy_plot(collection.points, folder)]),
            _there([tradeoff_plot(found, folder)]),
            _there([nodes_plot(collection.points, folder)]),
            _left_out(collection, found, [group for group in speed if group.plots]),
        )


def _has_lines(group: Group) -> bool:
    """Return True if a group has curves: a single length has none."""
    return len(group.lines.lengths) > 1 or len(group.recipes) > 1


def _fitting(found: Sequence[Group]) -> list[Group]:
    """The groups that are drawn, the largest first: drawing takes time."""
    left, fitting = _MOST_DRAWINGS, []
    for group in found:
        needed = _OF_LINES if _has_lines(group) else _OF_ONE_LENGTH
        if needed <= left:
            left -= needed
            fitting.append(group)
    return fitting


def _group(group: Group, number: int, folder: Path) -> GroupPlots:
    drawn = [stage_plot(group, number, folder)]
    if _has_lines(group):
        drawn = [
            speedup_plot(group.lines, number, folder),
            time_plot(group.lines, number, folder),
            peak_plot(group.lines, number, folder),
            *drawn,
        ]
    return GroupPlots(group.title, _there(drawn))


def _gathered(drawn: list[GroupPlots]) -> list[GroupPlots]:
    """Groups of one drawing together, so that they stand side by side."""
    many = [group for group in drawn if len(group.plots) > 1]
    single = [
        replace(group.plots[0], title=f"{group.plots[0].title}: {group.title}")
        for group in drawn
        if len(group.plots) == 1
    ]
    return [*many, GroupPlots("Stages only", single)] if single else many


def _left_out(
    collection: Collection, found: Sequence[Group], drawn: Sequence[GroupPlots]
) -> list[str]:
    """Whole groups first, then points of no group, of no line, and behind another's mark."""
    titles = {group.title for group in drawn}
    fitting = {group.title for group in _fitting(found)}
    undrawn = [
        (
            f"{group.title} ({pluralize(len(group.timed), 'point')})",
            "one length, one recipe, no stage times"
            if group.title in fitting
            else f"limit of {_MOST_DRAWINGS} plots; the largest groups are plotted first",
        )
        for group in found
        if group.title not in titles
    ]
    missing = [(point.label, why) for point, why in untimed(collection.points)]
    lined = [group for group in found if group.title in titles and _has_lines(group)]
    other = [
        (point.label, "not plotted: settings differ from the rest of the curve")
        for group in lined
        for point in aside(group)
    ]
    behind = [
        (point.label, "same recipe and length: only the median is plotted")
        for group in lined
        for point in merged(group.lines)
    ]
    return [
        *by_reason(undrawn, "pair of GPU and shape", "pairs of GPU and shape", most=_MOST_NAMED),
        *by_reason(missing, most=_MOST_NAMED),
        *by_reason(other, most=_MOST_NAMED),
        *by_reason(behind, most=_MOST_NAMED),
    ]


def _there(plots: list[Plot | None]) -> list[Plot]:
    return [plot for plot in plots if plot is not None]
