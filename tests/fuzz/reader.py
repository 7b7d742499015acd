"""A reader of the tool, and the count of what it was fed."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

_ROOT = Path(__file__).resolve().parents[2]
_MAX_SHOWN = 500


@dataclass(frozen=True)
class Reader:
    """One thing that the tool reads.

    Attributes:
        name: Name in the table.
        inputs: Strategy of its inputs.
        read: Reads one input and returns True if the tool refused it by an error of its own;
            raises anything else if the tool fails.
        turn: Number of examples in a turn.
        valid: An input that must not be refused.
        note: Meaning of the count of refusals, if it is not obvious.
    """

    name: str
    inputs: SearchStrategy[Any]
    read: Callable[[Any], bool]
    turn: int
    valid: Any
    note: str = ""


@dataclass
class Count:
    """What one reader was fed.

    Attributes:
        examples: Number of inputs.
        refused: Number of inputs that it refused.
        seconds: Duration of its turns.
        faults: Smallest input of each fault, by the place in the code that raised it.
        note: The reader's note.
    """

    examples: int = 0
    refused: int = 0
    seconds: float = 0.0
    faults: dict[str, str] = field(default_factory=dict)
    note: str = ""

    def take_turn(self, reader: Reader, number: int) -> None:
        """Feed the reader a turn of examples, generated from the seed `number`."""
        failing: list[Any] = []

        @seed(number)
        @settings(
            max_examples=reader.turn,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
            print_blob=False,
        )
        @given(reader.inputs)
        def feed(value: Any) -> None:  # noqa: ANN401 - whatever the reader reads
            self.examples += 1
            try:
                self.refused += reader.read(value)
            except Exception:
                failing[:] = [value]  # shrinking ends with the smallest
                raise

        start = time.monotonic()
        try:
            feed()
        except Exception as error:
            shown = repr(failing[0] if failing else "?")
            shown = shown if len(shown) <= _MAX_SHOWN else f"{shown[:_MAX_SHOWN]} ..."
            if (place := _place(error)) not in self.faults:
                lines = "".join(traceback.format_exception(error, limit=-8))
                print(f"{reader.name}: {shown}\n{lines[:5000]}", file=sys.stderr, flush=True)
                self.faults[place] = shown
        self.seconds = round(self.seconds + time.monotonic() - start, 1)


def _place(error: Exception) -> str:
    """Return the innermost line of this repository that raised an exception."""
    frames = list(traceback.extract_tb(error.__traceback__))
    own = [
        frame
        for frame in frames
        if frame.filename.startswith(f"{_ROOT}/") and "site-packages" not in frame.filename
    ]
    frame = (own or frames)[-1]
    return f"{type(error).__name__}, {Path(frame.filename).name}:{frame.lineno}"
