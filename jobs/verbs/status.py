"""The verbs `status` and `logs`: where every point stands, and what its job prints."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence

from rich.text import Text

from conf.verbs import Places, Status
from jobs.errors import UsageError
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


def selected(config: Places, call: Call) -> list[Selection]:
    """What the ids of a command mean; the newest sweep where none were given."""
    return select(list(call.ids) or ["latest"], runs_dir(config))


def look(selections: Sequence[Selection]) -> Survey:
    """Surveys sweeps and jobs, asking SLURM where there is one."""
    return survey(selections, installed_schedulers())


def status(config: Status, call: Call) -> int:
    """Shows where every point stands; with `watch` until all have ended.

    Args:
        config: Whether and how often it is shown again.
        call: Any ids; none: the newest sweep.

    Returns:
        0.
    """
    out = Console()
    selections = selected(config, call)
    if not config.watch:
        seen = look(selections)
        out.print(as_table(seen, width=width_of(out)), soft_wrap=True)
        show_next(seen, named(selections, call), out)
        return 0
    if not 1 <= config.interval_s <= _DAY_S:
        raise UsageError(f"interval_s must be 1 to {_DAY_S}, a day, got {config.interval_s:g}")
    _watch(selections, config.interval_s, named(selections, call), out)
    return 0


def _watch(selections: Sequence[Selection], interval_s: float, ids: str, out: Console) -> None:
    from rich.live import Live

    try:
        seen = look(selections)
        height, width = out.size.height, width_of(out)
        with Live(as_table(seen, height, width), console=out, auto_refresh=False) as live:
            while seen.under_way:
                time.sleep(interval_s)
                seen = look(selections)
                live.update(as_table(seen, height, width), refresh=True)
            live.update(as_table(seen, width=width))
    except KeyboardInterrupt:
        show_cancel(ids, out)
        raise


def width_of(out: Console) -> int | None:
    """How wide a line may be: a pipe gets every line whole."""
    return out.width if out.is_terminal else None


def show_next(seen: Survey, ids: str, out: Console) -> None:
    """Says what to do next: nothing can be collected before a point has ended."""
    ended = any(row.finished for row in seen.points)
    step = f"collect {ids}" if ended or not seen.under_way else f"status {ids} watch=true"
    out.print_line(f"Next: python launch.py {step}")


def show_cancel(ids: str, out: Console) -> None:
    """Says that the jobs go on, and how to end them."""
    out.print_line(f"\nThe jobs go on. To end them: python launch.py cancel {ids}")


def named(selections: Sequence[Selection], call: Call) -> str:
    """What was selected, as the next command takes it: ids, and where they lie."""
    ids = call.ids
    if not ids or "latest" in ids:
        ids = tuple(str(one.target or one.folder.name) for one in selections)
    return shlex.join(ids) + call.places


def as_table(seen: Survey, height: int | None = None, width: int | None = None) -> Text:
    """Return a table of the points, then the totals and the notes.

    Args:
        seen: The points.
        height: Lines of the terminal; if they do not hold every point, those that need attention
            are kept.
        width: Cells of a line; longer lines are cut.
    """
    below = _below(seen)
    room = len(seen.points) if height is None else height - below.plain.count("\n") - 3
    shown = _worth_most(seen.points, room)
    table = Table(
        *(Column("point", whole=True), Column("job", whole=True), "what"),
        *(Column(name, whole=True) for name in ("state", "node", "elapsed", "cause")),
        "reason",
        one_line=True,
    )
    for point in shown:
        table.add_row(*_cells(point))
    text = table.render(width).append("\n")
    if left_out := len(seen.points) - len(shown):
        text.append(f"{pluralize(left_out, 'more point')}: status shows every one\n")
    return text.append_text(below)


def _worth_most(rows: Sequence[PointHistory], count: int) -> list[PointHistory]:
    """The rows that say most of how a sweep goes, in their order."""
    worth = {"ERROR": 0, "FAILED": 0, "RUNNING": 1, "REQUEUED": 1, "PENDING": 2, "PLANNED": 2}
    ranked = sorted(range(len(rows)), key=lambda index: worth.get(rows[index].state, 3))
    return [rows[index] for index in sorted(ranked[: max(1, count)])]


def _below(seen: Survey) -> Text:
    """The totals and the notes."""
    counts = ", ".join(f"{count} {state}" for state, count in sorted(seen.totals.items()))
    text = Text(
        f"\n{pluralize(len(seen.points), 'point')}: {counts}", no_wrap=True, overflow="ignore"
    )
    for note in seen.notes:
        text.append(f"\nNote: {note}", style="yellow")
    for sweep in seen.sweeps:
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
    """Seconds as people read them: 12 s, 3:05 min, 2:03:04 h."""
    if seconds is None:
        return ""
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    if minutes == 0:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02} h" if hours else f"{minutes}:{rest:02} min"
