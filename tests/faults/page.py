"""Writes `docs/faults.md`, and the counts in the README, from the rows of the matrix.

python -m tests.faults.page
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

from tests.faults.matrix import MODULE_OF, ROWS, Part, Row

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "faults.md"
README = ROOT / "README.md"
MODULES = (
    *(
        "test_in_the_point",
        "test_in_the_point_local",
        "test_memory",
        "test_clocks",
        "test_job_start",
        "test_in_the_job",
        "test_nodes",
        "test_around_it",
        "test_killed",
        "test_at_once",
        "test_waiting",
        "test_damaged",
        "test_hostile",
        "test_hostile_text",
    ),
)

_HEAD = """# Faults, and what is told of each

Every row is injected by a test and held to what stands here: the outcome or state of the point,
the cause, words that are quoted, whether `launch.retries=1` submits the point again, and the exit
code of the command that tells it. `make faults` runs all; `make test` runs those without a †.
A row that needs a GPU is run there alone, and is not counted.
This page is made from the tests: `python -m tests.faults.page`.
"""


def rows() -> list[Row]:
    """Every row, as the modules have them, whichever was imported first."""
    modules = [importlib.import_module(f"tests.faults.{name}").__name__ for name in MODULES]
    return sorted(ROWS.values(), key=lambda row: modules.index(MODULE_OF[row.fault]))


def count_line(found: list[Row]) -> str:
    """What the README states of the matrix."""
    number = len([row for row in found if row.place.name != "gpu"])
    return f"{number} faults injected, {number} told right, 0 results lost"


def render(found: list[Row]) -> str:
    """The page."""
    parts = [_HEAD, f"{count_line(found)} (`make faults`).\n"]
    for part in Part:
        here = [row for row in found if row.part is part]
        if here:
            parts.append(f"## {part.value[0].upper()}{part.value[1:]}\n")
            parts.append("\n".join([*_TABLE_HEAD, *map(_line, here)]) + "\n")
    return "\n".join(parts)


_TABLE_HEAD = (
    "| fault | told | cause | quoted | again | code | injected into |",
    "|---|---|---|---|---|---|---|",
)


def _line(row: Row) -> str:
    again = {True: "yes", False: "no", None: ""}[row.retried]
    cells = (
        row.fault + (" †" if row.slow else "") + (f" ({row.note})" if row.note else ""),
        row.told,
        row.cause.value if row.cause else "",
        f"`{row.quotes}`" if row.quotes else "",
        again,
        str(row.code),
        row.place.value,
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def with_counts(text: str, found: list[Row]) -> str:
    """A text with the matrix's counts brought up to date; line breaks stay where they are."""
    words = r"\s".join(r"\d+" if word.isdigit() else word for word in count_line(found).split())
    counts = iter(re.findall(r"\d+", count_line(found)))
    return re.sub(words, lambda old: re.sub(r"\d+", lambda _: next(counts), old[0]), text, count=1)


if __name__ == "__main__":
    DOCS.write_text(render(rows()))
    README.write_text(with_counts(README.read_text(), rows()))
