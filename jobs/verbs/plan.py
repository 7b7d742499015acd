"""The verb `plan`: what `sweep` would start."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.sweeps.folders import runs_dir
from jobs.sweeps.labels import common_settings
from jobs.sweeps.request import PointRequest
from jobs.terminal.console import Console
from jobs.terminal.table import Table
from jobs.text import pluralize
from jobs.verbs.command_line import Call
from jobs.verbs.submit import plan_points, scheduler_of


def plan(requests: Sequence[PointRequest], call: Call) -> int:
    """Show points, scripts and hours; start nothing."""
    planned = plan_points(requests, call)
    preview = scheduler_of(planned).preview(planned.points, runs_dir(planned.config))
    out = Console()
    if planned.note:
        out.print_line(planned.note)
    table = Table("point", "what", "runs?", title="Plan")
    for point in planned.points:
        runs = "yes" if point.unsupported is None else f"UNSUPPORTED: {point.unsupported}"
        table.add_row(point.point_id, point.label, runs)
    out.print_table(table)
    out.print_line(common_settings(planned.points))
    preview.show(out)
    out.print(
        f"{pluralize(len(planned.points), 'point')}: {len(planned.runnable)} to run, "
        f"{len(planned.unsupported)} known to be unsupported; nothing was started."
    )
    for warning in preview.warnings:
        out.print_line(f"Warning: {warning}")
    if planned.runnable:
        out.print_line("Next: " + call.command.replace(" plan", " sweep", 1))
    return 0
