"""The report in a real browser: it sorts, filters, prints, asks nobody, and runs no log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jobs.collect.gather import collect
from jobs.record import State
from jobs.report.report import write_report
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult
from tests.builders.demo_ledger import demo_sweep
from tests.builders.records import point_config, record, with_notes
from tests.builders.runs import collected
from tests.jobs.report.contrast import CONTRAST

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    demo_sweep(folder / "runs")
    return write_report(collect(["latest"], folder / "runs", folder / "results"))


@pytest.fixture
def page(open_page: Callable[[Path], Page], report: Path) -> Page:
    """The open report."""
    return open_page(report)


def column(page: Page, number: int) -> list[str]:
    cells = page.locator(f"#table tbody tr:not([hidden]) > :nth-child({number})")
    return [text.split()[0] for text in cells.all_inner_texts()]


def test_nothing_of_a_log_runs(page: Page) -> None:
    assert page.title().startswith("s-")
    assert "document.title='owned'" in page.locator("#failures pre.evidence").nth(1).inner_text()
    assert page.locator("img").count() == 0


def test_a_click_on_a_title_sorts_and_says_so(page: Page) -> None:
    length = page.get_by_role("columnheader", name="Length")
    before = column(page, 5)
    length.get_by_role("button").click()
    assert length.get_attribute("aria-sort") == "ascending"
    lengths = [int(text) for text in column(page, 5)]
    assert lengths == sorted(lengths)
    length.get_by_role("button").click()
    assert length.get_attribute("aria-sort") == "descending"
    assert [int(text) for text in column(page, 5)] == sorted(lengths, reverse=True)
    length.get_by_role("button").click()
    assert column(page, 5) == before


def test_what_has_no_value_sorts_last_both_ways(page: Page) -> None:
    button = page.get_by_role("columnheader", name="fprop speedup").get_by_role("button")
    for _ in range(2):
        button.click()
        assert column(page, 6)[-1] == "–"  # noqa: RUF001 - the dash that stands for no value
        assert column(page, 6)[0] != "–"  # noqa: RUF001 - likewise


def test_a_gpu_is_called_the_same_where_no_record_tells_its_name(page: Page) -> None:
    assert page.get_by_label("GPU").locator("option").all_inner_texts() == ["all", "GB300", "H200"]


def test_filters_narrow_the_table_and_say_how_far(page: Page) -> None:
    shown = page.locator("#shown")
    assert shown.inner_text() == "All 48 points"
    page.get_by_label("Recipe").select_option("fp8_block")
    assert set(column(page, 3)) == {"fp8_block"}
    page.get_by_label("Search").fill("kimi_k2 8192")
    assert shown.inner_text() == "1 of 48 points"
    page.get_by_role("button", name="Show all").click()
    assert shown.inner_text() == "All 48 points"


def test_an_outcome_of_the_summary_filters_the_table(page: Page) -> None:
    errors = page.get_by_role("button", name="4 ERROR")
    errors.click()
    assert errors.get_attribute("aria-pressed") == "true"
    assert page.locator("#shown").inner_text() == "4 of 48 points"
    errors.click()
    assert page.locator("#shown").inner_text() == "All 48 points"


def test_the_keyboard_reaches_and_works_everything(page: Page) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the summary"
    button = page.get_by_role("columnheader", name="Recipe").get_by_role("button")
    button.focus()
    page.keyboard.press("Enter")
    assert column(page, 3) == sorted(column(page, 3))
    unreachable = page.evaluate(
        "[...document.querySelectorAll('[onclick], [role=button]')]"
        ".filter((e) => e.tabIndex < 0).length"
    )
    assert unreachable == 0


def test_a_screen_reader_finds_names_for_everything(page: Page) -> None:
    assert page.get_by_role("heading", level=1).count() == 1
    assert page.get_by_role("main").count() == 1
    assert page.get_by_role("navigation", name="Sections").count() == 1
    for role in ("button", "link", "combobox", "searchbox", "img", "region"):
        for found in page.get_by_role(role).all():
            name = found.evaluate(
                "(e) => e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length"
                " || document.getElementById(e.getAttribute('aria-labelledby'))?.textContent"
            )
            assert name, found.evaluate("(e) => e.outerHTML.slice(0, 200)")


@pytest.mark.parametrize("width", [320, 390, 768, 1920])
def test_no_width_makes_the_page_itself_scroll_sideways(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read_in_light_and_dark(page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    assert page.evaluate(CONTRAST) == []
    page.get_by_role("button", name="Light" if scheme == "dark" else "Dark").click()
    assert page.evaluate(CONTRAST) == []


def test_printing_shows_what_was_folded_and_hides_the_controls(page: Page) -> None:
    page.emulate_media(media="print", color_scheme="dark")
    page.set_viewport_size({"width": 703, "height": 1000})  # A4 without its margins
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("document.documentElement.scrollWidth") <= 703
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    assert not page.locator(".controls").is_visible()
    # A header that is repeated on each page holds text: of a button nothing would be printed.
    assert not page.locator("#table thead button").first.is_visible()
    assert page.locator("#table thead th").all_inner_texts()[:3] == ["Point", "State", "Recipe"]
    assert len(page.pdf(format="A4")) > 10_000
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details:not([open])").count() > 0


def test_long_names_ids_and_notes_fit_the_printed_page(
    open_page: Callable[[Path], Page], tmp_path: Path
) -> None:
    points = []
    for number, recipe in enumerate(("fp8_delayed", "fp8_current")):
        config = point_config(recipe, shape__name="a_shape_of_a_long_name", shape__seq_len=16384)
        left = record("p-1", config, host="gb300-rack17-node-0123", scale=100)
        noted = with_notes(left, "times not stable after 40 warm-up iterations")
        about = {"point_id": f"p-0123456789a{number}", "job_id": f"61134000_{number}"}
        points.append(collected(noted, **about))
    refused = point_config("mxfp8", shape__rope_kernel="triton", tolerance__name="none")
    points.append(PointResult("p-2", "s", refused, State.UNSUPPORTED, job_id="61134000_12"))
    page = open_page(write_report(Collection("c", points, tmp_path)))
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 703, "height": 1000})  # A4 without its margins
    assert page.evaluate("document.documentElement.scrollWidth") <= 703


def test_without_scripts_the_table_is_all_there(browser: Browser, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    bare = context.new_page()
    bare.goto(report.as_uri())
    assert bare.locator("#table tbody tr").count() == 48
    assert not bare.locator(".controls").is_visible()
    context.close()
