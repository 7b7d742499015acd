"""The sweeps of a soak: small ones of stand-in points, each with an expected end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from jobs.sweeps.planned_point import PlannedPoint
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.launching import FAST

GOOD = frozenset({"PASSED", "FAILED", "UNSUPPORTED"})
EXPECTED: dict[int, tuple[str, str | None]] = {
    node.PASS: ("PASSED", None),
    node.SLOW_PASS: ("PASSED", None),
    node.FAIL: ("FAILED", None),
    node.UNSUPPORTED: ("UNSUPPORTED", None),
    node.RAISES: ("ERROR", "exception"),
    node.EXITS_0: ("ERROR", "exception"),
    node.EXITS_3: ("ERROR", "exception"),
    node.SEGFAULT: ("ERROR", "crashed"),
    node.KILLED: ("ERROR", "crashed"),
    node.HANGS: ("ERROR", "timeout"),
}
"""State and cause of each act of a point that nothing else disturbs."""

ACT_NAMES = {
    node.FAIL: "a number missed its gate",
    node.UNSUPPORTED: "unsupported",
    node.RAISES: "exception",
    node.EXITS_0: "exit 0",
    node.EXITS_3: "exit 3",
    node.SEGFAULT: "SIGSEGV",
    node.KILLED: "SIGKILL",
    node.HANGS: "hang",
}
"""Names of the acts that are faults, as in the summary."""

_WEIGHTS = {node.PASS: 6, node.SLOW_PASS: 8} | dict.fromkeys(ACT_NAMES, 1)
_STEP = 100  # the last two digits of a seed are its act
_LIMIT_S = 8
_OPTIONS = (
    (0.15, ("wait=true", "launch.retries=1")),
    (0.1, ("launch.max_parallel=2",)),
    (0.05, ("launch.snapshot=true",)),
    (0.1, ("recipe=mxfp8,fp8_current",)),  # every second point is unsupported
)


def act_of(planned: PlannedPoint) -> int:
    """Return the act of a planned point; one that is known to be unsupported is not run."""
    if planned.unsupported is not None:
        return node.UNSUPPORTED
    return int(planned.config["shape"]["seed"]) % _STEP


@dataclass(frozen=True)
class SweepCommand:
    """One `sweep` command.

    Attributes:
        words: Its words after the verb.
        seeds: `shape.seed` of each point; no two sweeps of a soak share one.
    """

    words: tuple[str, ...]
    seeds: tuple[int, ...]


class Planner:
    """Generates sweeps; `rng` decides their sizes and acts, `python` is the stand-in."""

    def __init__(self, rng: Random, python: str) -> None:
        self._rng = rng
        self._python = python
        self._count = 0

    def next(self) -> SweepCommand:
        """Return another sweep of three to ten points."""
        rng = self._rng
        acts = rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()), k=rng.randint(3, 10))
        seeds = tuple(self._seed(act) for act in acts)
        words = [
            *("cluster=slurm", f"cluster.python={self._python}", *FAST),
            f"shape.seed={','.join(map(str, seeds))}",
            f"launch.points_per_job={rng.randint(1, 4)}",
        ]
        if node.HANGS in acts:
            words.append(f"launch.point_time_limit_s={_LIMIT_S}")
        for chance, more in _OPTIONS:
            if rng.random() < chance:
                words += more
        return SweepCommand(tuple(words), seeds)

    def _seed(self, act: int) -> int:
        self._count += 1
        return self._count * _STEP + act


def act_counts(seeds: Sequence[int]) -> dict[str, int]:
    """Count the points whose act is a fault, by its name."""
    counts = dict.fromkeys(ACT_NAMES.values(), 0)
    for seed in seeds:
        name = ACT_NAMES.get(seed % _STEP)
        if name is not None:
            counts[name] += 1
    return counts
