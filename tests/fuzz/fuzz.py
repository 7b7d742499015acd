"""Feed generated input to everything that the tool reads; it may be refused, never fail.

    python -m tests.fuzz [minutes=10] [seed=0] [reader=NAME] [output=fuzz.json]

Each reader gets turns of examples until the time is over. It may refuse an input by an error of
`jobs.errors`; any other exception is a fault, and is printed with the smallest input that raises
it. Exit code 1 if there was one.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.fuzz.command_line_readers import command_line_readers
from tests.fuzz.config_readers import config_readers
from tests.fuzz.ledger_readers import ledger_readers
from tests.fuzz.reader import Count, Reader
from tests.fuzz.text_readers import text_readers
from tests.fuzz.user import User


def main(arguments: Sequence[str]) -> int:
    """Run the fuzzer with words like `minutes=10`; return 1 if there was a fault, else 0."""
    options = dict(word.split("=", 1) for word in arguments)
    minutes = float(options.get("minutes", "10"))
    name = options.get("reader")
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        readers = [one for one in all_readers(Path(folder)) if name in (None, one.name)]
        counts = fuzz(readers, seconds=60 * minutes, first_seed=int(options.get("seed", "0")))
    print(table(counts))
    faults = sum(len(count.faults) for count in counts.values())
    if "output" in options:
        summary = {
            "command": "python -m tests.fuzz " + " ".join(arguments),
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "examples": sum(count.examples for count in counts.values()),
            "faults": faults,
            "readers": {name: asdict(count) for name, count in counts.items()},
        }
        Path(options["output"]).write_text(json.dumps(summary, indent=1) + "\n")
    return 1 if faults else 0


def all_readers(folder: Path) -> list[Reader]:
    """Return every reader; its home, sweeps and results are created in an empty folder."""
    user = User(folder / "user")
    return [
        *text_readers(),
        *ledger_readers(folder),
        *command_line_readers(user),
        *config_readers(user),
    ]


def fuzz(
    readers: Sequence[Reader], *, seconds: float, first_seed: int = 0, turns: int | None = None
) -> dict[str, Count]:
    """Give each reader its turns until the time is over.

    Args:
        readers: The readers.
        seconds: Time limit; a turn that has started is finished.
        first_seed: Seed of the first turn; each further turn has the next.
        turns: Largest number of turns of each; None: no bound.

    Returns:
        What each reader was fed, by its name.
    """
    for reader in readers:
        if reader.read(reader.valid):
            raise AssertionError(f"{reader.name} refuses a valid input")
    counts = {reader.name: Count(note=reader.note) for reader in readers}
    deadline = time.monotonic() + seconds
    turn = 0
    while time.monotonic() < deadline and turn != turns:
        for reader in readers:
            if time.monotonic() < deadline:
                counts[reader.name].take_turn(reader, first_seed + turn)
        turn += 1
    return counts


def table(counts: dict[str, Count]) -> str:
    """Return a Markdown table with a row for each reader."""
    lines = ["| reader | inputs | refused | seconds | faults |", "|---|---|---|---|---|"]
    for name, count in counts.items():
        figures = (count.examples, count.refused, f"{count.seconds:.0f}", len(count.faults))
        lines.append(f"| {name} | {' | '.join(map(str, figures))} |")
    return "\n".join(lines)
