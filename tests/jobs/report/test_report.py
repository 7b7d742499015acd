"""The report as text: whole, self-contained, and nothing in it runs but its own script."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from jobs.collect.gather import collect
from jobs.record import Record, State
from jobs.report import text as show
from jobs.report.entry import Entry
from jobs.report.gates_table import gate_rows
from jobs.report.nodes_table import node_table
from jobs.report.points_table import build_table
from jobs.report.report import write_report
from jobs.report.text import NOTHING
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult
from tests.builders.demo_ledger import HOSTILE, demo_sweep
from tests.builders.ledger import passed_sweep
from tests.builders.records import point_config, record, untimed, with_notes
from tests.builders.runs import collected, passed


class Page(HTMLParser):
    """Tags, ids, links and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def values(self, name: str) -> list[str]:
        return [value for _, attributes in self.tags if (value := attributes.get(name))]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    folder = tmp_path_factory.mktemp("demo")
    demo_sweep(folder / "runs")
    collection = collect(["latest"], folder / "runs", folder / "results")
    write_report(collection)
    return collection


@pytest.fixture(scope="module")
def text(demo: Collection) -> str:
    assert demo.folder is not None
    return (demo.folder / "report.html").read_text(encoding="utf-8")


def written(folder: Path, *points: PointResult) -> str:
    folder.mkdir(exist_ok=True)
    return write_report(Collection("c", list(points), folder)).read_text(encoding="utf-8")


def test_every_section_is_there_and_every_link_leads_somewhere(
    demo: Collection, text: str
) -> None:
    page = Page(text)
    ids = page.values("id")
    assert {"summary", "failures", "points", "speed", "accuracy", "nodes", "provenance"} <= set(
        ids
    )
    assert len(ids) == len(set(ids))
    for link in page.values("href"):
        if link.startswith("#"):
            assert link[1:] in ids
        else:
            assert demo.folder is not None
            assert (demo.folder / link).exists(), link


def test_the_page_needs_nothing_from_anywhere(text: str) -> None:
    page = Page(text)
    assert not [tag for tag, _ in page.tags if tag in ("link", "img", "iframe", "object", "base")]
    assert not page.values("src")
    addresses = set(re.findall(r"https?://[^\s\"'<>)]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "default-src 'none'" in text


def test_text_of_a_log_is_shown_and_not_run(text: str) -> None:
    page = Page(text)
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert HOSTILE in "".join(page.texts)
    assert "\x1b" not in text


def test_every_figure_of_the_summary_adds_up(demo: Collection, text: str) -> None:
    counts = [int(n) for n in re.findall(r'class="figure">(\d+)</span> <span aria', text)]
    assert sum(counts) == demo.totals["planned"] == 48
    assert text.count("<tr data-state=") == 48


def test_each_failure_shows_its_evidence_and_log(text: str) -> None:
    words = "".join(Page(text).texts)
    assert "DUE TO TIME LIMIT" in words
    assert "RuntimeError: no plan" in words
    assert "compute_capability must be at least 10.0 for MXFP8, got 9.0" in words
    assert "Last lines of" in words


def test_plots_are_saved_for_pasting_too(demo: Collection) -> None:
    assert demo.folder is not None
    names = {path.name for path in (demo.folder / "plots").iterdir()}
    for stem in ("speedup-1", "time-1", "peak-1", "stages-1", "accuracy", "speed-error", "nodes"):
        assert {f"{stem}.svg", f"{stem}.png"} <= names


def test_a_page_is_made_of_anything(tmp_path: Path) -> None:
    assert "0 of 0 planned points passed" in written(tmp_path / "empty")
    states = [PointResult(f"p-{state}", "s", point_config(), state) for state in State]
    assert "1 of 8 planned points passed" in written(tmp_path / "states", *states)
    nothing = PointResult("p-1", "s", {}, State.PLANNED)
    assert "p-1" in written(tmp_path / "bare", nothing)


def test_hostile_names_and_numbers_break_nothing(tmp_path: Path) -> None:
    config = point_config(shape__name=HOSTILE, recipe__name="$\\frac{", shape__seq_len=-5)
    config["gpu"]["name"] = "\ud800'\"><svg onload=1>"
    left = record("p-1", point_config()).model_copy(update={"config": config})
    text = written(
        tmp_path / "c",
        PointResult("p-1", "s", config, State.PASSED, record=left),
        PointResult("p-2", "s", point_config(shape__name="a$b_{"), State.PASSED, record=left),
        PointResult("p-3", "s", config, State.ERROR, reason=HOSTILE, command=HOSTILE),
    )
    page = Page(text)
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", 0.0, -1.0, 1e308])
def test_times_that_are_no_times_are_left_out_of_the_plots(tmp_path: Path, value: object) -> None:
    points = []
    for number, length in enumerate((1024, 2048, 4096)):
        config = point_config(shape__seq_len=length)
        plain = record(f"p-{number}", config).model_dump(mode="json")
        if number == 1:
            for arm in plain["benchmark"]["arms"]:
                arm["fprop"] |= {"median_ms": value, "low_ms": value, "high_ms": value}
            plain["benchmark"]["fprop_speedup"] |= {"ratio": value, "low": value, "high": value}
            plain["benchmark"]["stages"][0]["share_of_roofline"] = value
            plain["validation"]["tensors"][0]["rel_l2"] = value
        points.append(collected(Record.model_validate(plain)))
    assert "Speedup over BF16" in written(tmp_path / "c", *points)


def test_emulated_times_are_never_drawn_as_speed(tmp_path: Path) -> None:
    configs = (point_config("mxfp8", "cpu", "tiny", shape__seq_len=n) for n in (128, 256))
    text = written(tmp_path / "c", *(passed(config) for config in configs))
    assert "All 2 points were emulated: checks this code, not hardware." in text
    assert "Speedup over BF16" not in text
    assert "no claim" in text


def test_a_point_that_was_not_timed_says_that_it_was_emulated(tmp_path: Path) -> None:
    records = (untimed(record(gpu, point_config(gpu=gpu))) for gpu in ("cpu", "gb300"))
    text = written(tmp_path / "c", *map(collected, records))
    assert "1 of 2 points was emulated: checks this code, not hardware." in text
    assert text.count("<small>emulated</small>") == 1


def test_writing_again_changes_no_file(tmp_path: Path) -> None:
    passed_sweep(tmp_path / "runs")
    times = []
    for _ in range(2):
        collection = collect(["latest"], tmp_path / "runs", tmp_path / "results")
        write_report(collection)
        assert collection.folder is not None
        files = [path for path in collection.folder.rglob("*") if path.is_file()]
        times.append({path: path.stat().st_mtime_ns for path in files})
    assert times[0] == times[1]


def test_a_tensor_in_bf16_is_listed_once() -> None:
    points = [passed(point_config(recipe), f"p-{recipe}") for recipe in ("bf16", "mxfp8")]
    both = {row.tensor: row for row in gate_rows(points)}
    assert both["dx"].point.point_id == "p-mxfp8"
    assert (both["dx"].gated, both["dx (bf16)"].gated) == (1, 2)
    alone = [row.tensor for row in gate_rows(points[:1])]
    assert "dx (bf16)" in alone
    assert all(name.endswith(" (bf16)") for name in alone)
    assert len(alone) == len(set(alone))


def test_a_stages_own_error_is_not_taken_for_that_of_the_whole_path() -> None:
    left = record("p-1", point_config())
    assert left.validation is not None
    whole = next(e for e in left.validation.tensors if (e.tensor, e.arm) == ("out", "recipe"))
    stage = whole.model_copy(update={"reference": "stage", "rel_l2": 0.19})
    judged = left.validation.model_copy(update={"tensors": [whole, stage]})
    rows = gate_rows([collected(left.model_copy(update={"validation": judged}))])
    assert {(row.tensor, row.quantity, row.gated) for row in rows} == {
        ("out", "relative L2 against FP32", 1),
        ("out, stage", "relative L2 against FP32 of the same inputs", 1),
    }


def test_of_nodes_only_what_was_seen_is_shown() -> None:
    seen = record("p-1", point_config())
    blind = seen.model_copy(update={"telemetry": [], "probe": None})
    titles, (node,) = node_table([Entry.of(collected(seen))])
    assert "SM clock (MHz)" in titles
    assert (node.throttled, node.limits) == ("no", "nothing")
    titles, (node,) = node_table([Entry.of(collected(blind))])
    assert titles == node.figures == []
    assert (node.throttled, node.limits) == (NOTHING, NOTHING)


def test_the_words_of_the_page_are_explained_on_it(text: str) -> None:
    for word in ("fprop, bprop", "Relative L2", "Gate", "Roofline", "UNSUPPORTED"):
        assert f"<dt>{word}</dt>" in text


def test_the_bf16_arms_own_error_stands_beside_the_recipes(tmp_path: Path) -> None:
    _, (row,) = build_table([Entry.of(passed(point_config()))])
    columns = ("out_rel_l2", "bf16_out_rel_l2")
    recipe, bf16 = (show.number(row.entry.number(column)) for column in columns)
    assert f"{recipe} <small>bf16 {bf16}</small>" in written(tmp_path, row.point)


def test_notes_of_a_benchmark_are_flagged_and_said(tmp_path: Path) -> None:
    config = point_config()
    noted = with_notes(record("p-1", config), "times not stable after 40 warm-up iterations")
    plain = passed(config, "p-2")
    page = written(tmp_path / "c", collected(noted), plain)
    assert page.count("⚑ <small>times not stable after 40 warm-up iterations</small>") == 1
    assert "Notes of the benchmark" not in written(tmp_path / "plain", plain)


def test_one_gpu_is_told_by_the_head_and_takes_no_column(tmp_path: Path) -> None:
    waits = PointResult("p-1", "s", point_config(), State.PENDING)
    for other in (PointResult("p-2", "s", point_config(gpu="h200"), State.PENDING), None):
        name = "one" if other is None else "two"
        text = written(tmp_path / name, waits, *([other] if other else []))
        assert ("gb300" if other is None else "gb300, h200") in text
        assert (">GPU</th>" in text[text.index('id="table"') :]) is (other is not None)
