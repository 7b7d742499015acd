"""A row of the fault matrix: a fault, and how the tool has to report it.

`@fault(...)` (or `pytest.param(..., marks=fault(...))`) makes a test a row. The test injects the
fault, reads what a user would read and hands that `Report` to the fixture `check`, which compares
it with the row. `docs/faults.md` is rendered from the rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import pytest

from jobs.record import INFRASTRUCTURE_CAUSES, Cause, State


class Part(Enum):
    """Where a fault strikes; each has a table in the page."""

    point = "In the point"
    job = "In the job"
    around = "Around the jobs"
    security = "Hostile input"


class Place(Enum):
    """What a fault is injected into."""

    slurm = "real SLURM"
    machine = "this machine"
    constructed = "simulated"
    gpu = "GPU only"


REFUSED = "refused"
"""What a row reports if the command was refused and nothing was done."""

_EXIT_CODES = {"PASSED": 0, "PLANNED": 0, "FAILED": 1, "ERROR": 1, REFUSED: 2}


@dataclass(frozen=True)
class Row:
    """One fault and how it has to be reported.

    Attributes:
        part: Where it strikes.
        fault: What happens, in a few words: the row's name.
        reported: Outcome or state of the point (PASSED, ERROR, RUNNING, ...), or REFUSED.
        cause: Cause of an ERROR.
        names: What the report has to name: a file, a key, a command, a state of SLURM, or the
            message of another program; never a sentence of this tool.
        retried: True if `launch.retries=1` submits the point again; None if that is not tested.
        code: Exit code of the command that reports it.
        place: What the fault is injected into.
        slow: Run by `make faults`, but not by `make test`.
        note: A remark for the reader of the page.
        module: Test module that holds the row.
    """

    part: Part
    fault: str
    reported: str
    cause: Cause | None
    names: tuple[str, ...]
    retried: bool | None
    code: int
    place: Place
    slow: bool
    note: str
    module: str

    def differences(self, report: Report) -> dict[str, tuple[object, object]]:
        """Return expected and actual value of each field that differs, by its name."""
        compared = {
            "reported": (self.reported, report.state),
            "cause": (self.cause.value if self.cause else None, report.cause),
            "retried": (self.retried, report.retried),
            "code": (self.code, report.code),
            "lost": (0, report.lost),
        }
        differing = {name: pair for name, pair in compared.items() if pair[0] != pair[1]}
        missing = [name for name in self.names if name not in report.text]
        return differing | ({"names": (missing, report.text)} if missing else {})


@dataclass(frozen=True)
class Report:
    """How the tool reported an injected fault.

    Attributes:
        state: Outcome or state of the point, or REFUSED.
        text: All that the user reads: reason, evidence, output of the commands.
        cause: Cause of an ERROR, as in the table of points.
        retried: True if the point was submitted again; None if that is not tested.
        code: Exit code of the command.
        lost: Number of good records or planned points that are missing from the collection.
    """

    state: str
    text: str = ""
    cause: str | None = None
    retried: bool | None = None
    code: int = 0
    lost: int = 0


Check = Callable[[Report], None]
"""Type of the fixture `check`, which compares a report with the row of its test."""

ROWS: dict[str, Row] = {}
"""Every row by its name."""


def fault(
    part: Part,
    fault: str,
    reported: str,
    cause: Cause | None = None,
    *,
    names: str | tuple[str, ...] = (),
    retried: bool | None = None,
    code: int | None = None,
    place: Place = Place.slurm,
    slow: bool = False,
    note: str = "",
) -> pytest.MarkDecorator:
    """Make a test a row of the matrix; see `Row` for the arguments.

    Raises:
        ValueError: Two rows have one name, a state does not exist, or a row contradicts the rule
            of retries.
    """
    if reported != REFUSED:
        State(reported)
    if fault in ROWS:
        raise ValueError(f"two rows are named {fault!r}")
    if retried is not None and retried != (cause in INFRASTRUCTURE_CAUSES):
        raise ValueError(f"{fault!r}: only infrastructure causes are retried, got {cause}")
    named = (names,) if isinstance(names, str) else names
    exit_code = _EXIT_CODES.get(reported, 3) if code is None else code
    module = str(sys._getframe(1).f_globals["__name__"])
    row = Row(part, fault, reported, cause, named, retried, exit_code, place, slow, note, module)
    ROWS[fault] = row
    return pytest.mark.fault(row)
