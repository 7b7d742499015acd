"""A sweep with everything a report must show: recipes, lengths, shapes, failures, hostile text."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

from jobs.record import Cause, Outcome, Record, TelemetrySample
from tests.builders.ledger import FakeSweep
from tests.builders.records import point_config, record

HOSTILE = (
    "</pre><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
)
LENGTHS = (1024, 2048, 4096, 8192, 16384)
RECIPES = ("mxfp8", "fp8_current", "fp8_block")


def demo_sweep(runs_dir: Path, *, copies: int = 1) -> FakeSweep:
    """A finished sweep of two GPUs and two shapes, some of whose points went wrong.

    Args:
        runs_dir: Where sweeps lie.
        copies: How often the grid is repeated, each time with another seed.

    Returns:
        The sweep; thirty points for each copy on a GB300, ten on an H200, eight that went wrong.
    """
    grid = itertools.product(range(copies), ("dsv3", "kimi_k2"), RECIPES, LENGTHS)
    configs = [
        point_config(recipe, "gb300", shape, shape__seq_len=length, shape__seed=42 + copy)
        for copy, shape, recipe, length in grid
    ]
    configs += [
        point_config(recipe, "h200", "dsv3", shape__seq_len=length, shape__seed=42 + copy)
        for copy, recipe, length in itertools.product(
            range(copies), ("fp8_current", "bf16"), LENGTHS
        )
    ]
    good = len(configs)
    configs += [point_config("mxfp8", "h200", shape__seq_len=length) for length in (1024, 2048)]
    configs += [
        point_config("mxfp8", "gb300", shape__seq_len=512, shape__batch=batch)
        for batch in range(2, 8)
    ]
    sweep = FakeSweep.plan(runs_dir, configs)
    ids = list(sweep.points)
    sweep.submit("1062811", ids[:-1])
    rng = random.Random(7)
    for index in range(good):
        left = _passed(sweep, ids[index], index, rng)
        sweep.attempt("1062811", ids[index], left, log="[PERF] b=1 s=4096:\n")
    _failures(sweep, ids[good:])
    return sweep


def _passed(sweep: FakeSweep, point_id: str, index: int, rng: random.Random) -> Record:
    config = sweep.points[point_id]
    left = record(
        point_id,
        config,
        job_id=f"1062811_{index}",
        seed=index,
        host=f"{config['gpu']['name']}-n{index % 5 + 1}",
        scale=1 + 0.06 * (4096 / config["shape"]["seq_len"] - 1) * 0.2,
    )
    samples = [
        TelemetrySample.model_validate(
            sample.model_dump()
            | {
                "sm_clock_mhz": 1920 - 15 * (index % 5 == 3) * 8 + rng.randint(-6, 6),
                "power_watt": 1150 + rng.randint(-40, 40),
                "temperature_celsius": 55 + rng.randint(0, 9) + 8 * (index % 5 == 3),
                "throttle_reasons": ["sw_power_cap"] if index % 15 == 3 else [],
            }
        )
        for sample in left.telemetry
    ]
    return left.model_copy(update={"telemetry": samples})


def _failures(sweep: FakeSweep, ids: list[str]) -> None:
    points: dict[str, dict[str, Any]] = sweep.points
    first = len(points) - len(ids)
    jobs = [f"1062811_{first + place}" for place in range(len(ids))]
    for place in (0, 1):
        reason = "compute_capability must be at least 10.0 for MXFP8, got 9.0"
        refused = record(
            ids[place], points[ids[place]], Outcome.UNSUPPORTED, job_id=jobs[place], reason=reason
        )
        sweep.attempt("1062811", ids[place], refused)
    missed = record(
        ids[2],
        points[ids[2]],
        Outcome.FAILED,
        job_id=jobs[2],
        reason="dx: relative L2 must be at most 0.45, got 0.684",
        lines=["dx  recipe|fp32  6.840e-01  FAILED 0.288 <= rel_l2 <= 0.45"],
    )
    sweep.attempt("1062811", ids[2], missed, log="Validation, tolerance calibrated: FAILED\n")
    crashed = record(
        ids[3],
        points[ids[3]],
        Outcome.ERROR,
        job_id=jobs[3],
        cause=Cause.crashed,
        reason="ended by signal 11 (SIGSEGV)",
        lines=["Fatal Python error: Segmentation fault", HOSTILE],
    )
    sweep.attempt("1062811", ids[3], crashed, log=f"\x1b[31mred\x1b[0m\n{HOSTILE}\n")
    traceback = (
        'Traceback (most recent call last):\n  File "x.py", line 3\nRuntimeError: no plan\n'
    )
    failed = record(
        ids[4],
        points[ids[4]],
        Outcome.ERROR,
        job_id=jobs[4],
        cause=Cause.exception,
        reason="RuntimeError: no plan",
        lines=["RuntimeError: no plan"],
    )
    sweep.attempt("1062811", ids[4], failed, log=traceback)
    sweep.attempt("1062811", ids[5], None, log="step 1\n")
    line = "slurmstepd: error: *** JOB 1062900 ON n1 CANCELLED AT x DUE TO TIME LIMIT ***\n"
    sweep.job_log(f"{jobs[5]}_0_log.err", line)
    sweep.attempt("1062811", ids[6], '{"outcome": "PASSED", "config"', log="step 1\n")
