"""What the plots of the report say, and that nothing of a drawing covers something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jobs.report import plots as report_plots
from jobs.report.figures import Plot, style
from jobs.report.series import Group, groups
from jobs.status.point_result import PointResult
from tests.builders.records import point_config, record
from tests.builders.runs import collected

RECIPES = ("bf16", "fp8_current", "fp8_delayed", "fp8_block", "mxfp8")


def timed(recipe: str, seq_len: int) -> PointResult:
    config = point_config(recipe, "gb300", shape__seq_len=seq_len)
    return collected(record(f"p-{recipe}-{seq_len}", config))


def group_of(recipes: tuple[str, ...], lengths: tuple[int, ...]) -> Group:
    (found,) = groups([timed(recipe, length) for recipe in recipes for length in lengths])
    return found


@pytest.mark.parametrize(("lengths", "told"), [((2048,), False), ((2048, 4096), True)])
def test_a_card_of_one_length_speaks_of_no_other(
    tmp_path: Path, lengths: tuple[int, ...], told: bool
) -> None:
    with style():
        plot = report_plots.stage_plot(group_of(("mxfp8",), lengths), 1, tmp_path)
    assert plot is not None
    assert "each stage" in plot.svg
    assert ("each length" in plot.svg) is told


def test_a_legend_of_every_recipe_fits_below_the_axes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    drawn: list[Any] = []

    def keep(figure: Any, name: str, *_: Any) -> Plot:  # noqa: ANN401 - matplotlib is untyped
        drawn.append(figure)
        return Plot(name, "", "", "")

    monkeypatch.setattr(report_plots, "finish", keep)
    group = group_of(RECIPES, (2048, 4096))
    with style():
        for draw in (
            report_plots.speedup_plot,
            report_plots.time_plot,
            report_plots.peak_plot,
            report_plots.stage_plot,
        ):
            draw(group, 1, tmp_path)
        report_plots.tradeoff_plot([group], tmp_path)
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
