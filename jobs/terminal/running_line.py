"""The line on a terminal while a point runs here: elapsed time and last progress line."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from jobs.runner.postmortem import tail
from jobs.text import first_line

if TYPE_CHECKING:
    from rich.progress import Progress

    from jobs.terminal.console import Console

_PROGRESS_LINE = re.compile(r"\[\d\d:\d\d:\d\d\] (.+)")
_PAUSE_S = 0.2


@contextlib.contextmanager
def running_line(out: Console, root: Path) -> Iterator[Callable[[], None]]:
    """Yield a function that redraws the line, to be called a few times a second.

    Nothing is drawn unless `out` is a terminal. `root` is the sweep's folder, whose newest log is
    quoted. There is no thread: points are forked, and a thread could hold a lock at that moment.
    """
    line: Progress | None = None
    last, log = 0.0, Path()

    def tick() -> None:
        nonlocal line, last, log
        if not out.is_terminal or time.monotonic() - last < _PAUSE_S:
            return
        last = time.monotonic()
        newest = newest_log(root)
        if line is None:
            line = _start(out)
        elif newest != log:
            line.reset(line.task_ids[0])
        log = newest
        line.update(line.task_ids[0], description=last_progress(log), refresh=True)

    try:
        yield tick
    finally:
        if line is not None:
            line.stop()


def _start(out: Console) -> Progress:
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), TimeElapsedColumn(), text)
    line = Progress(*columns, console=out, auto_refresh=False, transient=True)
    line.add_task("")
    line.start()
    return line


def newest_log(root: Path) -> Path:
    """Return the log that was started last; a path that does not exist if there is none."""
    logs = root.glob("*/p-*/attempt-*/output.log")
    return max(logs, key=lambda path: path.parent.stat().st_mtime, default=root / "none")


def last_progress(log: Path) -> str:
    """Return the last progress line of a log, without its time."""
    lines, _ = tail(log)
    progress = [match[1] for line in lines if (match := _PROGRESS_LINE.fullmatch(line))]
    return first_line(progress[-1]) if progress else "starting"
