"""Times fprop and bprop of both arms in one process, block by block, and judges the samples.

Arms alternate A-B-B-A, so that a drift of clocks or temperature falls on both. Each iteration
computes anew: a fused backward runs once over one graph. What ran throttled is kept, marked,
and left out of every figure that is compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from conf.choices import Order, Statistic
from conf.schema import Benchmark
from jobs.node.clock import Clock
from jobs.node.statistics import MIN_BLOCKS, Interval, is_stable, ratio_interval, time_interval
from jobs.record import Speedup, Timing
from jobs.text import pluralize

RECIPE, BASELINE = "recipe", "bf16"


class Steppable(Protocol):
    """What is timed: `mxfp8_attention.layer.Path`, or a captured graph of one."""

    def zero_grad(self) -> None:
        """Forgets the last iteration's gradients."""

    def fprop(self) -> Any:  # noqa: ANN401 - whatever its own bprop takes
        """One forward pass."""

    def bprop(self, out_SBC: Any, /) -> None:  # noqa: ANN401 - likewise
        """One backward pass over a fresh graph."""


@dataclass(frozen=True)
class Block:
    """Iterations of one arm that ran one after another.

    Attributes:
        arm: recipe or bf16.
        fprop_ms: One time an iteration.
        bprop_ms: One time an iteration.
        throttled: Whether the GPU ran below what it can during this block.
    """

    arm: str
    fprop_ms: list[float]
    bprop_ms: list[float]
    throttled: bool


@dataclass
class Collection:
    """Everything that was measured.

    Attributes:
        blocks: In the order in which they ran.
        warmup_iterations: Iterations of each arm before the first block.
        stable: Whether warming up ended because the times were stable.
        planned_blocks: Blocks of each arm that the method asks for.
    """

    blocks: list[Block] = field(default_factory=list)
    warmup_iterations: int = 0
    stable: bool = False
    planned_blocks: int = 0

    def samples_BI(self, arm: str, direction: str, *, clean_only: bool = False) -> Tensor:
        """An arm's times, blocks x iterations, in float64 milliseconds.

        Args:
            arm: recipe or bf16.
            direction: fprop or bprop.
            clean_only: Leave throttled blocks out, and with an interleaved order their partners.

        Returns:
            The times; empty where every block was throttled.
        """
        dropped = self._dropped() if clean_only else set()
        mine = [block for block in self.blocks if block.arm == arm]
        rows = [getattr(b, f"{direction}_ms") for i, b in enumerate(mine) if i not in dropped]
        return torch.tensor(rows, dtype=torch.float64)

    def throttled(self, arm: str) -> list[bool]:
        """Whether each sample of an arm was taken in a throttled block."""
        mine = [block for block in self.blocks if block.arm == arm]
        return [block.throttled for block in mine for _ in block.fprop_ms]

    @property
    def throttled_blocks(self) -> int:
        """How many blocks ran throttled."""
        return sum(block.throttled for block in self.blocks)

    def _dropped(self) -> set[int]:
        arms = {arm: [b for b in self.blocks if b.arm == arm] for arm in (RECIPE, BASELINE)}
        return {i for blocks in arms.values() for i, b in enumerate(blocks) if b.throttled}


def collect(
    arms: Mapping[str, Steppable],
    method: Benchmark,
    clock: Clock,
    watch: Callable[[], bool],
    *,
    progress: Callable[[str], None] = lambda line: None,
) -> Collection:
    """Warms up and takes every sample.

    Args:
        arms: The two arms by name.
        method: How.
        clock: Times calls.
        watch: Whether the GPU is throttled at this moment; asked while a block runs.
        progress: Told one line from time to time.

    Returns:
        The samples.
    """
    collection = Collection(planned_blocks=method.blocks)
    started = time.monotonic()
    interleaved = method.order is Order.interleaved
    if interleaved:
        _warm_up(arms, method, clock, collection)
        progress(f"warmed up: {pluralize(collection.warmup_iterations, 'iteration')} of each arm")
        for number in range(method.blocks):
            if number >= MIN_BLOCKS and time.monotonic() - started > method.budget_s:
                progress(f"stopped after {number} of {method.blocks} blocks: the budget is spent")
                break
            pair = (RECIPE, BASELINE) if number % 2 == 0 else (BASELINE, RECIPE)
            for arm in pair:
                collection.blocks.append(_block(arm, arms[arm], method, clock, watch))
            if (number + 1) % max(1, method.blocks // 4) == 0:
                progress(f"block {number + 1} of {method.blocks}")
    else:
        for arm in (RECIPE, BASELINE):
            _warm_up({arm: arms[arm]}, method, clock, collection)
            for _ in range(method.blocks):
                collection.blocks.append(_block(arm, arms[arm], method, clock, watch))
            progress(f"{arm}: {pluralize(method.blocks, 'block')}")
    return collection


def timing(
    collection: Collection,
    arm: str,
    direction: str,
    method: Benchmark,
    tokens: int,
) -> Timing:
    """One direction of one arm, in numbers; floors and shares are added by the caller.

    Args:
        collection: The samples.
        arm: recipe or bf16.
        direction: fprop or bprop.
        method: Statistic, confidence and resamples.
        tokens: Tokens of one step.

    Returns:
        Figures of the blocks that ran clean; of all blocks where none did.
    """
    all_BI = collection.samples_BI(arm, direction)
    clean_BI = collection.samples_BI(arm, direction, clean_only=True)
    used_BI = clean_BI if len(clean_BI) else all_BI
    shown = time_interval(used_BI, method.statistic, method.confidence, method.bootstrap_resamples)
    median = time_interval(used_BI, Statistic.median, method.confidence, 1).value
    return Timing(
        samples_ms=[round(sample, 6) for sample in all_BI.flatten().tolist()],
        throttled=collection.throttled(arm) if collection.throttled_blocks else [],
        median_ms=median,
        mean_ms=float(used_BI.mean()),
        low_ms=shown.low,
        high_ms=shown.high,
        tokens_per_s=tokens / (shown.value * 1e-3),
    )


def speedup(
    collection: Collection, direction: str, method: Benchmark, claim: str
) -> Speedup | None:
    """BF16's time over the recipe's.

    Args:
        collection: The samples.
        direction: fprop or bprop.
        method: Statistic, confidence, resamples and order.
        claim: What the ratio stands for: speedup, noise or emulated.

    Returns:
        The ratio with its interval; None where every block ran throttled.
    """
    baseline_BI = collection.samples_BI(BASELINE, direction, clean_only=True)
    recipe_BI = collection.samples_BI(RECIPE, direction, clean_only=True)
    if not len(baseline_BI) or not len(recipe_BI):
        return None
    found: Interval = ratio_interval(
        baseline_BI,
        recipe_BI,
        method.statistic,
        method.confidence,
        method.bootstrap_resamples,
        paired=method.order is Order.interleaved,
    )
    return Speedup(ratio=found.value, low=found.low, high=found.high, claim=claim)


def _warm_up(
    arms: Mapping[str, Steppable], method: Benchmark, clock: Clock, collection: Collection
) -> None:
    times_ms: dict[str, list[float]] = {arm: [] for arm in arms}
    started = time.monotonic()
    for number in range(method.warmup_max_iterations):
        for arm, path in arms.items():
            _launch(path, 1, method.flush_l2, clock)
            fprop_ms, bprop_ms = _read(path, clock)
            times_ms[arm].append(fprop_ms[0] + bprop_ms[0])
        collection.warmup_iterations = number + 1
        collection.stable = all(is_stable(times) for times in times_ms.values())
        if collection.stable and number + 1 >= method.warmup_min_iterations:
            return
        if time.monotonic() - started > method.budget_s / 4:
            return


def _block(
    arm: str, path: Steppable, method: Benchmark, clock: Clock, watch: Callable[[], bool]
) -> Block:
    settling = method.settle_iterations
    _launch(path, settling + method.iterations_per_block, method.flush_l2, clock)
    throttled = watch()  # before the times are read: reading waits, and an idle GPU is no witness
    fprop_ms, bprop_ms = _read(path, clock)
    return Block(arm, fprop_ms[settling:], bprop_ms[settling:], throttled)


def _launch(path: Steppable, count: int, flush_l2: bool, clock: Clock) -> None:
    for _ in range(count):
        path.zero_grad()
        if flush_l2:
            clock.flush_l2()
        out = clock.measure(path.fprop)
        if flush_l2:
            clock.flush_l2()
        clock.measure(partial(path.bprop, out))


def _read(path: Steppable, clock: Clock) -> tuple[list[float], list[float]]:
    times_ms = clock.read_ms()
    path.zero_grad()
    return times_ms[0::2], times_ms[1::2]
