"""A page as a single file, with its style and script inside and everything else escaped."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from jobs.text import plain_text, pluralize

TEMPLATES = Path(__file__).parent / "templates"


def render_page(template: str, **values: Any) -> str:  # noqa: ANN401 - any value of a template
    """Return the HTML of a template that extends `page.html.j2`.

    A browser loads nothing else, and runs no script but the page's own. The filter `plain` removes
    control characters from text of logs and libraries.
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
