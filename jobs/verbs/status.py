"""The verb `status`: prints the state of every point, once or until all have ended."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.text import Text

from conf.verbs import Status
from jobs.errors import InvalidValue
from jobs.record import State
from jobs.status.point_history import PointHistory
from jobs.status.survey import Survey
from jobs.terminal.console import Console
from jobs.terminal.table import Cell, Column, Table
from jobs.text import first_line, pluralize
from jobs.verbs.command_line import Call
from jobs.verbs.scope import Scope

_DAY_S = 24 * 3600
_ATTENTION = (
    (State.ERROR, State.FAILED),
    (State.RUNNING, State.REQUEUED),
    (State.PENDING, State.PLANNED),
    (State.PASSED, State.UNSUPPORTED),
)
"""States by how much attention they need, most first."""


def status(config: Status, call: Call) -> int:
    """Print the state of every point; with `watch`, until all have ended. Returns 0."""
    out = Console()
    scope = Scope.of_call(config, call)
    if config.watch:
        if not 1 <= config.interval_s <= _DAY_S:
            constraint = f"be from 1 to {_DAY_S} (a day)"
            raise InvalidValue("interval_s", constraint, f"{config.interval_s:g}")
        _watch(scope, config.interval_s, out)
        return 0
    overview = scope.survey()
    out.print(as_table(overview, width=width_of(out)), soft_wrap=True)
    scope.show_next(overview, out)
    return 0


def _watch(scope: Scope, interval_s: float, out: Console) -> None:
    from rich.live import Live

    try:
        overview = scope.survey()
        height, width = out.size.height, width_of(out)
        with Live(as_table(overview, height, width), console=out, auto_refresh=False) as live:
            while overview.under_way:
                time.sleep(interval_s)
                overview = scope.survey()
                live.update(as_table(overview, height, width), refresh=True)
            live.update(as_table(overview, width=width))
    except KeyboardInterrupt:
        scope.show_cancel(out)
        raise


def width_of(out: Console) -> int | None:
    """Return the width of a line; None in a pipe, which gets lines of any length."""
    return out.width if out.is_terminal else None


def as_table(overview: Survey, height: int | None = None, width: int | None = None) -> Text:
    """Return a table of the points, then the totals and the notes.

    If the terminal's `height` does not hold every point, those that need attention are kept.
    Lines are cut to `width` cells.
    """
    footer = _footer(overview)
    room = len(overview.points) if height is None else height - footer.plain.count("\n") - 3
    points = _most_urgent(overview.points, room)
    table = Table(
        *(Column("point", whole=True), Column("job", whole=True), "what"),
        *(Column(name, whole=True) for name in ("state", "node", "elapsed", "cause")),
        "reason",
        one_line=True,
    )
    for point in points:
        table.add_row(*_cells(point))
    text = table.render(width).append("\n")
    if hidden := len(overview.points) - len(points):
        text.append(f"{pluralize(hidden, 'more point')}: status shows all of them\n")
    return text.append_text(footer)


def _most_urgent(points: Sequence[PointHistory], count: int) -> list[PointHistory]:
    """Return the points that need most attention, in their order."""
    ranks = {state: rank for rank, states in enumerate(_ATTENTION) for state in states}
    urgent = sorted(range(len(points)), key=lambda index: ranks[points[index].state])
    return [points[index] for index in sorted(urgent[: max(1, count)])]


def _footer(overview: Survey) -> Text:
    """Return the totals, the notes and the problems."""
    counts = ", ".join(f"{count} {state}" for state, count in sorted(overview.totals.items()))
    total = pluralize(len(overview.points), "point")
    text = Text(f"\n{total}: {counts}", no_wrap=True, overflow="ignore")
    for note in overview.notes:
        text.append(f"\nNote: {note}", style="yellow")
    for sweep in overview.sweeps:
        for problem in sweep.problems:
            text.append(f"\ndamaged: {problem.file}: {problem.what}", style="yellow")
    return text


def _cells(point: PointHistory) -> tuple[Cell | str, ...]:
    return (
        point.point_id,
        point.job_id or "",
        point.label,
        Cell.of_state(point.state),
        point.node,
        duration(point.elapsed_s),
        point.cause or "",
        first_line(point.reason),
    )


def duration(seconds: float | None) -> str:
    """Return seconds as 12 s, 3:05 min or 2:03:04 h."""
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02} h" if hours else f"{minutes}:{rest:02} min"
