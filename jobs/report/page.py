"""Renders a page that is one file: its style and script inside, everything else escaped."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from jobs.text import plain_text, pluralize

TEMPLATES = Path(__file__).parent / "templates"


def render_page(template: str, **values: Any) -> str:  # noqa: ANN401 - whatever the template takes
    """Fills a template of this package.

    Args:
        template: Its file name; it extends `page.html.j2`.
        values: What it shows. Text is escaped; the filter `plain` also takes control characters
            out of what a log or a library wrote.

    Returns:
        HTML that a browser lets load nothing, and run nothing but its own script.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["plain"] = lambda text: plain_text(str(text))
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    text = environment.get_template(template).render(
        style=(TEMPLATES / "page.css").read_text(encoding="utf-8"),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        counted=pluralize,
        **values,
    )
    return text.encode("utf-8", "replace").decode() + "\n"  # a lone surrogate cannot be written
