"""The HTML report: one self-contained file, and its plots as files beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from jobs.collect.store import write_if_changed
from jobs.files import private_files
from jobs.record import DIRECTIONS, State
from jobs.report import text as show
from jobs.report.entry import Entry
from jobs.report.failures import failure_groups
from jobs.report.gates_table import GateRow, gate_rows
from jobs.report.nodes_table import node_table
from jobs.report.page import render_page
from jobs.report.plots.report_plots import Plots, draw_plots
from jobs.report.plots.series import finite, group_points
from jobs.report.points_table import build_table
from jobs.report.provenance import provenance_rows
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
_FILES = {
    "points.csv": "the table for spreadsheets",
    "points.parquet": "the table, typed",
    "points.json": "the table for scripts",
    "junit.xml": "for CI systems",
    "review.md": "for a review comment",
    "plots": "every plot as SVG and PNG",
    "jobs": "logs, scripts and records of each job",
}


@dataclass(frozen=True)
class Fact:
    """A figure of the summary, with its origin."""

    name: str
    value: str
    where: str


@private_files()
def write_report(collection: Collection) -> Path:
    """Write `report.html` and `plots/` into the collection's folder."""
    assert collection.folder is not None
    folder = collection.folder / "plots"
    folder.mkdir(exist_ok=True)
    path = collection.folder / REPORT_NAME
    write_if_changed(path, render(collection, draw_plots(collection, folder)))
    return path


def render(collection: Collection, plots: Plots) -> str:
    """Return the page with plots drawn before; all text of records and logs is escaped."""
    entries = [Entry.of(point) for point in collection.points]
    columns, points = build_table(entries)
    node_columns, nodes = node_table(entries)
    gates = gate_rows(collection.points)
    filters = [row.filters for row in points]
    return render_page(
        "report.html.j2",
        collection=collection,
        totals=collection.totals,
        states=[name for name in State if collection.totals[name]],
        marks=_MARKS,
        facts=list(_facts(collection, gates)),
        subtitle=_subtitle(collection, entries),
        plots=plots,
        columns=columns,
        points=points,
        filters={
            name: sorted({values[name] for values in filters})
            for name in ("state", "recipe", "shape", "gpu")
        },
        failures=failure_groups(collection),
        gates=gates,
        nodes=nodes,
        node_columns=node_columns,
        provenance=provenance_rows(entries),
        emulated_note=emulated_note(collection.points),
        files={
            name: purpose
            for name, purpose in _FILES.items()
            if collection.folder is None or (collection.folder / name).exists()
        },
    )


def _subtitle(collection: Collection, entries: Sequence[Entry]) -> str:
    columns = ("gpu_name", "gpu")
    names = [{text for e in entries if (text := e.text(column))} for column in columns]
    gpus = ", ".join(sorted(names[0] or names[1])) or "no GPU"
    days = sorted({day for entry in entries if (day := entry.text("started_at")[:10])})
    span = f", {' to '.join(dict.fromkeys((days[0], days[-1])))}" if days else ""
    jobs = f"; {pluralize(len(collection.job_ids), 'job')}" if collection.job_ids else ""
    return plain_text(f"{gpus}{jobs}{span}")


def _facts(collection: Collection, gates: Sequence[GateRow]) -> Iterator[Fact]:
    groups, _ = group_points(collection.points)
    for direction in DIRECTIONS:
        speedups = [
            (speedup.ratio, timed.point.label)
            for group in groups
            for timed in group.timed
            if (speedup := timed.speedups[direction]) is not None and timed.recipe != "bf16"
        ]
        if speedups:
            ratio, label = max(speedups)
            yield Fact(f"Highest {direction} speedup over BF16", show.times(ratio), label)
    if gates:
        worst = gates[0]
        name = "Outside its gate" if worst.kind == "bad" else "Nearest to the edge of its gate"
        yield Fact(name, f"{worst.used} used", f"{worst.tensor}, {worst.point.label}")
    durations = [point.record.duration_s for point in collection.points if point.record]
    seconds = sum(value for value in durations if value is not None and finite(value))
    if seconds:
        yield Fact("Time on nodes", show.duration(seconds), "total of all points")
