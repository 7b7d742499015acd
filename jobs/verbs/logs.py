"""The verb `logs`: prints the logs of points, and follows them."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from conf.verbs import Logs
from jobs.errors import InvalidValue
from jobs.files import open_regular
from jobs.status.log_search import tail_of
from jobs.status.survey import survey
from jobs.terminal.console import Console
from jobs.text import plain_text, pluralize, shell_quote
from jobs.verbs.command_line import Call
from jobs.verbs.scope import Scope


def logs(config: Logs, call: Call) -> int:
    """Print the last lines of the logs of some points; 0, or 3 if there is no log yet."""
    if config.lines < 1:
        raise InvalidValue("lines", "be at least 1", config.lines)
    out = Console()
    offsets: dict[Path, int] = {}
    for point in survey(Scope.of_call(config, call).selections, []).points:
        for path in point.logs:
            if path not in offsets:
                offsets[path] = path.stat().st_size
                if offsets[path]:
                    show_log(path, config.lines, out)
    if not offsets:
        out.print_line("No log yet: no job has started.")
        return 3
    if config.follow:
        _follow(offsets, config, call)
    return 0


def show_log(path: Path, count: int, out: Console) -> None:
    """Print the last lines of a log, and how much precedes them."""
    out.print(f"==> {path} <==", soft_wrap=True, style="bold")
    text, skipped = tail_of(path)
    lines = text.splitlines()
    if skipped:
        size = pluralize(skipped, "byte")
        out.print_line(f"[... {size} skipped; complete log: {shell_quote(path)} ...]", style="dim")
    if len(lines) > count:
        more = pluralize(len(lines) - count, "earlier line")
        out.print_line(f"[... {more}; to show them: lines={len(lines)} ...]", style="dim")
    for line in lines[-count:]:
        out.print_line(line)


def _follow(offsets: dict[Path, int], config: Logs, call: Call) -> None:
    """Print what is appended to the logs until every point has ended."""
    under_way = True
    while under_way:
        under_way = Scope.of_call(config, call).survey().under_way
        deadline = time.monotonic() + (5.0 if under_way else 0)
        while True:
            for path, offset in offsets.items():
                added, offsets[path] = read_added(path, offset)
                if added:
                    sys.stdout.write(plain_text(added.decode("utf-8", "replace")))
                    sys.stdout.flush()
            if time.monotonic() >= deadline:
                break
            time.sleep(0.2)


def read_added(path: Path, offset: int) -> tuple[bytes, int]:
    """Return what a log holds beyond an offset, and its size.

    A log that outgrew its limit has shrunk to its tail, most of which was printed before.
    """
    with open_regular(path) as handle:
        size = handle.seek(0, 2)
        if size < offset:
            return b"[... a part of this log was left out ...]\n", size
        handle.seek(offset)
        added = handle.read()
    return added, offset + len(added)
