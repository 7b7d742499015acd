"""Differences in the provenance of two runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from jobs.collect.points_table import clock_reasons, median
from jobs.compare.match import Pair
from jobs.compare.repeats import clock
from jobs.compare.verdict import SIDES, Circumstances
from jobs.record import Record

_FACTS = {
    "gpu_name": "GPU",
    "gpu_uuid": "GPU UUID",
    "host": "node",
    "compute_capability": "compute capability",
    "driver": "driver",
    "cuda": "CUDA",
    "cudnn_transformer_engine": "cuDNN of Transformer Engine",
    "cudnn_torch": "cuDNN of torch",
    "transformer_engine": "Transformer Engine",
    "torch": "torch",
    "triton": "triton",
    "python": "Python",
    "platform": "platform",
    "image": "image",
    "commit": "commit",
    "dirty_hash": "uncommitted changes",
}
_CLOCKS = {
    "sm_clock_mhz": ("SM clock (MHz)", 0.02),
    "memory_clock_mhz": ("memory clock (MHz)", 0.01),
    "power_limit_watt": ("power limit (W)", 0.01),
    "temperature_celsius": ("temperature (°C)", 0.15),
}
_PROBES = {
    "copy_gb_per_s": ("copy bandwidth (GB/s)", 0.02),
    "bf16_matmul_tflops": ("BF16 matmul (TFLOP/s)", 0.02),
}

_ABSENT, _NOT_KNOWN = "none", "unknown"
_UNKNOWN = {_ABSENT, _NOT_KNOWN}


@dataclass(frozen=True)
class Difference:
    """One fact that is not the same, with how many pairs of points it separates."""

    fact: str
    first: str
    second: str
    pairs: int = 1


def differences(first: Record, second: Record) -> list[Difference]:
    """Facts in which two records differ.

    Args:
        first: Reference.
        second: Compared with the reference.

    Returns:
        The differences; numbers count only where they differ by more than they usually do.
    """
    found = []
    for name, fact in _FACTS.items():
        pair = getattr(first.environment, name), getattr(second.environment, name)
        if pair[0] != pair[1]:
            found.append(Difference(fact, _shown(pair[0]), _shown(pair[1])))
    for arm in ("recipe", "bf16"):
        kernels = first.capability.attention_backend, second.capability.attention_backend
        if kernels[0].get(arm) != kernels[1].get(arm):
            old, new = (_shown(kernel.get(arm)) for kernel in kernels)
            found.append(Difference(f"attention kernel of {arm}", old, new))
    found += _variables(first, second)
    for name, (fact, limit) in _CLOCKS.items():
        found += _number(fact, _during(first, name), _during(second, name), limit)
    for name, (fact, limit) in _PROBES.items():
        before, after = (getattr(r.probe, name) if r.probe else None for r in (first, second))
        found += _number(fact, before, after, limit)
    if _held_by(first) != _held_by(second):
        found.append(Difference("clocks limited by", _held_by(first), _held_by(second)))
    return found


def circumstances(
    first: Sequence[Record], second: Sequence[Record], sides: tuple[str, str] = SIDES
) -> Circumstances:
    """Return the conditions of both sides that affect the verdict on times.

    Args:
        first: Runs of what is compared with; at least one.
        second: Runs of what is judged.
        sides: Names of both sides in notes.

    Returns:
        Clocks over all runs of a side, and whether both sides ran on the same GPUs.
    """
    gpus = [{record.environment.gpu_uuid for record in side} for side in (first, second)]
    known = None not in gpus[0] | gpus[1]
    before, after = _mean_clock(first), _mean_clock(second)
    return Circumstances(
        (before[0], after[0]),
        math.hypot(before[1], after[1]),
        gpus[0] == gpus[1] if known else None,
        (len(gpus[0]), len(gpus[1])),
        sides,
    )


def _mean_clock(records: Sequence[Record]) -> tuple[float | None, float]:
    """The mean SM clock over some runs and its relative standard error; not known of all: None."""
    seen = [clock(record) for record in records]
    clocks = [mhz for mhz, _ in seen if mhz is not None]
    if len(clocks) < len(seen):
        return None, 0.0
    return fmean(clocks), math.sqrt(sum(error**2 for _, error in seen)) / len(seen)


def shared_differences(pairs: Iterable[Pair]) -> list[Difference]:
    """The differences of all pairs, equal ones counted together, the most frequent first."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for pair in pairs:
        if pair.first.record is not None and pair.second.record is not None:
            for one in differences(pair.first.record, pair.second.record):
                if _UNKNOWN & {one.first, one.second} and (
                    pair.first.partial or pair.second.partial
                ):
                    continue  # published figures come without most facts: that tells nothing
                counts[one.fact, one.first, one.second] += 1
    return [Difference(*key, count) for key, count in counts.most_common()]


def _variables(first: Record, second: Record) -> list[Difference]:
    old, new = first.environment.variables, second.environment.variables
    names = sorted(name for name in old | new if not name.startswith("SLURM"))
    return [
        Difference(name, _shown(old.get(name)), _shown(new.get(name)))
        for name in names
        if old.get(name) != new.get(name)
    ]


def _number(fact: str, old: float | None, new: float | None, limit: float) -> list[Difference]:
    if old is None and new is None:
        return []
    if old is not None and new is not None and min(old, new) > 0:
        if abs(math.log(new / old)) <= math.log1p(limit):
            return []
    elif old == new:
        return []
    return [Difference(fact, _rounded(old), _rounded(new))]


def _during(record: Record, name: str) -> float | None:
    values = [getattr(sample, name) for sample in record.telemetry if sample.when == "during"]
    return median(values)


def _held_by(record: Record) -> str:
    return ", ".join(clock_reasons(record)) or "nothing"


def _shown(value: object) -> str:
    return _ABSENT if value is None else str(value)


def _rounded(value: float | None) -> str:
    return _NOT_KNOWN if value is None else f"{value:.4g}"
