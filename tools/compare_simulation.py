"""Simulate the noise of GPUs to measure how often the verdicts of `compare` are right.

`python -m tools.compare_simulation docs/compare.md` writes its tables into that page.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

from jobs.compare.provenance import circumstances
from jobs.compare.repeats import at_one_clock, pooled_metrics
from jobs.compare.verdict import CONFIDENCE, Verdict, judge_metric
from jobs.record import ArmBenchmark, BenchmarkResult, Identity, Outcome, Record, Timing

BLOCKS, ITERATIONS = 20, 5
_BASE_MS = {
    ("recipe", "fprop"): 4.7,
    ("recipe", "bprop"): 9.2,
    ("bf16", "fprop"): 7.2,
    ("bf16", "bprop"): 15.2,
}


@dataclass(frozen=True)
class Noise:
    """One kind of noise; every size is a relative standard deviation or a share.

    Attributes:
        name: Display name.
        iteration: Between iterations of a block.
        block: Between blocks.
        run: Between runs, common to both arms.
        arm: Between runs, of each arm by itself.
        drift: From a run's start to its end.
        outliers: Share of iterations that take 10 to 100 % longer.
        modes: Gap between two clocks that blocks alternate between; 0 for one clock.
        dwell: Mean number of pairs of blocks at one clock.
        nodes: Gap between two clocks, one of which a whole run has and telemetry reports.
        same_gpu: True if both runs are known to be on the same GPU.
    """

    name: str
    iteration: float = 0.012
    block: float = 0.003
    run: float = 0.003
    arm: float = 0.001
    drift: float = 0.0
    outliers: float = 0.0
    modes: float = 0.0
    dwell: float = 4.0
    nodes: float = 0.0
    same_gpu: bool = True


KINDS = (
    Noise("as on an H200"),
    Noise("drift", drift=0.01),
    Noise("outliers", outliers=0.05),
    Noise("two clocks, in turns", modes=0.05),
    Noise("two clocks, one a run", nodes=0.05),
    Noise("two GPUs of one model", run=0.007, same_gpu=False),
    Noise("all of it", drift=0.006, outliers=0.03, modes=0.05),
)


def simulate(noise: Noise, change: dict[str, float], rng: Any) -> Record:  # noqa: ANN401 - numpy
    """Return the record that the benchmark would write.

    Args:
        noise: Noise on the run.
        change: Factor on the time of an arm, by `recipe` and `bf16`; 1 if missing.
        rng: A numpy generator.

    Returns:
        A record with the samples of both arms and the clock that telemetry reports.
    """
    import numpy

    run = rng.normal(0, noise.run)
    clock = noise.nodes * float(rng.integers(2)) if noise.nodes else 0.0
    ramp = rng.normal(0, noise.drift) * numpy.linspace(0, 1, BLOCKS)
    slow = rng.random() < 0.5
    modes = numpy.zeros(BLOCKS)
    for place in range(BLOCKS):
        slow = slow is not (rng.random() < 1 / noise.dwell)
        modes[place] = noise.modes * slow
    moment = run + clock + ramp + modes + rng.normal(0, noise.block, BLOCKS)
    arms = []
    for arm in ("recipe", "bf16"):
        own = rng.normal(0, noise.arm) + math.log(change.get(arm, 1.0))
        block = own + moment + rng.normal(0, noise.block, BLOCKS)
        timings = {}
        for direction in ("fprop", "bprop"):
            logs = block[:, None] + rng.normal(0, noise.iteration, (BLOCKS, ITERATIONS))
            hit = rng.random(logs.shape) < noise.outliers
            logs = logs + hit * numpy.log1p(rng.uniform(0.1, 1.0, logs.shape))
            times = _BASE_MS[arm, direction] * numpy.exp(logs)
            middle = float(numpy.median(times))
            timings[direction] = Timing(
                samples_ms=times.ravel().tolist(),
                median_ms=middle,
                mean_ms=float(times.mean()),
                low_ms=middle,
                high_ms=middle,
                tokens_per_s=4096 / middle * 1e3,
            )
        fprop, bprop = timings["fprop"], timings["bprop"]
        arms.append(ArmBenchmark(arm=arm, precision=arm, fprop=fprop, bprop=bprop))
    # One sample a block, in steps of 15 MHz, as NVML reports a clock under a power cap.
    clocks = 1980 * numpy.exp(numpy.repeat(-clock - modes, 2) + rng.normal(0, 0.02, 2 * BLOCKS))
    samples = [
        {"when": "during", "sm_clock_mhz": float(15 * round(mhz / 15))} for mhz in clocks.tolist()
    ]
    return Record.model_validate(
        {
            "identity": Identity(point_id="p-simulated"),
            "config": {"benchmark": {"order": "interleaved", "iterations_per_block": ITERATIONS}},
            "benchmark": BenchmarkResult(
                method="simulated", statistic="median", confidence=0.95, arms=arms
            ),
            "telemetry": samples,
            "outcome": Outcome.PASSED,
        }
    )


@dataclass(frozen=True)
class Rates:
    """Shares of verdicts among all comparisons."""

    noise: str
    slower: float
    faster: float
    unclear: float
    same: float
    per_metric: dict[str, float]


def rates(
    noise: Noise, change: dict[str, float], count: int, seed: int = 0, runs: int = 1
) -> Rates:
    """Compare pairs of simulated runs, the second of which has a change.

    Args:
        noise: Noise on both runs.
        change: Factor on the time of an arm in the second run.
        count: Number of pairs.
        seed: Seed of the generator.
        runs: Runs on each side that count together; several are on as many GPUs.

    Returns:
        Shares of points with a SLOWER or FASTER metric, of points with neither and an UNCLEAR
        verdict, and of FASTER or SLOWER by metric.
    """
    import numpy

    rng = numpy.random.default_rng(seed)
    points: Counter[str] = Counter()
    alarms: Counter[str] = Counter()
    for _ in range(count):
        first, second = (
            at_one_clock([simulate(noise, factors, rng) for _ in range(runs)])
            for factors in ({}, change)
        )
        conditions = replace(
            circumstances(first, second), same_gpu=noise.same_gpu, gpus=(len(first), len(second))
        )
        before, after = pooled_metrics(first), pooled_metrics(second)
        comparisons = {
            name: judge_metric(before[name], after[name], 0.02, conditions) for name in before
        }
        alarms.update(
            name
            for name, one in comparisons.items()
            if one.verdict in (Verdict.SLOWER, Verdict.FASTER)
        )
        verdicts = {one.verdict for one in comparisons.values()}
        points["slower"] += Verdict.SLOWER in verdicts
        points["faster"] += Verdict.FASTER in verdicts
        clear = {Verdict.SLOWER, Verdict.FASTER} & verdicts
        points["unclear"] += Verdict.UNCLEAR in verdicts and not clear
        points["same"] += verdicts == {Verdict.SAME}
    return Rates(
        noise.name,
        points["slower"] / count,
        points["faster"] / count,
        points["unclear"] / count,
        points["same"] / count,
        {name: alarms[name] / count for name in before},
    )


def at_best(noise: Noise, change: float = 1.03, threshold: float = 0.02) -> float:
    """Return the share of changes of both arms that can be found if the noise is known exactly.

    Noise that is common to both arms of a run does not average out over its blocks. If each run
    has one of two clocks, which may or may not explain a change, a quarter of the pairs is lost:
    those whose second run has the faster clock.

    Args:
        noise: Noise on the runs; noise between blocks counts as averaged out.
        change: Factor on the time of both arms.
        threshold: Relative change that matters.
    """
    normal = NormalDist()
    spread = math.sqrt(2) * math.hypot(noise.run, noise.drift / 2)
    least = max(math.log1p(threshold), normal.inv_cdf((1 + CONFIDENCE) / 2) * spread)
    share = normal.cdf((math.log(change) - least) / spread)
    return share * (0.75 if noise.nodes else 1.0)


CHANGES: dict[str, dict[str, float]] = {
    "no change": {},
    "recipe 3 % slower": {"recipe": 1.03},
    "recipe 3 % faster": {"recipe": 1 / 1.03},
    "both arms 3 % slower": {"recipe": 1.03, "bf16": 1.03},
}
REPEATED = ("no change", "both arms 3 % slower")
RUNS = 5
"""Number of runs on each side that reveals a change of both arms despite drift."""

BEGIN, END = "<!-- simulation: begin -->", "<!-- simulation: end -->"


def table(count: int, progress: Callable[[str], None] = lambda line: None) -> str:
    """Return the shares of each verdict as a Markdown table, a row for each noise and change.

    Args:
        count: Pairs of runs for each row.
        progress: Callback for each finished row.
    """
    lines = [
        f"{count:,} pairs of runs a row, {BLOCKS} blocks of {ITERATIONS} iterations an arm,",
        "threshold 2 %. A point counts as SLOWER or FASTER if any of its six metrics does, as",
        "UNCLEAR if none does and one is unclear, else as SAME.",
        "",
        "| noise | change | SLOWER | FASTER | UNCLEAR | SAME |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for noise in KINDS:
        rows = [(name, change, 1) for name, change in CHANGES.items()]
        rows += [(f"{name}, {RUNS} runs a side", CHANGES[name], RUNS) for name in REPEATED]
        for name, change, runs in rows:
            row = rates(noise, change, count, runs=runs)
            shares = (row.slower, row.faster, row.unclear, row.same)
            cells = " | ".join(f"{100 * share:.1f} %" for share in shares)
            lines.append(f"| {noise.name} | {name} | {cells} |")
            progress(lines[-1])
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write the table into a page, between its markers, or print it without a page."""
    text = table(1000, print)
    if arguments:
        page = Path(arguments[0])
        before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        page.write_text(f"{before}{BEGIN}\n{text}{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
