"""Plot of clock, power and temperature of each node while its points ran."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from jobs.collect.points_table import median
from jobs.record import Record
from jobs.report.plots.figure import BAD, Figure, Plot, color_of, draw_marks
from jobs.report.plots.series import finite
from jobs.status.point_result import PointResult
from jobs.text import plain_text

_MAX_NODES = 24
_PANELS = {
    "sm_clock_mhz": "SM clock (MHz)",
    "power_watt": "power (W)",
    "temperature_celsius": "temperature (°C)",
}


@dataclass(frozen=True)
class _Telemetry:
    """Medians of one point while it was timed."""

    medians: dict[str, float]
    throttled: bool

    @classmethod
    def of(cls, record: Record) -> _Telemetry:
        during = [sample for sample in record.telemetry if sample.when == "during"]
        medians = {name: median([getattr(s, name) for s in during]) for name in _PANELS}
        finite_medians = {k: v for k, v in medians.items() if v is not None and finite(v)}
        return cls(finite_medians, any(sample.throttled for sample in during))


def nodes_plot(points: Iterable[PointResult], folder: Path) -> Plot | None:
    """Plot the telemetry of each point by node; None if there is none."""
    by_host: dict[str, list[_Telemetry]] = defaultdict(list)
    for point in points:
        if point.record is not None and (telemetry := _Telemetry.of(point.record)).medians:
            by_host[plain_text(point.record.environment.host or "unknown")].append(telemetry)
    if not by_host:
        return None
    hosts = sorted(by_host)[:_MAX_NODES]
    height = 1.1 + 0.28 * len(hosts)
    figure = Figure(7.6, height, columns=3)
    for axis, (name, title) in zip(figure.axes, _PANELS.items(), strict=True):
        for throttled, color, marker in ((False, color_of("mxfp8"), "o"), (True, BAD, "x")):
            places = [
                (telemetry.medians[name], row)
                for row, host in enumerate(hosts)
                for telemetry in by_host[host]
                if telemetry.throttled is throttled and name in telemetry.medians
            ]
            draw_marks(axis, places, marker=marker, color=color, alpha=0.7)
        axis.set_title(title)
        axis.set_ylim(len(hosts) - 0.5, -0.5)
        axis.set_yticks(range(len(hosts)), hosts if axis is figure.axes[0] else [""] * len(hosts))
        axis.margins(x=0.15)
    figure.canvas.subplots_adjust(
        left=0.12, right=0.98, top=1 - 0.35 / height, bottom=0.4 / height, wspace=0.12
    )
    caption = (
        "Medians while each point was timed. A node that differs from the others may explain a "
        "slow point; a cross marks throttled points."
    )
    if len(by_host) > len(hosts):
        caption += f" Nodes not plotted: {len(by_host) - len(hosts)}; the table lists them."
    return figure.save("nodes", "Nodes during the measurement", caption, folder)
