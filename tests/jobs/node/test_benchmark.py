"""Arms alternate, warm-up ends in time, and throttled blocks are kept apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest
import torch
from torch import Tensor

from conf.choices import Order
from conf.schema import Benchmark
from jobs.node.arm import BASELINE, RECIPE
from jobs.node.benchmark import MIN_BLOCKS, Samples, is_stable, take_samples
from jobs.node.clock import Clock, CpuClock

T = TypeVar("T")
METHOD = Benchmark(name="test", warmup_min_iterations=2, warmup_max_iterations=9, blocks=4)


class CountingClock(Clock):
    """A clock that arms advance."""

    def __init__(self) -> None:
        self.times_ms: list[float] = []
        self.flushes = 0
        self.now = 0.0

    def measure(self, work: Callable[[], T]) -> T:
        start = self.now
        result = work()
        self.times_ms.append(self.now - start)
        return result

    def read_ms(self) -> list[float]:
        times, self.times_ms = self.times_ms, []
        return times

    def flush_l2(self) -> None:
        self.flushes += 1

    def synchronize(self) -> None:
        pass

    def release_memory(self) -> None:
        pass


class FakeArm:
    """An arm that takes a fixed time and logs its calls."""

    def __init__(self, name: str, clock: CountingClock, log: list[str], ms: float) -> None:
        self.name, self.clock, self.log, self.ms = name, clock, log, ms
        self.graphs = 0

    def zero_grad(self) -> None:
        self.log.append(f"{self.name} zero_grad")

    def fprop(self) -> Tensor:
        self.clock.now += self.ms
        self.graphs += 1
        self.log.append(f"{self.name} fprop")
        return torch.tensor(float(self.graphs))

    def bprop(self, out: Tensor) -> None:
        assert out.item() == self.graphs, "each backward needs a forward of its own"
        self.clock.now += 2 * self.ms
        self.log.append(f"{self.name} bprop")


def sampled(
    method: Benchmark, throttled: Callable[[], bool] = lambda: False
) -> tuple[Samples, list[str], CountingClock]:
    clock, log = CountingClock(), list[str]()
    arms = {
        RECIPE: FakeArm(RECIPE, clock, log, 2.0),
        BASELINE: FakeArm(BASELINE, clock, log, 3.0),
    }
    return take_samples(arms, method, clock, throttled), log, clock


def test_blocks_alternate_a_b_b_a() -> None:
    samples, _, _ = sampled(METHOD)
    order = [block.arm for block in samples.blocks]
    assert order == [RECIPE, BASELINE, BASELINE, RECIPE, RECIPE, BASELINE, BASELINE, RECIPE]


def test_a_sequential_method_runs_the_recipe_first_and_then_bf16() -> None:
    method = replace(METHOD, order=Order.sequential, blocks=1, iterations_per_block=3)
    samples, log, _ = sampled(method)
    assert [block.arm for block in samples.blocks] == [RECIPE, BASELINE]
    assert log.index(f"{BASELINE} fprop") > max(
        i for i, line in enumerate(log) if line.startswith(RECIPE)
    )


def test_forward_and_backward_are_timed_apart() -> None:
    samples, _, _ = sampled(METHOD)
    assert set(samples.ms_BI(RECIPE, "fprop").flatten().tolist()) == {2.0}
    assert set(samples.ms_BI(RECIPE, "bprop").flatten().tolist()) == {4.0}
    assert samples.ms_BI(BASELINE, "bprop").shape == (4, METHOD.iterations_per_block)


def test_gradients_are_cleared_before_each_iteration() -> None:
    _, log, _ = sampled(METHOD)
    for number, line in enumerate(log):
        if line.endswith("fprop"):
            assert log[number - 1].endswith("zero_grad")


def test_the_budget_ends_the_blocks_but_not_before_the_minimum() -> None:
    method = replace(METHOD, blocks=20, budget_s=0.0, warmup_min_iterations=9)
    samples, _, _ = sampled(method)
    assert len(samples.of_arm(RECIPE)) == len(samples.of_arm(BASELINE)) == MIN_BLOCKS
    assert (samples.planned_blocks, samples.warmup_iterations) == (20, 1)


@pytest.mark.parametrize("flush", [True, False])
def test_the_cache_is_flushed_before_each_direction_or_not_at_all(flush: bool) -> None:
    _, log, clock = sampled(replace(METHOD, flush_l2=flush))
    timed = sum(line.endswith(("fprop", "bprop")) for line in log)
    assert clock.flushes == (timed if flush else 0)


def test_warm_up_stays_within_its_limits_and_ends_when_stable() -> None:
    samples, _, _ = sampled(replace(METHOD, warmup_max_iterations=50))
    assert samples.stable
    assert samples.warmup_iterations == 10  # two windows of five
    samples, _, _ = sampled(replace(METHOD, warmup_min_iterations=3, warmup_max_iterations=3))
    assert not samples.stable
    assert samples.warmup_iterations == 3


def test_a_throttled_block_is_kept_and_left_out_with_its_partner() -> None:
    throttled = iter([False, False, True, False, False, False, False, False])
    samples, _, _ = sampled(METHOD, lambda: next(throttled))
    assert samples.throttled_blocks == 1
    assert len(samples.ms_BI(BASELINE, "fprop")) == 4
    # The third block is the baseline's second: the recipe's second goes too.
    assert len(samples.ms_BI(BASELINE, "fprop", clean_only=True)) == 3
    assert len(samples.ms_BI(RECIPE, "fprop", clean_only=True)) == 3
    marks = samples.throttled(BASELINE)
    assert marks == [False] * 5 + [True] * 5 + [False] * 10


def test_the_cpu_clock_returns_each_time_once() -> None:
    clock = CpuClock()
    assert clock.measure(lambda: 7) == 7
    clock.measure(lambda: None)
    times = clock.read_ms()
    assert len(times) == 2
    assert min(times) >= 0
    assert clock.read_ms() == []


def test_warm_up_ends_when_two_windows_agree() -> None:
    assert not is_stable([1.0] * 9)
    assert is_stable([1.0] * 10)
    assert not is_stable([2.0] * 5 + [1.0] * 5)
    assert is_stable([9.0, 2.0] + [1.0] * 5 + [1.005] * 5)
