"""Points and groups that are in no plot are listed with the reason."""

from __future__ import annotations

import html
from pathlib import Path

import pytest

from jobs.collect.records_file import load_records
from jobs.record import Outcome, State
from jobs.report.plots import report_plots
from jobs.report.plots.report_plots import Plots, draw_plots
from jobs.report.plots.series import group_points
from jobs.report.report import render
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult
from tests.builders.records import point_config, record
from tests.builders.runs import collected, passed

H200 = Path(__file__).parents[4] / "docs" / "results" / "h200.jsonl"


def timed(number: int, **changes: object) -> PointResult:
    return passed(point_config(**changes), f"p-{number}")  # type: ignore[arg-type]


def drawn(folder: Path, *points: PointResult) -> tuple[Plots, Collection]:
    collection = Collection("c", list(points))
    return draw_plots(collection, folder), collection


def test_every_pair_of_the_committed_records_is_plotted_and_every_other_point_named(
    tmp_path: Path,
) -> None:
    collection = load_records(H200)
    plots = draw_plots(collection, tmp_path)
    titles = [group.title for group in plots.speed] + [
        plot.title for group in plots.speed for plot in group.plots
    ]
    for shape in ("dsv3", "dsv3_model", "dsv2_lite", "kimi_k2", "hopper_fp8"):
        assert any(title.endswith(f"NVIDIA H200, {shape}") for title in titles), shape
    lines = "\n".join(plots.left_out)
    for part in (
        "2 points: UNSUPPORTED, not timed: mxfp8 dsv3 b=1 s=4096 h200; ",
        "bf16 dsv2_lite b=1 s=4096 h200 benchmark=quick: ERROR, not timed",
        "mxfp8 dsv3 b=1 s=4096 h200 backend=emulated benchmark=quick: emulated: its times say ",
        "points: settings differ from the rest of the curve: "
        "bf16 dsv3 b=1 s=4096 h200 rope_kernel=eager tolerance=none; ",
    ):
        assert part in lines
    text = render(collection, plots)
    assert all(html.escape(line).replace("&#x27;", "&#39;") in text for line in plots.left_out)
    assert text.index("Not plotted") < text.index('id="accuracy"')


def test_pairs_beyond_the_limit_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_plots, "_MAX_PLOTS", 5)
    points = [timed(n, shape__seq_len=length) for n, length in enumerate((1024, 2048))]
    points += [timed(n + 2, shape__name=f"shape{n}") for n in range(3)]
    plots, _ = drawn(tmp_path, *points)
    assert [group.title for group in plots.speed] == ["NVIDIA GB300, dsv3", "Stages only"]
    assert plots.left_out == [
        "2 pairs of GPU and shape: limit of 5 plots; the largest groups are plotted first: "
        "NVIDIA GB300, shape1 (1 point); NVIDIA GB300, shape2 (1 point)"
    ]


def test_a_pair_without_lines_and_stages_is_named(tmp_path: Path) -> None:
    point = timed(1)
    assert point.record is not None
    assert point.record.benchmark is not None
    bare = point.record.benchmark.model_copy(update={"stages": []})
    point = collected(point.record.model_copy(update={"benchmark": bare}))
    plots, collection = drawn(tmp_path, point)
    assert not plots.speed
    assert plots.left_out == [
        "NVIDIA GB300, dsv3 (1 point): one length, one recipe, no stage times"
    ]
    assert plots.left_out[0] in render(collection, plots)


def test_points_that_have_no_time_are_named_and_a_probe_is_not(tmp_path: Path) -> None:
    untimed = record("p-2", point_config(shape__seed=2)).model_copy(update={"benchmark": None})
    refused = record("p-3", point_config(shape__seed=3), Outcome.UNSUPPORTED)
    plots, _ = drawn(
        tmp_path,
        PointResult("p-1", "s", point_config(shape__seed=1), State.RUNNING),
        PointResult("p-2", "s", point_config(shape__seed=2), State.PASSED, record=untimed),
        PointResult("p-3", "s", point_config(shape__seed=3), State.UNSUPPORTED, record=refused),
        PointResult("p-4", "s", point_config(job="probe"), State.PASSED, record=untimed),
    )
    label = "mxfp8 dsv3 b=1 s=4096 gb300 seed="
    assert plots.left_out == [
        f"{label}1: not finished",
        f"{label}2: PASSED, not timed",
        f"{label}3: UNSUPPORTED, not timed",
    ]


def test_nothing_is_listed_if_everything_is_plotted(tmp_path: Path) -> None:
    plots, collection = drawn(tmp_path, timed(1), timed(2, shape__seq_len=2048))
    assert plots.left_out == []
    assert "Not plotted" not in render(collection, plots)


def test_a_dozen_points_of_one_reason_are_named_and_the_rest_is_counted(tmp_path: Path) -> None:
    waiting = [
        PointResult(f"p-{seed}", "s", point_config(shape__seed=seed), State.PENDING)
        for seed in range(14)
    ]
    plots, _ = drawn(tmp_path, *waiting)
    (line,) = plots.left_out
    assert line.startswith("14 points: not finished: ")
    assert line.count("seed=") == 12
    assert line.endswith("seed=11 and 2 more")


def test_a_line_joins_only_points_of_the_same_settings(tmp_path: Path) -> None:
    lengths = (1024, 2048, 4096)
    usual = [timed(n, shape__seq_len=length) for n, length in enumerate(lengths)]
    cached = timed(5, shape__seq_len=4096, recipe__weights="cached")
    ungated = timed(6, shape__seq_len=8192, tolerance__name="none")
    again = [timed(n, shape__seq_len=1024, shape__seed=n) for n in (7, 8)]
    plots, collection = drawn(tmp_path, *usual, cached, ungated, *again)
    ((group,), _) = group_points(collection.points)
    assert [one.point.point_id for one in group.curves.of_recipe("mxfp8")] == [
        *("p-0", "p-7", "p-8", "p-1", "p-2", "p-6"),
    ]
    label = "mxfp8 dsv3 b=1 s={} gb300"
    assert plots.left_out == [
        f"{label.format(4096)} weights=cached: settings differ from the rest of the curve",
        "3 points: same recipe and length: only the median is plotted: "
        f"{label.format(1024)}; {label.format(1024)} seed=7; {label.format(1024)} seed=8",
    ]
