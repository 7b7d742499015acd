"""Texts of the speed plots, and that nothing in a figure overlaps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jobs.report.plots.figure import Figure, Plot, style
from jobs.report.plots.series import Group, group_points
from jobs.report.plots.speed import SpeedPlots, tradeoff_plot
from jobs.status.point_result import PointResult
from tests.builders.records import point_config
from tests.builders.runs import passed

RECIPES = ("bf16", "fp8_current", "fp8_delayed", "fp8_block", "mxfp8")


def timed(recipe: str, seq_len: int) -> PointResult:
    return passed(point_config(recipe, shape__seq_len=seq_len), f"p-{recipe}-{seq_len}")


def group_of(recipes: tuple[str, ...], lengths: tuple[int, ...]) -> Group:
    ((group,), _) = group_points(
        [timed(recipe, length) for recipe in recipes for length in lengths]
    )
    return group


@pytest.mark.parametrize(("lengths", "several"), [((2048,), False), ((2048, 4096), True)])
def test_a_plot_of_one_length_mentions_no_others(
    tmp_path: Path, lengths: tuple[int, ...], several: bool
) -> None:
    with style():
        plot = SpeedPlots(group_of(("mxfp8",), lengths), 1, tmp_path).stages()
    assert plot is not None
    assert "each stage" in plot.svg
    assert ("each length" in plot.svg) is several


def test_a_legend_of_every_recipe_fits_below_the_axes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    drawn: list[Any] = []

    def keep(figure: Figure, name: str, *_: object) -> Plot:
        drawn.append(figure.canvas)
        return Plot(name, "", "", "")

    monkeypatch.setattr(Figure, "save", keep)
    group = group_of(RECIPES, (2048, 4096))
    with style():
        SpeedPlots(group, 1, tmp_path).draw()
        tradeoff_plot([group], tmp_path)
        assert len(drawn) == 5
        for figure in drawn:
            canvas = FigureCanvasAgg(figure)
            canvas.draw()
            renderer = canvas.get_renderer()
            (legend,) = figure.legends
            place = legend.get_window_extent(renderer)
            assert place.x0 >= 0
            assert place.x1 <= figure.bbox.width
            assert place.y1 < min(axis.get_tightbbox(renderer).y0 for axis in figure.axes)
