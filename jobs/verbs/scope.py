"""The points that a command works on, and the commands that take the same points next."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from conf.verbs import Places
from jobs.schedulers.registry import installed_schedulers
from jobs.status.survey import Survey, survey
from jobs.sweeps.folders import runs_dir
from jobs.sweeps.ledger import Ledger
from jobs.sweeps.selection import Selection, select
from jobs.terminal.console import Console
from jobs.verbs.command_line import Call


@dataclass(frozen=True)
class Scope:
    """Selected sweeps, jobs and points.

    Attributes:
        selections: One for each id.
        ids: The same as the next command takes it: ids, and the keys that name folders.
    """

    selections: tuple[Selection, ...]
    ids: str

    @classmethod
    def of_call(cls, config: Places, call: Call) -> Scope:
        """Return what the ids of a command name, by default the newest sweep."""
        selections = tuple(select(list(call.ids) or ["latest"], runs_dir(config)))
        typed = call.ids
        if not typed or "latest" in typed:
            typed = tuple(map(str, selections))
        return cls(selections, shlex.join(typed) + call.places)

    @classmethod
    def of_sweep(cls, ledger: Ledger, call: Call) -> Scope:
        """Return all points of one sweep."""
        return cls((Selection(ledger.root),), ledger.sweep_id + call.places)

    def survey(self) -> Survey:
        """Survey the points, with the schedulers that are installed here."""
        return survey(self.selections, installed_schedulers())

    def show_next(self, overview: Survey, out: Console) -> None:
        """Print the next command: collect, unless no point has ended yet."""
        collectable = any(point.finished for point in overview.points) or not overview.under_way
        step = f"collect {self.ids}" if collectable else f"status {self.ids} watch=true"
        out.print_line(f"Next: python launch.py {step}")

    def show_cancel(self, out: Console) -> None:
        """Print that the jobs keep running, and how to cancel them."""
        command = f"python launch.py cancel {self.ids}"
        out.print_line(f"\nThe jobs keep running. To cancel them: {command}")
