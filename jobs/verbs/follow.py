"""`wait=true`: follows submitted points to their end, a line for each as it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.text import Text

from jobs.schedulers.slurm.reasons import advice
from jobs.status.point_history import PointHistory
from jobs.status.survey import Survey
from jobs.sweeps.selection import Selection
from jobs.terminal import screen
from jobs.text import pluralize
from jobs.verbs.status import as_table, look, show_cancel, width_of

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 15.0

Retry = Callable[[Sequence[PointHistory]], bool]
"""Submits ended points again where that is wanted; whether it did."""


def follow(
    selections: Sequence[Selection], ids: str, out: Console, retry: Retry | None = None
) -> Survey:
    """Waits until no point is under way any more.

    Args:
        selections: What is waited for.
        ids: The same as `cancel` takes it.
        out: Where progress is shown: a bar on a terminal, a line for each point anywhere.
        retry: Asked with all rows each time that a point has ended.

    Returns:
        The last survey.

    Raises:
        KeyboardInterrupt: Passed on, after it was said that the jobs go on.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    shown: dict[str, tuple[str, str | None, int]] = {}
    helped: set[str] = set()
    pause = FIRST_PAUSE_S
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    try:
        with Progress(*columns, console=out, disable=not out.is_terminal) as progress:
            bar = progress.add_task("points", total=None)
            while True:
                seen = look(selections)
                ended = [row for row in seen.points if row.finished]
                fresh = [row for row in ended if shown.get(row.point_id) != _key(row)]
                for line in _waits(seen.points, helped):
                    progress.console.print(line)
                for row in fresh:
                    shown[row.point_id] = _key(row)
                    progress.console.print(_line(row, len(shown), len(seen.points)))
                progress.update(bar, total=len(seen.points), completed=len(ended))
                again = bool(fresh) and retry is not None and retry(ended)
                if not seen.under_way and not again:
                    break
                pause = FIRST_PAUSE_S if fresh else min(LONGEST_PAUSE_S, pause * 1.3)
                time.sleep(pause)
    except KeyboardInterrupt:
        show_cancel(ids, out)
        raise
    out.print(as_table(seen, width=width_of(out)), soft_wrap=True)
    return seen


def _waits(rows: Sequence[PointHistory], told: set[str]) -> list[Text]:
    """A line for each reason, not told yet, for which points wait that need somebody's help."""
    waiting: dict[str, list[PointHistory]] = {}
    for row in rows:
        if not row.finished and row.task_state is not None and advice(row.task_state):
            waiting.setdefault(row.reason, []).append(row)
    fresh = {reason: those for reason, those in waiting.items() if reason not in told}
    told.update(fresh)
    return [
        Text(
            f"Waits: {pluralize(len(those), 'point')}, {those[0].state}: {screen.harmless(reason)}"
        )
        for reason, those in fresh.items()
    ]


def _key(point: PointHistory) -> tuple[str, str | None, int]:
    return point.point_id, point.job_id, len(point.attempts)


def _line(row: PointHistory, number: int, total: int) -> Text:
    point = row
    line = Text(f"[{number}/{total}] {screen.harmless(row.label)}  ")
    line.append_text(screen.styled(point.state))
    cause = f" ({point.cause})" if point.cause else ""
    return line.append(f"{cause}  {screen.short(screen.harmless(point.reason))}")
