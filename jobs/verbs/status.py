"""The verb `status`: prints the state of every point, once or until all have ended."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence

from rich.text import Text

from conf.verbs import Places, Status
from jobs.errors import InvalidValue
from jobs.record import State
from jobs.schedulers.registry import installed_schedulers
from jobs.status.point_history import PointHistory
from jobs.status.survey import Survey, survey
from jobs.sweeps.folders import runs_dir
from jobs.sweeps.selection import Selection, select
from jobs.terminal.console import Console
from jobs.terminal.table import Cell, Column, Table
from jobs.text import first_line, pluralize
from jobs.verbs.command_line import Call

_DAY_S = 24 * 3600
_ATTENTION = (
    (State.ERROR, State.FAILED),
    (State.RUNNING, State.REQUEUED),
    (State.PENDING, State.PLANNED),
    (State.PASSED, State.UNSUPPORTED),
)
"""States by how much attention they need, most first."""


def selected(config: Places, call: Call) -> list[Selection]:
    """Return the selections of a command's ids, by default the newest sweep."""
    return select(list(call.ids) or ["latest"], runs_dir(config))


def look(selections: Sequence[Selection]) -> Survey:
    """Survey sweeps and jobs, with the schedulers that are installed here."""
    return survey(selections, installed_schedulers())


def named(selections: Sequence[Selection], call: Call) -> str:
    """Return the selections as the next command takes them: ids and folders."""
    ids = call.ids
    if not ids or "latest" in ids:
        ids = tuple(map(str, selections))
    return shlex.join(ids) + call.places


def status(config: Status, call: Call) -> int:
    """Print the state of every point; with `watch`, until all have ended. Returns 0."""
    out = Console()
    selections = selected(config, call)
    ids = named(selections, call)
    if config.watch:
        if not 1 <= config.interval_s <= _DAY_S:
            constraint = f"be from 1 to {_DAY_S} (a day)"
            raise InvalidValue("interval_s", constraint, f"{config.interval_s:g}")
        _watch(selections, config.interval_s, ids, out)
        return 0
    overview = look(selections)
    out.print(as_table(overview, width=width_of(out)), soft_wrap=True)
    show_next(overview, ids, out)
    return 0


def _watch(selections: Sequence[Selection], interval_s: float, ids: str, out: Console) -> None:
    from rich.live import Live

    try:
        overview = look(selections)
        height, width = out.size.height, width_of(out)
        with Live(as_table(overview, height, width), console=out, auto_refresh=False) as live:
            while overview.under_way:
                time.sleep(interval_s)
                overview = look(selections)
                live.update(as_table(overview, height, width), refresh=True)
            live.update(as_table(overview, width=width))
    except KeyboardInterrupt:
        show_cancel(ids, out)
        raise


def width_of(out: Console) -> int | None:
    """Return the width of a line; None in a pipe, which gets lines of any length."""
    return out.width if out.is_terminal else None


def show_next(overview: Survey, ids: str, out: Console) -> None:
    """Print the next command: collect, unless no point has ended yet."""
    collectable = any(point.finished for point in overview.points) or not overview.under_way
    step = f"collect {ids}" if collectable else f"status {ids} watch=true"
    out.print_line(f"Next: python launch.py {step}")


def show_cancel(ids: str, out: Console) -> None:
    """Print that the jobs keep running, and how to cancel them."""
    out.print_line(f"\nThe jobs keep running. To cancel them: python launch.py cancel {ids}")


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
