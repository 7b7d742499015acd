"""Takes the samples of a benchmark: fprop and bprop of both arms in one process, block by block.

Arms alternate A-B-B-A, so that a drift of clocks or temperature affects both. Each iteration
computes anew: a fused backward runs once over one graph. Throttled blocks are kept and marked, and
left out of every figure that is compared.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from conf.choices import Order
from conf.schema import Benchmark
from jobs.node.arm import BASELINE, RECIPE
from jobs.node.clock import Clock
from jobs.text import pluralize

# Fewer blocks cannot be resampled by block, and the time budget never cuts below them.
MIN_BLOCKS = 5


class Steppable(Protocol):
    """What can be timed: an `AttentionPath`, a captured graph of one, or a stage."""

    def zero_grad(self) -> None:
        """Clear the gradients of the last iteration."""

    def fprop(self) -> Any:  # noqa: ANN401 - whatever its own bprop takes
        """Run one forward pass."""

    def bprop(self, out_SBC: Any, /) -> None:  # noqa: ANN401 - likewise
        """Run one backward pass over a fresh graph."""


@dataclass(frozen=True)
class Block:
    """Consecutive iterations of one arm.

    Attributes:
        arm: recipe or bf16.
        fprop_ms: One time per iteration.
        bprop_ms: One time per iteration.
        throttled: True if the GPU was throttled during this block.
    """

    arm: str
    fprop_ms: list[float]
    bprop_ms: list[float]
    throttled: bool


@dataclass
class Samples:
    """All samples of a benchmark.

    Attributes:
        blocks: In the order in which they ran.
        warmup_iterations: Iterations of each arm before the first block.
        stable: True if the times were stable at the end of the warm-up.
        planned_blocks: Blocks of each arm that the method asks for.
    """

    blocks: list[Block] = field(default_factory=list)
    warmup_iterations: int = 0
    stable: bool = False
    planned_blocks: int = 0

    def of_arm(self, arm: str) -> list[Block]:
        """Return the blocks of one arm."""
        return [block for block in self.blocks if block.arm == arm]

    def ms_BI(self, arm: str, direction: str, *, clean_only: bool = False) -> Tensor:
        """Return an arm's times, blocks x iterations, in float64 milliseconds.

        Args:
            arm: recipe or bf16.
            direction: fprop or bprop.
            clean_only: Leave out throttled blocks, and their partners in the other arm.
        """
        dropped: set[int] = set()
        if clean_only:
            for name in (RECIPE, BASELINE):
                dropped |= {i for i, block in enumerate(self.of_arm(name)) if block.throttled}
        rows = [
            getattr(block, f"{direction}_ms")
            for i, block in enumerate(self.of_arm(arm))
            if i not in dropped
        ]
        return torch.tensor(rows, dtype=torch.float64)

    def throttled(self, arm: str) -> list[bool]:
        """Return, for each sample of an arm, True if its block was throttled."""
        return [block.throttled for block in self.of_arm(arm) for _ in block.fprop_ms]

    @property
    def throttled_blocks(self) -> int:
        """Number of throttled blocks."""
        return sum(block.throttled for block in self.blocks)


def take_samples(
    arms: Mapping[str, Steppable],
    method: Benchmark,
    clock: Clock,
    is_throttled: Callable[[], bool],
    *,
    progress: Callable[[str], None] = lambda line: None,
) -> Samples:
    """Warm up and take every sample.

    Args:
        arms: Both arms by name.
        method: Order, warm-up, blocks and budget.
        clock: Measures calls.
        is_throttled: Called while a block runs.
        progress: Callback for progress lines.
    """
    samples = Samples(planned_blocks=method.blocks)
    start = time.monotonic()

    def run_block(arm: str) -> None:
        samples.blocks.append(_run_block(arm, arms[arm], method, clock, is_throttled))

    if method.order is not Order.interleaved:
        for arm in (RECIPE, BASELINE):
            _warm_up({arm: arms[arm]}, method, clock, samples)
            for _ in range(method.blocks):
                run_block(arm)
            progress(f"{arm}: {pluralize(method.blocks, 'block')}")
        return samples
    _warm_up(arms, method, clock, samples)
    progress(f"warmed up: {pluralize(samples.warmup_iterations, 'iteration')} of each arm")
    for number in range(method.blocks):
        if number >= MIN_BLOCKS and time.monotonic() - start > method.budget_s:
            progress(f"stopped after {number} of {method.blocks} blocks: out of budget")
            break
        for arm in (RECIPE, BASELINE) if number % 2 == 0 else (BASELINE, RECIPE):
            run_block(arm)
        if (number + 1) % max(1, method.blocks // 4) == 0:
            progress(f"block {number + 1} of {method.blocks}")
    return samples


def is_stable(times_ms: list[float], window: int = 5, tolerance: float = 0.01) -> bool:
    """True if the medians of the last two windows of iterations differ by at most `tolerance`."""
    if len(times_ms) < 2 * window:
        return False
    before = statistics.median(times_ms[-2 * window : -window])
    last = statistics.median(times_ms[-window:])
    return abs(last - before) <= tolerance * before


def _warm_up(
    arms: Mapping[str, Steppable], method: Benchmark, clock: Clock, samples: Samples
) -> None:
    times_ms: dict[str, list[float]] = {arm: [] for arm in arms}
    start = time.monotonic()
    for number in range(method.warmup_max_iterations):
        for arm, path in arms.items():
            _launch(path, 1, method.flush_l2, clock)
            fprop_ms, bprop_ms = _read(path, clock)
            times_ms[arm].append(fprop_ms[0] + bprop_ms[0])
        samples.warmup_iterations = number + 1
        samples.stable = all(is_stable(times) for times in times_ms.values())
        if samples.stable and number + 1 >= method.warmup_min_iterations:
            return
        if time.monotonic() - start > method.budget_s / 4:
            return


def _run_block(
    arm: str, path: Steppable, method: Benchmark, clock: Clock, is_throttled: Callable[[], bool]
) -> Block:
    settling = method.settle_iterations
    _launch(path, settling + method.iterations_per_block, method.flush_l2, clock)
    throttled = is_throttled()  # before the times are read: an idle GPU is never throttled
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
