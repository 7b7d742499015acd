"""What stands in no drawing of the report is named there, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.cluster import report_drawings
from jobs.cluster.collect_points import CollectedPoint, Collection
from jobs.cluster.records_file import load_records
from jobs.cluster.report import render
from jobs.cluster.report_drawings import Plots, draw
from jobs.record import Outcome
from tests.jobs.cluster.fake_records import asked, record

H200 = Path(__file__).parents[3] / "docs" / "results" / "h200.jsonl"


def timed(number: int, **changes: object) -> CollectedPoint:
    config = asked(**changes)  # type: ignore[arg-type]
    left = record(f"p-{number}", config)
    return CollectedPoint(f"p-{number}", "s", config, "PASSED", record=left)


def drawn(folder: Path, *points: CollectedPoint) -> tuple[Plots, Collection]:
    collection = Collection("c", list(points))
    return draw(collection, folder), collection


def test_of_the_committed_records_every_pair_is_drawn_and_every_other_point_named(
    tmp_path: Path,
) -> None:
    collection = load_records(H200)
    plots = draw(collection, tmp_path)
    titles = [group.title for group in plots.speed] + [
        plot.title for group in plots.speed for plot in group.plots
    ]
    for shape in ("dsv3", "dsv3_model", "dsv2_lite", "kimi_k2", "hopper_fp8"):
        assert any(title.endswith(f"NVIDIA H200, {shape}") for title in titles), shape
    told = "\n".join(plots.left_out)
    for part in (
        "2 points: UNSUPPORTED, and nothing was timed: mxfp8 dsv3 b=1 s=4096 h200; ",
        "bf16 dsv2_lite b=1 s=4096 h200 benchmark=quick: ERROR, and nothing was timed",
        "mxfp8 dsv3 b=1 s=4096 h200 backend=emulated benchmark=quick: emulated, whose times say ",
        "points: share recipe and length, so that only the middle one is marked in a line: "
        "bf16 dsv3 b=1 s=4096 h200; bf16 dsv3 b=1 s=4096 h200 rope_kernel=eager tolerance=none; ",
    ):
        assert part in told
    text = render(collection, plots)
    assert all(line in text for line in plots.left_out)
    assert text.index(plots.left_out[-1]) < text.index('id="accuracy"')


def test_pairs_beyond_the_most_drawings_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_drawings, "_MOST_DRAWINGS", 5)
    points = [timed(n, shape__seq_len=length) for n, length in enumerate((1024, 2048))]
    points += [timed(n + 2, shape__name=f"shape{n}") for n in range(3)]
    plots, _ = drawn(tmp_path, *points)
    assert [group.title for group in plots.speed] == ["NVIDIA GB300, dsv3", "One length each"]
    assert plots.left_out == [
        "2 pairs of GPU and shape: a report makes 5 drawings, of the largest pairs first: "
        "NVIDIA GB300, shape1 (1 point); NVIDIA GB300, shape2 (1 point)"
    ]


def test_a_pair_without_lines_and_stages_is_named(tmp_path: Path) -> None:
    point = timed(1)
    assert point.record is not None
    assert point.record.benchmark is not None
    bare = point.record.benchmark.model_copy(update={"stages": []})
    left = point.record.model_copy(update={"benchmark": bare})
    plots, collection = drawn(
        tmp_path, CollectedPoint("p-1", "s", point.config, "PASSED", record=left)
    )
    assert not plots.speed
    assert plots.left_out == [
        "NVIDIA GB300, dsv3 (1 point): one length, one recipe, and no stage was timed"
    ]
    assert plots.left_out[0] in render(collection, plots)


def test_points_that_have_no_time_are_named_and_a_probe_is_not(tmp_path: Path) -> None:
    untimed = record("p-2", asked(shape__seed=2)).model_copy(update={"benchmark": None})
    refused = record("p-3", asked(shape__seed=3), Outcome.UNSUPPORTED)
    plots, _ = drawn(
        tmp_path,
        CollectedPoint("p-1", "s", asked(shape__seed=1), "RUNNING"),
        CollectedPoint("p-2", "s", asked(shape__seed=2), "PASSED", record=untimed),
        CollectedPoint("p-3", "s", asked(shape__seed=3), "UNSUPPORTED", record=refused),
        CollectedPoint("p-4", "s", asked(job="probe"), "PASSED", record=untimed),
    )
    label = "mxfp8 dsv3 b=1 s=4096 gb300 seed="
    assert plots.left_out == [
        f"{label}1: not ended",
        f"{label}2: PASSED, and nothing was timed",
        f"{label}3: UNSUPPORTED, and nothing was timed",
    ]


def test_where_everything_is_drawn_nothing_is_told(tmp_path: Path) -> None:
    plots, collection = drawn(tmp_path, timed(1), timed(2, shape__seq_len=2048))
    assert plots.left_out == []
    assert "Not drawn" not in render(collection, plots)
