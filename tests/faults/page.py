"""Write `docs/faults.md` from the rows of the matrix: `python -m tests.faults.page`."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.faults.matrix import ROWS, Part, Place, Row

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "faults.md"
SOAK, FUZZ = DOCS / "results" / "soak.json", DOCS / "results" / "fuzz.json"
MODULES = tuple(
    f"tests.faults.test_{name}"
    for name in (
        *("point", "point_on_this_machine", "memory", "clocks", "job_start", "job", "nodes"),
        *("scheduler", "killed_submission", "concurrency", "pending_job", "damaged_files"),
        *("hostile_files", "hostile_text"),
    )
)

_HEAD = """# Injected faults and how they are reported

Each row is a test that injects one fault and checks how the tool reports it: the outcome or state
of the point, its cause, what the report names (a file, a key, a command, or the message of another
program), whether `launch.retries=1` submits the point again, and the exit code of the command.
`make faults` runs every row, `make test` those without a †. A row that needs a GPU runs only on a
machine with one, and is not counted.
This page is generated from the tests: `python -m tests.faults.page`.
"""
_COLUMNS = ("fault", "reported as", "cause", "names", "retried", "exit code", "injected into")


def rows() -> list[Row]:
    """Return every row in the order of the page, whichever module was imported first."""
    for name in MODULES:
        importlib.import_module(name)
    return sorted(ROWS.values(), key=lambda row: MODULES.index(row.module))


def render(rows: Sequence[Row], soak: dict[str, Any], fuzz: dict[str, Any]) -> str:
    """Return the page: a table for each part, then the figures of the soak and the fuzzer."""
    number = sum(row.place is not Place.gpu for row in rows)
    parts = [
        _HEAD,
        f"{number} faults injected: all reported correctly, no result lost (`make faults`).\n",
    ]
    for part in Part:
        lines = [_line(row) for row in rows if row.part is part]
        if lines:
            head = [_cells(_COLUMNS), _cells(["---"] * len(_COLUMNS))]
            parts += [f"## {part.value}\n", "\n".join([*head, *lines]) + "\n"]
    return "\n".join([*parts, _soak(soak), _fuzz(fuzz)])


def _line(row: Row) -> str:
    return _cells(
        (
            row.fault + (" †" if row.slow else "") + (f" ({row.note})" if row.note else ""),
            row.reported,
            row.cause.value if row.cause else "",
            ", ".join(f"`{name}`" for name in row.names),
            {True: "yes", False: "no", None: ""}[row.retried],
            str(row.code),
            row.place.value,
        )
    )


def _cells(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _soak(summary: dict[str, Any]) -> str:
    outside = sum(summary["faults_from_outside"].values())
    kills = sum(summary["launch_killed"].values())
    minutes = summary["seconds_of_faults"] // 60
    return f"""## Random faults: the soak

The soak submits, resumes and cancels sweeps on a test SLURM while faults are injected at random
(`{summary["command"]}`, [summary](results/soak.json)). In {minutes} minutes:

- {summary["points"]:,} points in {summary["sweeps"]} sweeps
- {outside} faults injected into jobs, nodes and daemons; `launch.py` killed {kills} times, the \
controller {summary["controller_restarts"]} times
- {summary["accounted"]:,} points accounted for, {summary["duplicates"]} submitted twice
- {summary["orphan_processes"]} processes and {summary["orphan_files"]} files left behind
"""


def _fuzz(summary: dict[str, Any]) -> str:
    return f"""## Generated input: the fuzzer

The fuzzer feeds generated input to everything that reads files, commands or the output of other
programs (`make fuzz`, [summary](results/fuzz.json)). In ten minutes, {len(summary["readers"])} \
readers were given
{summary["examples"]:,} inputs: {summary["faults"]} tracebacks.
"""


if __name__ == "__main__":
    PAGE.write_text(render(rows(), json.loads(SOAK.read_text()), json.loads(FUZZ.read_text())))
