"""What the login side costs: whole commands in fresh processes, in seconds.

    python -m benchmarks.login

prints one row a command: the median of five, the fastest, the processor's own time (which a busy
machine does not stretch), the target, and the command itself.
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
    """One command and what it may cost.

    Attributes:
        what: What it does, in a few words.
        words: What is typed after `python`.
        target_s: Seconds that it should cost at most on two cores.
    """

    what: str
    words: tuple[str, ...]
    target_s: float

    @property
    def typed(self) -> str:
        """The command as a shell takes it."""
        return shlex.join(["python", *self.words])


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
    """What one run cost.

    Attributes:
        wall_s: Seconds on the wall clock.
        cpu_s: Seconds of processor time, of the command and all it started.
    """

    wall_s: float
    cpu_s: float


def measure(command: Command) -> list[Cost]:
    """Runs a command a few times, after one run that fills the caches.

    Args:
        command: What is run, in the checkout.

    Returns:
        The cost of each run but the first.

    Raises:
        subprocess.CalledProcessError: It failed; then its time means nothing.
    """
    costs = []
    for _ in range(REPEATS + 1):
        cpu_before, started = _cpu_s(), time.perf_counter()
        subprocess.run(
            [sys.executable, *command.words],
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
    """Measures every command and prints a table in Markdown."""
    print(f"| what | median of {REPEATS}, s | fastest, s | CPU, s | target, s | command |")
    print("|---|---|---|---|---|---|")
    for command in COMMANDS:
        costs = measure(command)
        walls = [cost.wall_s for cost in costs]
        cpu_s = statistics.median(cost.cpu_s for cost in costs)
        figures = f"{statistics.median(walls):.2f} | {min(walls):.2f} | {cpu_s:.2f}"
        print(f"| {command.what} | {figures} | {command.target_s:g} | `{command.typed}` |")


if __name__ == "__main__":
    main()
