"""Clocks that time work where it runs: CUDA events on a GPU, the monotonic clock on a CPU."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

T = TypeVar("T")

# Larger than any GPU's L2 cache (126 MiB on Blackwell), so that writing it evicts everything else.
FLUSH_BYTES = 512 * 2**20


class Clock(ABC):
    """Times calls; the times of a block are known once the block is read."""

    @abstractmethod
    def measure(self, work: Callable[[], T]) -> T:
        """Run and time one call, and return its result."""

    @abstractmethod
    def read_ms(self) -> list[float]:
        """Wait for the work so far, and return the times since the last read."""

    @abstractmethod
    def flush_l2(self) -> None:
        """Evict the data of the last call from the L2 cache."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for all work that was started."""

    @abstractmethod
    def release_memory(self) -> None:
        """Release cached memory to the device."""

    def once_ms(self, work: Callable[[], object]) -> float:
        """Time one call on the host's clock, from an idle device to an idle device."""
        self.synchronize()
        start = time.perf_counter()
        work()
        self.synchronize()
        return (time.perf_counter() - start) * 1e3


class CpuClock(Clock):
    """The monotonic clock; nothing to flush, await or release."""

    def __init__(self) -> None:
        self._times_ms: list[float] = []

    def measure(self, work: Callable[[], T]) -> T:
        """Run and time one call, and return its result."""
        start = time.perf_counter()
        result = work()
        self._times_ms.append((time.perf_counter() - start) * 1e3)
        return result

    def read_ms(self) -> list[float]:
        """Return the times since the last read."""
        times, self._times_ms = self._times_ms, []
        return times

    def flush_l2(self) -> None:
        """Do nothing: emulated times claim nothing."""

    def synchronize(self) -> None:
        """Do nothing: a CPU call is synchronous."""

    def release_memory(self) -> None:
        """Do nothing: there is no cache."""


class CudaClock(Clock):
    """CUDA events around each call; nothing waits until a block is read."""

    def __init__(self) -> None:
        self._pairs: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
        self._flush_buffer: Tensor | None = None

    def measure(self, work: Callable[[], T]) -> T:
        """Run and time one call, and return its result."""
        start, end = timing_event(), timing_event()
        start.record()
        result = work()
        end.record()
        self._pairs.append((start, end))
        return result

    def read_ms(self) -> list[float]:
        """Return the times since the last read."""
        self.synchronize()
        times = [start.elapsed_time(end) for start, end in self._pairs]
        self._pairs = []
        return times

    def flush_l2(self) -> None:
        """Overwrite a buffer larger than the L2 cache, outside any events."""
        if self._flush_buffer is None:
            self._flush_buffer = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
        self._flush_buffer.zero_()

    def synchronize(self) -> None:
        """Wait for the device."""
        torch.cuda.synchronize()

    def release_memory(self) -> None:
        """Empty PyTorch's cache."""
        torch.cuda.empty_cache()


def timing_event() -> torch.cuda.Event:
    """Return a CUDA event that can be timed against another."""
    event: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch's own
    return event


def clock_for(device: str) -> Clock:
    """Return a new clock for cpu or cuda."""
    return CudaClock() if device == "cuda" else CpuClock()
