"""Cost of the login side: whole commands in fresh processes, in seconds.

    python -m benchmarks.login

prints a row per command: the median of five runs, the fastest, the CPU time (which does not depend
on other load), the target, and the command.
"""

from __future__ import annotations

import resource
import shlex
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
REPEATS = 5


@dataclass(frozen=True)
class Command:
    """One command, its arguments after `python`, and its target on two cores."""

    name: str
    arguments: tuple[str, ...]
    target_s: float

    @property
    def shell_text(self) -> str:
        """The command as typed in a shell."""
        return shlex.join(["python", *self.arguments])


COMMANDS = (
    Command("help", ("launch.py", "--help"), 1.0),
    Command(
        "plan of 100 points",
        (
            "launch.py",
            "plan",
            "recipe=bf16,mxfp8",
            "shape.projection=fused,split",
            "shape.seq_len=range(128,3328,128)",
        ),
        5.0,
    ),
)


@dataclass(frozen=True)
class Cost:
    """Wall-clock time of a run, and CPU time of it and its children."""

    wall_s: float
    cpu_s: float


def measure(command: Command) -> list[Cost]:
    """Run a command a few times in the checkout, and return the costs without the first run.

    Raises:
        subprocess.CalledProcessError: The command failed.
    """
    costs = []
    for _ in range(REPEATS + 1):
        cpu_before, started = _cpu_s(), time.perf_counter()
        subprocess.run(
            [sys.executable, *command.arguments],
            cwd=CHECKOUT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        costs.append(Cost(time.perf_counter() - started, _cpu_s() - cpu_before))
    return costs[1:]


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure every command, and print a Markdown table."""
    print(f"| command | median of {REPEATS}, s | fastest, s | CPU, s | target, s | typed as |")
    print("|---|---|---|---|---|---|")
    for command in COMMANDS:
        costs = measure(command)
        walls = [cost.wall_s for cost in costs]
        cpu_s = statistics.median(cost.cpu_s for cost in costs)
        figures = f"{statistics.median(walls):.2f} | {min(walls):.2f} | {cpu_s:.2f}"
        print(f"| {command.name} | {figures} | {command.target_s:g} | `{command.shell_text}` |")


if __name__ == "__main__":
    main()
