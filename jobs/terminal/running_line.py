"""What a terminal shows while a point runs here: for how long, and the last that its log said."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from jobs.runner.postmortem import tail
from jobs.terminal import screen

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from jobs.sweeps.ledger import Ledger

_SAID = re.compile(r"\[\d\d:\d\d:\d\d\] (.+)")
_PAUSE_S = 0.2


@contextlib.contextmanager
def running_line(out: Console, ledger: Ledger) -> Iterator[Callable[[], None]]:
    """Shows one line, rewritten in place, as long as the context lasts; nothing off a terminal.

    No thread draws it: points are started by forks, and a thread could hold a lock meanwhile.

    Args:
        out: Where it is shown.
        ledger: Whose newest log is quoted.

    Yields:
        To be called a few times a second.
    """
    if not out.is_terminal:
        yield lambda: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    last, newest = 0.0, Path()
    with Progress(*columns, console=out, auto_refresh=False, transient=True) as progress:
        task = progress.add_task("")

        def tick() -> None:
            nonlocal last, newest
            if time.monotonic() - last < _PAUSE_S:
                return
            last = time.monotonic()
            log = newest_log(ledger)
            if log != newest:
                newest = log
                progress.reset(task)
            progress.update(task, description=last_said(log), refresh=True)

        yield tick


def newest_log(ledger: Ledger) -> Path:
    """The log that was begun last; one that does not exist where there is none."""
    logs = ledger.root.glob("local-*/p-*/attempt-*/output.log")
    return max(logs, key=lambda path: path.parent.stat().st_mtime, default=ledger.root / "none")


def last_said(log: Path) -> str:
    """The last line of a log in which the node says what it has done, without its time."""
    lines, _ = tail(log)
    said = [found[1] for line in lines if (found := _SAID.fullmatch(line))]
    return screen.short(screen.harmless(said[-1])) if said else "starting"
