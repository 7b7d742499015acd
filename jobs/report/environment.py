"""Nodes with their telemetry, and the provenance of every figure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from jobs.collect.points_table import Value, median
from jobs.environment import LABELS
from jobs.report import text as show
from jobs.status.point_result import PointResult

NODE_COLUMNS = {
    "SM clock (MHz)": "sm_clock_mhz_during",
    "Power (W)": "power_watt_during",
    "Temperature (°C)": "temperature_celsius_during",
    "Copy (GB/s)": "probe_copy_gb_per_s",
    "BF16 matmul (TFLOP/s)": "probe_bf16_matmul_tflops",
}
_PROVENANCE = {label: field for field, label in LABELS.items() if field != "host"} | {
    "attention kernel of the recipe": "attention_backend_recipe",
    "attention kernel of BF16": "attention_backend_bf16",
    "variables that change the meaning of a run": "flags",
    "command": "command",
}


@dataclass(frozen=True)
class NodeRow:
    """A node; figures are medians over its points."""

    host: str
    gpu: str
    points: int
    figures: list[str]
    throttled: str
    limits: str


@dataclass(frozen=True)
class ProvenanceRow:
    """One fact: every value that occurs, with how many points had it."""

    name: str
    values: list[tuple[str, int]]


def node_rows(rows: Sequence[dict[str, Value]]) -> list[NodeRow]:
    """The nodes, by name.

    Args:
        rows: Flat rows, as `table.row` made them.

    Returns:
        Medians of each node's telemetry and fingerprint over its points.
    """
    by_node: dict[tuple[str, str], list[dict[str, Value]]] = defaultdict(list)
    for row in rows:
        if row["host"]:
            by_node[str(row["host"]), str(row["gpu_name"] or "no GPU")].append(row)
    made = []
    for (host, gpu), mine in sorted(by_node.items()):
        figures = [
            show.number(median([_float(row[key]) for row in mine]))
            for key in NODE_COLUMNS.values()
        ]
        throttled, limits = (_reasons(mine, key) for key in ("throttle_reasons", "clock_limits"))
        if all(row["sm_clock_mhz_during"] is None for row in mine):  # nobody looked
            throttled, limits = throttled or show.NOTHING, limits or show.NOTHING
        made.append(NodeRow(host, gpu, len(mine), figures, throttled or "no", limits or "nothing"))
    return made


def node_table(rows: Sequence[dict[str, Value]]) -> tuple[list[str], list[NodeRow]]:
    """The nodes as a table.

    Args:
        rows: Flat rows, as `table.row` made them.

    Returns:
        The titles of the figures that some node has, and the nodes with these figures alone.
    """
    made = node_rows(rows)
    kept = [
        place
        for place in range(len(NODE_COLUMNS))
        if any(node.figures[place] != show.NOTHING for node in made)
    ]
    titles = list(NODE_COLUMNS)
    return (
        [titles[place] for place in kept],
        [replace(node, figures=[node.figures[place] for place in kept]) for node in made],
    )


def provenance_rows(
    points: Sequence[PointResult], rows: Sequence[dict[str, Value]]
) -> list[ProvenanceRow]:
    """What the points ran on.

    Args:
        points: Collected points.
        rows: Their flat rows, as `table.row` made them.

    Returns:
        A fact with more than one value is what may set points apart; facts that no point has are
        left out.
    """
    ran = [row for row in rows if row["host"] or row["finished_at"]]
    found = []
    for title, key in _PROVENANCE.items():
        counts = Counter(_word(row[key]) for row in ran if row[key] is not None)
        if counts:
            found.append(ProvenanceRow(title, counts.most_common()))
    return found + _variables(points)


def _variables(points: Sequence[PointResult]) -> list[ProvenanceRow]:
    """The variables that libraries read; SLURM's own differ from job to job by nature."""
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    ran = [point.record.environment.variables for point in points if point.record]
    for variables in ran:
        for name, value in variables.items():
            if not name.startswith("SLURM"):
                seen[name][value] += 1
    for counts in seen.values():
        absent = len(ran) - counts.total()
        if absent:
            counts["not set"] += absent
    return [ProvenanceRow(name, counts.most_common()) for name, counts in sorted(seen.items())]


def _reasons(rows: Sequence[dict[str, Value]], key: str) -> str:
    """NVML's reasons in words, each once, with how many of the points saw it."""
    held = [str(row[key]).split("; ") for row in rows if row[key]]
    counts = Counter(name for names in held for name in names)
    return ", ".join(
        f"{name.removeprefix('sw_').removeprefix('hw_').replace('_', ' ')} ({count})"
        for name, count in counts.most_common()
    )


def _word(value: Value) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _float(value: Value) -> float | None:
    if value is None or isinstance(value, bool | str) or not math.isfinite(value):
        return None
    return float(value)
