"""The report's table of nodes: telemetry and fingerprints, as medians over their points."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from jobs.collect.points_table import median
from jobs.report import text as show
from jobs.report.entry import Entry

_COLUMNS = {
    "SM clock (MHz)": "sm_clock_mhz_during",
    "Power (W)": "power_watt_during",
    "Temperature (°C)": "temperature_celsius_during",
    "Copy (GB/s)": "probe_copy_gb_per_s",
    "BF16 matmul (TFLOP/s)": "probe_bf16_matmul_tflops",
}


@dataclass(frozen=True)
class NodeRow:
    """One node with its points."""

    host: str
    gpu: str
    entries: list[Entry]
    titles: list[str]

    @property
    def points(self) -> int:
        """Number of points."""
        return len(self.entries)

    @property
    def figures(self) -> list[str]:
        """Median of each column."""
        columns = (_COLUMNS[title] for title in self.titles)
        return [
            show.number(median([e.number(column) for e in self.entries])) for column in columns
        ]

    @property
    def throttled(self) -> str:
        """Reasons for throttling."""
        return self._reasons("throttle_reasons", "no")

    @property
    def limits(self) -> str:
        """Other reasons for reduced clocks."""
        return self._reasons("clock_limits", "nothing")

    def _reasons(self, column: str, none: str) -> str:
        """Return NVML's reasons, each with its number of points."""
        values = [entry.text(column) for entry in self.entries]
        counts = Counter(name for value in values if value for name in value.split("; "))
        if not counts and all(e.row["sm_clock_mhz_during"] is None for e in self.entries):
            return show.NOTHING  # there was no telemetry
        names = {
            name: name.removeprefix("sw_").removeprefix("hw_").replace("_", " ") for name in counts
        }
        reasons = (f"{names[name]} ({count})" for name, count in counts.most_common())
        return ", ".join(reasons) or none


def node_table(entries: Sequence[Entry]) -> tuple[list[str], list[NodeRow]]:
    """Return the titles of the columns that have values, and the nodes by name."""
    by_node: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        if host := entry.text("host"):
            by_node[host, entry.text("gpu_name") or "no GPU"].append(entry)
    on_nodes = [entry for points in by_node.values() for entry in points]
    titles = [
        title
        for title, column in _COLUMNS.items()
        if any(entry.number(column) is not None for entry in on_nodes)
    ]
    return titles, [NodeRow(*name, points, titles) for name, points in sorted(by_node.items())]
