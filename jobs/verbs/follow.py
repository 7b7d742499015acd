"""`wait=true`: follows submitted points to their end, with a line for each as it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rich.text import Text

from jobs.status.point_history import PointHistory
from jobs.status.survey import Survey
from jobs.terminal.console import Console
from jobs.terminal.table import Cell
from jobs.text import first_line, pluralize
from jobs.verbs.scope import Scope
from jobs.verbs.status import as_table, width_of

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 15.0

Retry = Callable[[Sequence[PointHistory]], bool]
"""Submits points again if they should be retried, and returns True if it did."""
_End = tuple[str, str | None, int]
"""Point, job and number of attempts: what distinguishes one end of a point from another."""


def follow(scope: Scope, out: Console, retry: Retry | None = None) -> Survey:
    """Wait until no point is under way, and return the last survey.

    `retry` is called with all ended points each time that one has ended.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    shown: dict[str, _End] = {}
    explained: set[str] = set()
    pause = FIRST_PAUSE_S
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    try:
        with Progress(*columns, console=out, disable=not out.is_terminal) as progress:
            bar = progress.add_task("points", total=None)
            while True:
                survey = scope.survey()
                ended = [point for point in survey.points if point.finished]
                fresh = [point for point in ended if shown.get(point.point_id) != _end(point)]
                for line in _advice(survey.points, explained):
                    progress.console.print(line)
                for point in fresh:
                    shown[point.point_id] = _end(point)
                    progress.console.print(_line(point, len(shown), len(survey.points)))
                progress.update(bar, total=len(survey.points), completed=len(ended))
                again = bool(fresh) and retry is not None and retry(ended)
                if not survey.under_way and not again:
                    break
                pause = FIRST_PAUSE_S if fresh else min(LONGEST_PAUSE_S, pause * 1.3)
                time.sleep(pause)
    except KeyboardInterrupt:
        scope.show_cancel(out)
        raise
    out.print(as_table(survey, width=width_of(out)), soft_wrap=True)
    return survey


def _advice(points: Sequence[PointHistory], explained: set[str]) -> list[Text]:
    """Return a line for each new reason for which points wait and that needs user action."""
    waiting: dict[str, list[PointHistory]] = {}
    for point in points:
        if not point.finished and point.task_state is not None and point.task_state.advice():
            waiting.setdefault(point.reason, []).append(point)
    fresh = {reason: group for reason, group in waiting.items() if reason not in explained}
    explained.update(fresh)
    return [
        Text(f"Waiting: {pluralize(len(group), 'point')}, {group[0].state}: {reason}")
        for reason, group in fresh.items()
    ]


def _end(point: PointHistory) -> _End:
    return point.point_id, point.job_id, len(point.attempts)


def _line(point: PointHistory, number: int, total: int) -> Text:
    line = Text(f"[{number}/{total}] {point.label}  ")
    line.append(*Cell.of_state(point.state))
    cause = f" ({point.cause})" if point.cause else ""
    return line.append(f"{cause}  {first_line(point.reason)}")
