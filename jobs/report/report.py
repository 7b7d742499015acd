"""The HTML report: one file that needs nothing else, and its plots as files beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.collect.points_table import Value, row
from jobs.collect.store import write_if_changed
from jobs.files import private_files
from jobs.record import State
from jobs.report import text as show
from jobs.report.drawings import Plots, draw
from jobs.report.environment import node_table, provenance_rows
from jobs.report.failures import failure_groups
from jobs.report.page import render_page
from jobs.report.series import Group, finite, groups
from jobs.report.tables import edge_rows, point_table
from jobs.status.collection import Collection
from jobs.status.point_result import emulated_note
from jobs.text import plain_text, pluralize

REPORT_NAME = "report.html"
_MARKS = {
    "PASSED": "✓",
    "FAILED": "✗",
    "ERROR": "!",
    "UNSUPPORTED": "∅",
    "PLANNED": "·",
    "PENDING": "…",
    "RUNNING": "▸",
    "REQUEUED": "↻",
}


@dataclass(frozen=True)
class Fact:
    """A figure of the summary, with where it is from."""

    name: str
    value: str
    where: str


@private_files()
def write_report(collection: Collection) -> Path:
    """Write `report.html` and `plots/` into the collection's folder.

    Args:
        collection: A collection that has a folder.

    Returns:
        The page: one file, no script, style, font or picture from anywhere else.

    Raises:
        OSError: The folder cannot be written.
    """
    assert collection.folder is not None
    folder = collection.folder / "plots"
    folder.mkdir(exist_ok=True)
    plots = draw(collection, folder)
    path = collection.folder / REPORT_NAME
    write_if_changed(path, render(collection, plots))
    return path


def render(collection: Collection, plots: Plots) -> str:
    """The page as text.

    Args:
        collection: Any collection.
        plots: Its plots.

    Returns:
        HTML whose every text from a record or a log is escaped, and which a browser lets run
        nothing but its own script.
    """
    rows = [row(point) for point in collection.points]
    columns, points = point_table(collection.points, rows)
    node_columns, nodes = node_table(rows)
    return render_page(
        "report.html.j2",
        collection=collection,
        totals=collection.totals,
        states=[name for name in State if collection.totals[name]],
        marks=_MARKS,
        facts=_facts(collection, groups(collection.points)),
        subtitle=_subtitle(collection, rows),
        plots=plots,
        columns=columns,
        points=points,
        filters={
            name: sorted({point.filters[name] for point in points})
            for name in ("state", "recipe", "shape", "gpu")
        },
        failures=failure_groups(collection),
        edges=edge_rows(collection.points),
        nodes=nodes,
        node_columns=node_columns,
        provenance=provenance_rows(collection.points, rows),
        emulated_note=emulated_note(collection.points),
        files=_files(collection),
    )


def _subtitle(collection: Collection, rows: list[dict[str, Value]]) -> str:
    gpus = (
        sorted({str(row["gpu_name"]) for row in rows if row["gpu_name"]})
        or sorted({str(row["gpu"]) for row in rows if row["gpu"]})
        or ["no GPU seen"]
    )
    days = sorted({str(row["started_at"])[:10] for row in rows if row["started_at"]})
    span = f", {days[0]}" + (f" to {days[-1]}" if len(days) > 1 else "") if days else ""
    jobs = f"; {pluralize(len(collection.job_ids), 'job')}" if collection.job_ids else ""
    return plain_text(f"{', '.join(gpus)}{jobs}{span}")


def _facts(collection: Collection, found: list[Group]) -> list[Fact]:
    facts = []
    for direction in ("fprop", "bprop"):
        best = max(
            (
                (speedup.ratio, timed)
                for group in found
                for timed in group.timed
                if (speedup := timed.speedups[direction]) is not None and timed.recipe != "bf16"
            ),
            key=lambda pair: pair[0],
            default=None,
        )
        if best is not None:
            name = f"Highest {direction} speedup over BF16"
            facts.append(Fact(name, show.times(best[0]), best[1].point.label))
    edges = edge_rows(collection.points)
    if edges:
        worst = edges[0]
        name = "Outside its gate" if worst.kind == "bad" else "Nearest to the edge of its gate"
        where = f"{worst.tensor}, {worst.point.label}"
        facts.append(Fact(name, f"{worst.used} used", where))
    lengths = [point.record.duration_s for point in collection.points if point.record]
    seconds = sum(length for length in lengths if length is not None and finite(length))
    if seconds:
        facts.append(Fact("Time on nodes", show.duration(seconds), "all points together"))
    return facts


def _files(collection: Collection) -> list[tuple[str, str]]:
    offered: list[tuple[str, str]] = [
        ("points.csv", "the table for spreadsheets"),
        ("points.parquet", "the table, typed"),
        ("points.json", "the table for scripts"),
        ("junit.xml", "for CI systems"),
        ("review.md", "for a review comment"),
        ("plots", "every plot as SVG and PNG"),
        ("jobs", "logs, scripts and records of each job"),
    ]
    folder: Any = collection.folder
    return [(name, what) for name, what in offered if folder is None or (folder / name).exists()]
