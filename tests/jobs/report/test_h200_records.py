"""The committed records of a real H200 through collect's tables, report, compare and history."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs.collect.gather import write_tables
from jobs.collect.published import load_published
from jobs.compare.baseline import save_baseline
from jobs.compare.comparison import Rules, compare
from jobs.compare.verdict import REGRESSIONS, Verdict
from jobs.report.entry import Entry
from jobs.report.nodes_table import node_table
from jobs.report.points_table import build_table
from jobs.report.report import write_report
from jobs.report.text import NOTHING
from jobs.status.collection import Collection
from jobs.status.point_result import Quote
from tests.builders.runs import collected
from tests.jobs.report.contrast import CONTRAST
from tools.gpu.records import read_records

if TYPE_CHECKING:
    from playwright.sync_api import Page

RESULTS = Path(__file__).parents[3] / "docs" / "results"


@pytest.fixture(scope="module")
def h200(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    named = read_records(RESULTS / "h200.jsonl").values()
    points = [
        collected(
            one.record,
            reason=one.record.reason,
            command=one.record.command,
            evidence=[Quote(piece.lines, piece.file) for piece in one.record.evidence],
        )
        for one in named
    ]
    collection = Collection("h200", points, tmp_path_factory.mktemp("h200"))
    write_tables(collection)
    write_report(collection)
    return collection


def folder(collection: Collection) -> Path:
    assert collection.folder is not None
    return collection.folder


def test_the_tables_hold_what_was_measured(h200: Collection) -> None:
    rows = json.loads((folder(h200) / "points.json").read_text())
    totals = h200.totals
    assert totals.pop("planned") == sum(totals.values()) == len(rows)
    seed = next(
        r
        for r in rows
        if r["recipe"] == "fp8_current"
        and r["shape"] == "dsv3"
        and r["seq_len"] == 4096
        and r["state"] == "PASSED"
    )
    assert 1.3 < seed["fprop_speedup"] < 1.5
    assert seed["fprop_speedup_low"] <= seed["fprop_speedup"] <= seed["fprop_speedup_high"]
    assert 0 < seed["gate_use"] < 1
    assert seed["gpu_name"] == "NVIDIA H200"
    assert any(row["state"] == "UNSUPPORTED" and "10.0 or higher" in row["reason"] for row in rows)


def test_labels_say_what_sets_a_point_apart_and_nothing_else(h200: Collection) -> None:
    labels = [point.label for point in h200.points]
    assert labels[0] == "bf16 dsv3 b=1 s=4096 h200"
    assert "fp8_current dsv3 b=1 s=4096 h200 fp8_dpa=true" in labels
    assert "bf16 dsv3 b=1 s=4096 h200 rope_kernel=eager tolerance=none" in labels
    assert max(map(len, labels)) < 80


def test_a_power_cap_is_no_throttling(h200: Collection) -> None:
    entries = [Entry.of(point) for point in h200.points]
    _, (node,) = node_table(entries)
    assert node.throttled == "no"
    assert node.limits.startswith("power cap (")
    assert {entry.row["throttle_reasons"] for entry in entries} == {None}


def test_columns_without_a_value_are_left_out(h200: Collection) -> None:
    columns, rows = build_table([Entry.of(point) for point in h200.points])
    titles = [column.title for column in columns]
    assert "Job" not in titles  # these points were run by hand
    assert "Gate used" in titles
    assert {len(made.cells) for made in rows} == {len(columns)}
    probe = next(made for made in rows if made.point.label == "probe h200")
    assert probe.cells[titles.index("Length")].text == NOTHING


def test_the_review_block_says_that_mxfp8_is_not_to_be_had(h200: Collection) -> None:
    text = (folder(h200) / "review.md").read_text()
    assert "| MXFP8 available | no: Device compute capability 10.0 or higher" in text
    assert re.search(r"dsv3 b=1 s=4096 h200.*\n\[PERF\] b=1 s=4096:", text)


def test_a_run_compared_with_itself_is_never_worse(h200: Collection) -> None:
    (found,) = compare([h200, h200])
    assert not REGRESSIONS & {one.verdict for point in found.points for one in point.judged}
    seeds = [p for p in found.points if p.pair.first.setting("benchmark.blocks") == 120]
    assert seeds
    assert {one.verdict for point in seeds for one in point.judged} == {Verdict.SAME}


def test_other_recipes_of_one_gpu_can_be_compared_on_purpose(h200: Collection) -> None:
    of = {
        name: Collection(name, [p for p in h200.points if p.setting("recipe.name") == name])
        for name in ("fp8_current", "fp8_block")
    }
    rules = Rules(ignore=("recipe",), metrics=("recipe",))
    (found,) = compare([of["fp8_current"], of["fp8_block"]], rules)
    verdicts = {one.metric: one.verdict for one in found.points[0].judged}
    assert verdicts["recipe bprop"] is Verdict.SLOWER


def test_the_clock_that_telemetry_saw_says_little_of_a_blocks_time(h200: Collection) -> None:
    """Why times are not divided by the clock: docs/compare.md states these slopes."""
    slopes = []
    for point in h200.points:
        left, blocks = point.record, point.setting("benchmark.blocks")
        if left is None or left.benchmark is None or blocks < 40:
            continue
        seen = [sample.sm_clock_mhz for sample in left.telemetry if sample.when == "during"]
        size = point.setting("benchmark.iterations_per_block")
        order = np.array([["recipe", "bf16"], ["bf16", "recipe"]] * (blocks // 2)).ravel()
        for arm in left.benchmark.arms:
            clocks = np.log(np.array(seen, float)[order == arm.arm])
            for timing in (arm.fprop, arm.bprop):
                times = np.median(np.reshape(timing.samples_ms, (blocks, size)), axis=1)
                slopes.append(np.polyfit(clocks, np.log(times), 1)[0])
    assert len(slopes) == 16
    text = (RESULTS.parent / "compare.md").read_text(encoding="utf-8")
    assert f"slopes between\n{min(slopes):.2f} and {max(slopes):+.2f}" in text


def test_published_figures_of_another_gpu_find_no_partner_here(h200: Collection) -> None:
    (found,) = compare([load_published(RESULTS / "published.json"), h200])
    assert not found.points
    assert found.exit_code == 3


def test_it_makes_a_baseline(h200: Collection, tmp_path: Path) -> None:
    good = sum(point.state == "PASSED" for point in h200.points)
    saved = save_baseline(h200, "h200", tmp_path)
    assert 0 < saved.added <= good


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_its_report_reads_well_in_a_browser(
    open_page: Callable[[Path], Page], h200: Collection
) -> None:
    page = open_page(folder(h200) / "report.html")
    assert page.locator("#shown").inner_text() == f"All {len(h200.points)} points"
    assert page.get_by_role("img", name="Speedup over BF16").count() >= 1
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        assert page.evaluate(CONTRAST) == []
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
