"""The verb `plan`: what `sweep` would start."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.sweeps.folders import runs_dir
from jobs.sweeps.labels import common_settings
from jobs.sweeps.request import PointRequest
from jobs.terminal import screen
from jobs.terminal.tables import show_table
from jobs.text import pluralize
from jobs.verbs.command_line import Call
from jobs.verbs.submit import plan_points, scheduler_of


def plan(requests: Sequence[PointRequest], call: Call) -> int:
    """Show points, scripts and hours; start nothing."""
    planned = plan_points(requests, call)
    preview = scheduler_of(planned).preview(planned.points, runs_dir(planned.config))
    out = screen.console()
    if planned.note:
        screen.say(out, planned.note)
    table = screen.table("Plan", "point", "what", "runs?")
    for point in planned.points:
        runs = "yes" if point.unsupported is None else f"UNSUPPORTED: {point.unsupported}"
        table.add_row(point.point_id, point.label, runs)
    show_table(out, table)
    screen.say(out, common_settings(planned.points))
    preview.show(out)
    out.print(
        f"{pluralize(len(planned.points), 'point')}: {len(planned.runnable)} to run, "
        f"{len(planned.unsupported)} known to be unsupported; nothing was started."
    )
    for warning in preview.warnings:
        screen.say(out, f"Warning: {warning}")
    if planned.runnable:
        screen.say(out, "Next: " + call.command.replace(" plan", " sweep", 1))
    return 0
