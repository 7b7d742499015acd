"""Feeds what the tool reads with generated input; a mistake is one line, never a traceback.

    python -m tests.fuzz [minutes=10] [seed=0] [reader=NAME] [output=fuzz.json]

Each reader gets a turn of examples, again and again until the time is over. A reader may refuse,
by an error of `jobs.errors`; any other exception is a fault and is printed with the smallest input
that shows it. Exit code 1 if there was one.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz.command_line_readers import word_readers
from tests.fuzz.config_readers import config_readers
from tests.fuzz.ledger_readers import ledger_readers
from tests.fuzz.reader import Reader
from tests.fuzz.text_readers import text_readers
from tests.fuzz.user import User

_CHECKS = list(HealthCheck)
_ROOT = Path(__file__).resolve().parents[2]
_SHOWN = 500


@dataclass
class Count:
    """What one reader was fed.

    Attributes:
        examples: Inputs.
        refused: Inputs that it refused in its own words.
        seconds: Its turns together.
        faults: Each fault once: where it was raised, and the smallest input that led there.
        note: What the count of refusals means, where it is not plain.
    """

    examples: int = 0
    refused: int = 0
    seconds: float = 0.0
    faults: dict[str, str] = field(default_factory=dict)
    note: str = ""


def main(arguments: Sequence[str]) -> int:
    """Fuzzes for some minutes and prints a row a reader.

    Args:
        arguments: Words as `minutes=10`.

    Returns:
        0 if no input led to a fault, else 1.
    """
    given_words = dict(word.split("=", 1) for word in arguments)
    minutes = float(given_words.get("minutes", "10"))
    first_seed = int(given_words.get("seed", "0"))
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        readers = all_readers(Path(folder))
        wanted = given_words.get("reader")
        chosen = [reader for reader in readers if wanted in (None, reader.name)]
        counts = fuzz(chosen, seconds=60 * minutes, first_seed=first_seed)
    print(table(counts))
    if "output" in given_words:
        summary = {
            "command": "python -m tests.fuzz " + " ".join(arguments),
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "examples": sum(count.examples for count in counts.values()),
            "faults": sum(len(count.faults) for count in counts.values()),
            "readers": {name: asdict(count) for name, count in counts.items()},
        }
        Path(given_words["output"]).write_text(json.dumps(summary, indent=1) + "\n")
    return 1 if any(count.faults for count in counts.values()) else 0


def all_readers(folder: Path) -> list[Reader]:
    """Every reader, with a world of its own to read in.

    Args:
        folder: An empty folder; a home, sweeps and results are made in it.
    """
    user = User(folder / "user")
    return [
        *text_readers(),
        *ledger_readers(folder),
        *word_readers(user),
        *config_readers(user),
    ]


def fuzz(
    readers: Sequence[Reader], *, seconds: float, first_seed: int = 0, turns: int | None = None
) -> dict[str, Count]:
    """Gives each reader its turn until the time is over.

    Args:
        readers: Who reads.
        seconds: How long; the turn that is on then is ended.
        first_seed: The seed of the first turn; each further turn has the next.
        turns: The most turns that each gets; None: no bound.

    Returns:
        What each was fed, by its name.
    """
    counts = {reader.name: Count(note=reader.note) for reader in readers}
    for reader in readers:
        if reader.read(reader.sound):
            raise AssertionError(f"{reader.name} refuses a sound input: the benchmark is wrong")
    deadline = time.monotonic() + seconds
    turn = 0
    while time.monotonic() < deadline and turn != turns:
        for reader in readers:
            if time.monotonic() < deadline:
                take_turn(reader, counts[reader.name], first_seed + turn)
        turn += 1
    return counts


def take_turn(reader: Reader, count: Count, number: int) -> None:
    """Feeds one reader a turn of examples; a fault is noted with its smallest input.

    Args:
        reader: Who reads.
        count: What is counted.
        number: The seed.
    """
    failing: list[Any] = []

    @seed(number)
    @settings(
        max_examples=reader.turn,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=_CHECKS,
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(reader.inputs)
    def feed(value: Any) -> None:  # noqa: ANN401 - whatever the reader reads
        count.examples += 1
        try:
            count.refused += reader.read(value)
        except Exception:
            failing[:] = [value]  # shrinking ends with the smallest
            raise

    began = time.monotonic()
    try:
        feed()
    except Exception as error:
        place = _place(error)
        shown = repr(failing[0] if failing else "?")
        shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]} ..."
        if place not in count.faults:
            lines = traceback.format_exception(error, limit=-8)
            print(f"{reader.name}: {shown}\n{''.join(lines)[:5000]}", file=sys.stderr, flush=True)
        count.faults.setdefault(place, shown)
    count.seconds = round(count.seconds + time.monotonic() - began, 1)


def _place(error: Exception) -> str:
    """Where in this repository an exception arose."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(f"{_ROOT}/")]
    own = [frame for frame in own if "site-packages" not in frame.filename] or list(frames)
    where = own[-1]
    return f"{type(error).__name__}, {Path(where.filename).name}:{where.lineno}"


def table(counts: dict[str, Count]) -> str:
    """A row a reader, in Markdown."""
    lines = ["| reader | inputs | refused | seconds | faults |", "|---|---|---|---|---|"]
    for name, count in counts.items():
        figures = (count.examples, count.refused, f"{count.seconds:.0f}", len(count.faults))
        lines.append(f"| {name} | {' | '.join(map(str, figures))} |")
    return "\n".join(lines)
