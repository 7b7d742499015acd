"""A real headless browser for the pages, opened once a module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium from the system, without a download."""
    chromium = which("chromium") or which("chromium-browser") or which("google-chrome")
    if chromium is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    with playwright.sync_playwright() as running:
        found = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[[Path], Page]]:
    """Opens a file; a console error, an exception or a request anywhere fails the test."""
    complaints: list[str] = []
    opened: list[str] = []
    context = browser.new_context(viewport={"width": 1280, "height": 900})

    def open_(path: Path) -> Page:
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: complaints.append(request.url))
        opened.append(path.as_uri())
        page.goto(path.as_uri())
        return page

    yield open_
    assert [text for text in complaints if text not in opened] == []
    context.close()
