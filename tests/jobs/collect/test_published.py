"""Published figures are compared with measurements, and never shown as measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobs.collect.published import NOTE, load_published
from jobs.compare.comparison import compare
from jobs.compare.history import history
from jobs.compare.output import markdown
from jobs.compare.page import page
from jobs.compare.rows import rows, sources
from jobs.compare.verdict import Verdict
from jobs.errors import RecordError
from tests.builders.runs import run

FILE = Path(__file__).parents[3] / "docs" / "results" / "published.json"


def test_every_published_figure_is_read() -> None:
    held = load_published(FILE)
    figures = {
        str(point.setting("gpu.name")): [
            getattr(arm, direction).mean_ms
            for arm in reversed(point.record.benchmark.arms)
            for direction in ("fprop", "bprop")
        ]
        for point in held.points
        if point.record and point.record.benchmark
    }
    assert figures == {
        "gb300": [7.219, 15.179, 4.718, 9.215],
        "gb200": [8.582, 14.006, 5.210, 8.763],
    }
    assert all(point.note == NOTE and point.command for point in held.points)


@pytest.mark.parametrize("projection", ["fused", "split"])
def test_a_point_matches_if_it_agrees_with_every_published_setting(projection: str) -> None:
    mine = run("mine")
    for point in mine.points:
        point.config["shape"]["projection"] = projection
    (found,) = compare([load_published(FILE), mine])
    assert [point.pair.second.setting("shape.seq_len") for point in found.points] == [4096]
    assert found.points[0].gpus == ("NVIDIA GB300", "NVIDIA GB300")
    assert all(NOTE in row.note for row in rows(found))
    assert not found.differences


def test_without_intervals_the_verdict_may_be_slower_but_never_same() -> None:
    (near,) = compare([load_published(FILE), run("mine")])
    assert near.exit_code == 3
    (far,) = compare([load_published(FILE), run("mine", scale=1.5)])
    assert Verdict.SLOWER in far.counts
    assert far.exit_code == 1


def test_published_figures_are_no_part_of_a_history() -> None:
    published = load_published(FILE)
    assert history([published, published]) == []


@pytest.mark.parametrize(
    "text", ["", "{}", '{"name": "x", "rows": [{}]}', "[" * 100_000, '{"name": "x", "rows": 3}']
)
def test_another_file_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "published.json"
    path.write_text(text)
    with pytest.raises(RecordError) as refused:
        load_published(path)
    assert "\n" not in str(refused.value)


def test_a_time_of_zero_is_refused(tmp_path: Path) -> None:
    held = json.loads(FILE.read_text())
    held["rows"][0]["bf16"]["fprop_ms"] = 0
    path = tmp_path / "published.json"
    path.write_text(json.dumps(held))
    with pytest.raises(RecordError) as refused:
        load_published(path)
    assert "rows.0.bf16.fprop_ms" in refused.value.problem


def test_the_source_is_shown_with_the_figures() -> None:
    (found,) = compare([load_published(FILE), run("mine")])
    (line,) = sources(found)
    assert line.startswith("published, not measured here: Transformer Engine, pull request")
    assert "Means of 100 iterations" in line
    assert line in page(found)
    assert "Means of 100 iterations" in markdown(found)
