"""Arms alternate, throttled blocks count for nothing, and what is timed is what was asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest
import torch
from torch import Tensor

from conf.choices import Order, Statistic
from conf.schema import Benchmark, Bf16Recipe, MxFp8Recipe
from jobs.node.benchmark import BASELINE, RECIPE, Block, Collection, collect, speedup, timing
from jobs.node.clock import Clock, CpuClock
from jobs.node.figures import missed_speedups
from jobs.record import ArmBenchmark, BenchmarkResult, Speedup, Timing
from tests.jobs.node.points import FEW, point

T = TypeVar("T")
METHOD = Benchmark(name="test", warmup_min_iterations=2, warmup_max_iterations=9, blocks=4)


class CountingClock(Clock):
    """Times nothing: an arm says how long it took."""

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
    """Takes a fixed time, and writes down what was asked of it."""

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


def collected(
    method: Benchmark, throttled: Callable[[], bool] = lambda: False
) -> tuple[Collection, list[str], CountingClock]:
    clock, log = CountingClock(), list[str]()
    arms = {
        RECIPE: FakeArm(RECIPE, clock, log, 2.0),
        BASELINE: FakeArm(BASELINE, clock, log, 3.0),
    }
    return collect(arms, method, clock, throttled), log, clock


def test_blocks_alternate_a_b_b_a() -> None:
    collection, _, _ = collected(METHOD)
    order = [block.arm for block in collection.blocks]
    assert order == [RECIPE, BASELINE, BASELINE, RECIPE, RECIPE, BASELINE, BASELINE, RECIPE]


def test_a_sequential_method_runs_the_recipe_first_and_then_bf16() -> None:
    method = replace(METHOD, order=Order.sequential, blocks=1, iterations_per_block=3)
    collection, log, _ = collected(method)
    assert [block.arm for block in collection.blocks] == [RECIPE, BASELINE]
    assert log.index(f"{BASELINE} fprop") > max(
        i for i, line in enumerate(log) if line.startswith(RECIPE)
    )


def test_forward_and_backward_are_timed_apart() -> None:
    collection, _, _ = collected(METHOD)
    assert set(collection.samples_BI(RECIPE, "fprop").flatten().tolist()) == {2.0}
    assert set(collection.samples_BI(RECIPE, "bprop").flatten().tolist()) == {4.0}
    assert collection.samples_BI(BASELINE, "bprop").shape == (4, METHOD.iterations_per_block)


def test_gradients_are_forgotten_before_each_iteration() -> None:
    _, log, _ = collected(METHOD)
    for number, line in enumerate(log):
        if line.endswith("fprop"):
            assert log[number - 1].endswith("zero_grad")


@pytest.mark.parametrize("flush", [True, False])
def test_the_cache_is_flushed_before_each_direction_or_not_at_all(flush: bool) -> None:
    _, log, clock = collected(replace(METHOD, flush_l2=flush))
    timed = sum(line.endswith(("fprop", "bprop")) for line in log)
    assert clock.flushes == (timed if flush else 0)


def test_warm_up_stays_within_its_limits_and_ends_when_stable() -> None:
    collection, _, _ = collected(replace(METHOD, warmup_max_iterations=50))
    assert collection.stable
    assert collection.warmup_iterations == 10  # two windows of five
    collection, _, _ = collected(replace(METHOD, warmup_min_iterations=3, warmup_max_iterations=3))
    assert not collection.stable
    assert collection.warmup_iterations == 3


def test_a_throttled_block_is_kept_marked_and_left_out_with_its_partner() -> None:
    asked = iter([False, False, True, False, False, False, False, False])
    collection, _, _ = collected(METHOD, lambda: next(asked))
    assert collection.throttled_blocks == 1
    assert len(collection.samples_BI(BASELINE, "fprop")) == 4
    # The third block is the baseline's second: the recipe's second goes too.
    assert len(collection.samples_BI(BASELINE, "fprop", clean_only=True)) == 3
    assert len(collection.samples_BI(RECIPE, "fprop", clean_only=True)) == 3
    marks = collection.throttled(BASELINE)
    assert marks == [False] * 5 + [True] * 5 + [False] * 10
    assert timing(collection, BASELINE, "fprop", METHOD, 1024).throttled == marks


def test_where_every_block_was_throttled_no_speedup_is_claimed() -> None:
    collection, _, _ = collected(METHOD, lambda: True)
    assert speedup(collection, "fprop", METHOD, "speedup") is None
    assert timing(collection, RECIPE, "fprop", METHOD, 1024).median_ms == 2.0


def test_throttled_samples_do_not_move_the_figures() -> None:
    slow = Block(RECIPE, [90.0] * 2, [90.0] * 2, True)
    fast = Block(RECIPE, [2.0] * 2, [4.0] * 2, False)
    base = Block(BASELINE, [3.0] * 2, [6.0] * 2, False)
    collection = Collection([fast, base, base, slow, fast, base])
    assert timing(collection, RECIPE, "fprop", METHOD, 1024).mean_ms == 2.0
    found = speedup(collection, "fprop", METHOD, "speedup")
    assert found is not None
    assert found.ratio == 1.5


def test_speedup_is_bf16_over_the_recipe_and_rates_follow_the_statistic() -> None:
    collection, _, _ = collected(METHOD)
    found = speedup(collection, "bprop", METHOD, "speedup")
    assert found is not None
    assert (found.ratio, found.low, found.high) == (1.5, 1.5, 1.5)
    shown = timing(collection, RECIPE, "fprop", replace(METHOD, statistic=Statistic.mean), 4096)
    assert shown.tokens_per_s == pytest.approx(4096 / 2e-3)
    assert len(shown.samples_ms) == 20


def result(ratio: float | None) -> BenchmarkResult:
    times = Timing(samples_ms=[1.0], median_ms=1, mean_ms=1, low_ms=1, high_ms=1, tokens_per_s=1)
    found = None if ratio is None else Speedup(ratio=ratio, low=1.0, high=2.0, claim="speedup")
    return BenchmarkResult(
        method="test",
        statistic="median",
        confidence=0.95,
        arms=[
            ArmBenchmark(arm=arm, precision=arm, fprop=times, bprop=times) for arm in ("a", "b")
        ],
        fprop_speedup=found,
        bprop_speedup=found,
    )


def test_a_speed_gate_fails_below_its_limit_only() -> None:
    gated = point(recipe=MxFp8Recipe(), benchmark=replace(FEW, min_fprop_speedup=1.3))
    assert missed_speedups(result(1.5), gated) == []
    assert missed_speedups(result(1.3), gated) == []
    (line,) = missed_speedups(result(1.2), gated)
    assert line.startswith("fprop speedup must be at least 1.3, got 1.200")
    (line,) = missed_speedups(result(None), gated)
    assert "every block ran throttled" in line


def test_a_speed_gate_does_not_apply_to_bf16_against_itself() -> None:
    gated = point(recipe=Bf16Recipe(), benchmark=replace(FEW, min_fprop_speedup=9.0))
    assert missed_speedups(result(1.0), gated) == []


def test_the_cpu_clock_gives_one_time_a_call_and_then_forgets() -> None:
    clock = CpuClock()
    assert clock.measure(lambda: 7) == 7
    clock.measure(lambda: None)
    times = clock.read_ms()
    assert len(times) == 2
    assert min(times) >= 0
    assert clock.read_ms() == []
