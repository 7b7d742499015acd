"""A row of the fault matrix: what is injected, and what has to be told.

A test is made a row by `@fault(...)` (or `pytest.param(..., marks=fault(...))`). It injects the
fault, reads what a user would read, and hands that to the fixture `tell`, which compares. The page
`docs/faults.md` is rendered from the rows; nothing else is written by hand.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import Enum

import pytest

from jobs.record import INFRASTRUCTURE_CAUSES, Cause


class Part(Enum):
    """Where a fault strikes; the page has a table for each."""

    point = "in the point"
    job = "in the job"
    around = "around it"
    security = "from a hostile hand"


class Place(Enum):
    """What stands behind a row."""

    slurm = "real SLURM"
    machine = "this machine"
    constructed = "constructed answer"
    gpu = "GPU only"


@dataclass(frozen=True)
class Row:
    """One fault and what has to be told of it.

    Attributes:
        part: Where it strikes.
        fault: What happens, in a few words: the row's name.
        told: An outcome or state for the point (PASSED, ERROR, RUNNING, ...), or `refused`.
        quotes: Words that must stand in what the user reads.
        cause: The cause of an ERROR.
        retried: Whether `launch.retries=1` submits it again; None where nothing is decided.
        code: The exit code of the command that tells it.
        place: What the fault is injected into.
        slow: Left to `make faults`; `make test` runs the others.
        note: What a reader of the table has to know besides.
    """

    part: Part
    fault: str
    told: str
    quotes: str
    cause: Cause | None
    retried: bool | None
    code: int
    place: Place
    slow: bool
    note: str

    def differences(self, told: Told) -> list[str]:
        """Each thing that was told otherwise than this row says; empty if all is right."""
        cause = self.cause.value if self.cause else None
        compared = (
            ("told", self.told, told.told),
            ("cause", cause, told.cause),
            ("retried", self.retried, told.retried),
            ("exit code", self.code, told.code),
            ("lost", 0, told.lost),
        )
        found = [f"{name}: {due!r}, got {seen!r}" for name, due, seen in compared if due != seen]
        if self.quotes not in told.text:
            found.append(f"quotes: {self.quotes!r}, not in: {told.text!r}")
        return found


@dataclass(frozen=True)
class Told:
    """What the tool said of an injected fault.

    Attributes:
        told: The point's outcome or state, or `refused`.
        text: All that the user reads of it: reason, evidence, what stood on the screen.
        cause: The cause of an ERROR, as the table shows it.
        retried: Whether it was submitted again under `launch.retries=1`; None if not asked.
        code: The command's exit code.
        lost: Good records or planned points that cannot be accounted for any more.
    """

    told: str
    text: str
    cause: str | None = None
    retried: bool | None = None
    code: int = 0
    lost: int = 0


ROWS: dict[str, Row] = {}
"""Every row by its name; those of one test module in their order."""
MODULE_OF: dict[str, str] = {}
"""The test module of each row, by the row's name."""


def fault(
    part: Part,
    fault: str,
    *,
    told: str,
    quotes: str,
    code: int,
    cause: Cause | None = None,
    retried: bool | None = None,
    place: Place = Place.slurm,
    slow: bool = False,
    note: str = "",
) -> pytest.MarkDecorator:
    """Makes a test a row of the matrix; see `Row` for the arguments.

    Raises:
        ValueError: Two rows have one name, or a row contradicts the rule of retries.
    """
    if fault in ROWS:
        raise ValueError(f"two rows are named {fault!r}")
    if retried is not None and retried != (cause in INFRASTRUCTURE_CAUSES):
        raise ValueError(f"{fault!r}: only infrastructure causes are tried again, got {cause}")
    row = Row(part, fault, told, quotes, cause, retried, code, place, slow, note)
    ROWS[fault] = row
    MODULE_OF[fault] = str(sys._getframe(1).f_globals["__name__"])
    return pytest.mark.fault(row)
