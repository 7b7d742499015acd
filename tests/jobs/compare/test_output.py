"""A comparison and a history as people see them: on a screen, in a review, in a browser."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jobs.compare import history_output as history_show
from jobs.compare.comparison import Comparison, Rules, compare
from jobs.compare.history import history
from jobs.compare.output import markdown, show, write_comparisons
from jobs.compare.page import page
from jobs.compare.rows import headline, rows
from jobs.status.collection import Collection
from jobs.terminal.console import Console
from tests.builders.demo_ledger import HOSTILE
from tests.builders.runs import run, with_state
from tests.jobs.report.contrast import CONTRAST

if TYPE_CHECKING:
    from playwright.sync_api import Page


def slower(second: Collection | None = None, **about: Any) -> Comparison:  # noqa: ANN401
    (found,) = compare([run(seed=1), second or run("second", seed=50, scale=1.04, **about)])
    return found


def printed(comparison: Comparison, *, every: bool = False, width: int = 200) -> str:
    out = Console(file=io.StringIO(), width=width)
    show(comparison, out, every=every)
    text = out.file.getvalue()  # type: ignore[attr-defined] # a StringIO
    assert isinstance(text, str)
    return text


def test_the_screen_shows_what_changed_and_what_may_explain_it() -> None:
    text = printed(slower(driver="590.1"))
    assert "▼ SLOWER" in text
    assert "580.82.07" in text
    assert "bf16 fprop" not in text
    assert "bf16 fprop" in printed(slower(), every=True)
    assert text.rstrip().endswith("2 matched points: 2 SLOWER")


def test_what_the_figures_are_and_which_are_left_out_is_told_everywhere() -> None:
    left_out = "Times of emulated arms are not compared (2 points): they do not measure hardware."
    means = "Times and speedups are trimmed means over blocks; a report shows"
    (emulated,) = compare([run(gpu="cpu"), run("second", gpu="cpu", seed=5)])
    for found, told, untold in ((emulated, left_out, means), (slower(), means, left_out)):
        for text in (printed(found), page(found).replace("&#39;", "'"), markdown(found)):
            assert told in text
            assert untold not in text


def test_an_interval_is_drawn_only_where_there_is_one() -> None:
    found = slower()
    drawn = [row.metric for row in rows(found) if row.interval]
    assert any(row.metric.startswith("error") and row.change for row in rows(found))
    assert drawn
    assert not any(metric.startswith("error") for metric in drawn)
    assert page(found).count('<span class="change ') == len(drawn)


def test_the_third_of_three_is_called_the_third() -> None:
    runs = [run(seed=10 * day, day=day, scale=1.04).points for day in (5, 6)]
    both = Collection("c", [point for points in runs for point in points])
    found = compare([run("a"), run("b"), both])[1]
    text = printed(found)
    assert "c (third) compared with a (first)" in text
    assert "second" not in text + markdown(found) + page(found).partition("<body>")[2]
    assert "third: mean of 2 runs" in text
    assert "| first | third |" in markdown(found)
    assert ">Third</th>" in page(found)


def test_a_point_without_figures_shows_both_states() -> None:
    found = slower(with_state(run("second"), "ERROR", "crashed"))
    (row,) = [row for row in rows(found) if row.metric == "outcome"]
    assert (row.first, row.second, row.verdict) == ("PASSED", "ERROR (crashed)", "WORSE")


def test_a_long_reason_is_cut_on_the_screen_alone() -> None:
    ended = with_state(run("second"), "ERROR", "crashed")
    first, *rest = ended.points
    long = dataclasses.replace(first, reason="why " * 200)
    (found,) = compare([run(), Collection("second", [long, *rest])])
    assert len(printed(found)) < 1500
    assert "why " * 200 in page(found)


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 140])
def test_no_screen_is_too_narrow_for_whole_words(width: int) -> None:
    text = printed(slower(driver="590.1"), width=width)
    assert text.count("▼ SLOWER") == text.count("▼") == 8
    assert "recipe fprop" in text.replace("\n", " ")
    assert max(map(len, text.splitlines()[:10])) <= width
    assert ("verdict" in text) is (width >= 100)


def test_collections_of_one_name_have_a_page_each(tmp_path: Path) -> None:
    pages = write_comparisons([slower(), slower(run("second"))], tmp_path)
    assert len(set(pages)) == 2
    assert [json.loads(p.with_suffix(".json").read_text())[0]["exit_code"] for p in pages] == [
        1,
        0,
    ]


def test_nothing_but_the_unmatched_is_told_where_nothing_matches() -> None:
    (found,) = compare([run(), run("second", lengths=(8192,))])
    text = printed(found)
    assert "only in the first: mxfp8 dsv3 b=1 s=2048 gb300" in text
    assert headline(found) == "0 matched points: nothing to compare, 3 unmatched"


def test_points_without_a_partner_for_one_reason_are_one_line() -> None:
    first, second = run(lengths=(1024, 2048, 4096)), run("second", lengths=(1024, 2048, 4096))
    for point in second.points:
        point.config["shape"]["seed"] = 7
    (found,) = compare([first, second])
    text = printed(found)
    why = "closest point of the other collection differs in shape.seed (42 vs 7)"
    assert text.count("only in the first") == 1
    assert f"only in the first: 3 points: {why}: mxfp8" in text.replace("\n", " ")
    step = f"python launch.py compare {first.name} second 'compare.ignore=[shape.seed]'"
    assert f"Next: {step}\n" in text
    assert markdown(found).count("- only in the first: 3 points: ") == 1
    assert step.replace("'", "&#39;") in page(found)
    (other,) = compare([run(lengths=tuple(range(n, n + 61))) for n in (1024, 2048)])
    assert "only in the second: 41 more reasons" in printed(other)
    assert page(other).count("differs in shape.seq_len") == 2 * 61


def test_the_nearest_of_one_gpu_is_told_however_much_it_differs() -> None:
    first, second = run(), run("second", lengths=(2048,), recipe="bf16")
    (point,) = second.points
    point.config["shape"] |= {"hidden": 512, "num_heads": 4, "seed": 7, "batch": 3, "bias": True}
    for key in ("blocks", "iterations_per_block", "budget_s"):
        point.config["benchmark"][key] += 1
    (found,) = compare([first, second])
    (alone,) = found.only_second
    assert alone.why.startswith(
        "closest point of the other collection differs in shape.batch (3 vs 1)"
    )
    assert alone.why.endswith(" more")
    assert not alone.keys  # too many to let differ


def test_a_matched_point_is_the_nearest_too() -> None:
    (found,) = compare([run(lengths=(2048,)), run("second", lengths=(2048, 4096))])
    (alone,) = found.only_second
    assert (
        alone.why
        == "closest point of the other collection differs in shape.seq_len (4096 vs 2048)"
    )


def test_the_page_lists_every_point_without_a_partner() -> None:
    lengths = tuple(range(1024, 1324))
    (found,) = compare([run(), run("second", lengths=lengths)])
    text = page(found)
    assert all(f"s={length} " in text for length in lengths)
    assert "Nothing was compared" in text
    hidden = '<section id="metrics" aria-labelledby="metrics-title" hidden>'
    assert hidden in text
    assert hidden not in page(slower())
    assert "Nothing was compared" not in page(slower())


def test_intervals_wider_than_the_threshold_are_told_with_what_narrows_them() -> None:
    (wide,) = compare([run(seed=1), run("second", seed=50)], Rules(threshold=0.001))
    for text in (printed(wide), page(wide), markdown(wide)):
        assert "the interval exceeds the threshold of ±0.1 %: " in text
        assert "More blocks (benchmark.blocks) or more runs on each side" in text.replace(
            "\n", " "
        ).replace("\\", "")
    assert "wider than the threshold" not in printed(slower())


def test_the_review_block_is_a_table_of_what_is_not_the_same() -> None:
    text = markdown(slower(driver="590.1"))
    assert "| SLOWER | mxfp8 dsv3 b=1 s=2048 gb300 | recipe fprop |" in text
    assert "| driver | 580.82.07 | 590.1 | 2 |" in text
    assert "SAME" not in text.split("| verdict |")[1]


def test_hostile_words_stay_words(tmp_path: Path) -> None:
    found = slower(driver=HOSTILE, cuda="\x1b[2J|`@all")
    assert "\x1b" not in printed(found)
    assert "<script" not in markdown(found).replace("\\<", "")
    assert page(found).count("<script") == 1


def test_page_markdown_and_json_are_written_once(tmp_path: Path) -> None:
    (path,) = write_comparisons([slower()], tmp_path)
    names = {each.name for each in path.parent.iterdir()}
    assert names == {"compare.html", "compare.md", "compare.json"}
    (plain,) = json.loads((path.parent / "compare.json").read_text())
    assert plain["exit_code"] == 1
    before = path.stat().st_mtime_ns
    write_comparisons([slower()], tmp_path)
    assert path.stat().st_mtime_ns == before


def test_a_history_is_printed_with_its_changes_alone() -> None:
    made = [
        run(f"run-{day}", lengths=(4096,), scale=1.05 if day > 5 else 1.0, seed=100 * day, day=day)
        for day in range(1, 10)
    ]
    out = Console(file=io.StringIO(), width=200)
    history_show.show(history(made), out)
    text = out.file.getvalue()  # type: ignore[attr-defined] # a StringIO
    assert "run-6 2025-11-06" in text
    assert "bf16 fprop" not in text
    assert "14 series, 4 of them changed" in text


def test_a_column_that_says_nothing_is_left_out_of_the_page() -> None:
    made = [run(f"run-{day}", lengths=(4096,), seed=100 * day, day=day) for day in (1, 2)]
    steady = history_show.page(history(made))
    assert ">Changes</th>" not in steady
    quiet = compare([made[0], made[0]])[0]
    assert not any(row.note for row in rows(quiet))
    assert ">Note</th>" not in page(quiet)
    noted = slower(with_state(run("second"), "ERROR", "crashed"))
    assert ">Note</th>" in page(noted)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    (compared,) = write_comparisons([slower(driver=HOSTILE)], folder)
    made = [
        run(
            f"run-{day}",
            lengths=(4096,),
            scale=1.05 if day > 4 else 1.0,
            seed=100 * day,
            day=day,
            driver="x" * 300 if day > 4 else "580.1",
            image="container " * 30 if day > 4 else None,
        )
        for day in range(1, 8)
    ]
    return {"compare": compared, "history": history_show.write_history(history(made), folder)}


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize("name", ["compare", "history"])
def test_the_pages_work_in_a_browser(
    open_page: Callable[[Path], Page], pages: dict[str, Path], name: str
) -> None:
    opened = open_page(pages[name])
    assert "owned" not in opened.title()
    everything = opened.locator("#shown").inner_text()
    assert everything.startswith("All ")
    opened.locator("select[data-filter=metric]").select_option("recipe fprop")
    assert " of " in opened.locator("#shown").inner_text()
    opened.get_by_role("button", name="Show all").click()
    header = opened.get_by_role("columnheader", name="Metric")
    header.get_by_role("button").click()
    metrics = opened.locator(
        "#table tbody td:nth-child(3)" if name == "compare" else "td:nth-child(2)"
    )
    assert metrics.all_inner_texts() == sorted(metrics.all_inner_texts())
    for scheme in ("light", "dark"):
        opened.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        assert opened.evaluate(CONTRAST) == []
    for width in (320, 390, 1920):
        opened.set_viewport_size({"width": width, "height": 800})
        assert opened.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize("name", ["compare", "history"])
def test_a_wide_page_has_one_scroll_bar_and_keeps_its_header_in_sight(
    open_page: Callable[[Path], Page], pages: dict[str, Path], name: str
) -> None:
    opened = open_page(pages[name])
    for width in (1320, 1440, 1920):
        opened.set_viewport_size({"width": width, "height": 600})
        assert opened.evaluate("document.documentElement.scrollWidth") <= width
        box = "document.querySelector('.tall')"
        assert opened.evaluate(f"getComputedStyle({box}).overflowY") == "visible"
        assert opened.evaluate(f"{box}.scrollWidth <= {box}.clientWidth")
        opened.evaluate("document.querySelector('#table tbody tr:nth-child(8)').scrollIntoView()")
        opened.wait_for_function(
            "() => { const head = document.querySelector('#table thead th');"
            " const gap = head.getBoundingClientRect().top"
            " - document.querySelector('nav').getBoundingClientRect().bottom;"
            " return gap > -1 && gap < 4; }"
        )
