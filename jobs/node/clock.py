"""Clocks that time work where it runs: CUDA events on a GPU, the monotonic clock on a CPU."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

T = TypeVar("T")

# Larger than any GPU's L2 cache (126 MiB on Blackwell), so that writing it leaves nothing else.
FLUSH_BYTES = 512 * 2**20


class Clock(ABC):
    """Times calls; the times of a block become known when the block is read."""

    @abstractmethod
    def measure(self, work: Callable[[], T]) -> T:
        """Runs and times one call.

        Args:
            work: What to time.

        Returns:
            What it returned.
        """

    @abstractmethod
    def read_ms(self) -> list[float]:
        """Waits for the work so far, and gives its times in milliseconds since the last read."""

    @abstractmethod
    def flush_l2(self) -> None:
        """Makes the next call find nothing of the last one in the L2 cache."""

    @abstractmethod
    def synchronize(self) -> None:
        """Waits until everything that was started has ended."""

    @abstractmethod
    def release_memory(self) -> None:
        """Gives memory that is cached but not used back to the device."""

    def once_ms(self, work: Callable[[], object]) -> float:
        """Times one call by itself, what it launches included.

        Args:
            work: What to time.

        Returns:
            Milliseconds on the host's clock, from an idle device to an idle device.
        """
        self.synchronize()
        start = time.perf_counter()
        work()
        self.synchronize()
        return (time.perf_counter() - start) * 1e3


class CpuClock(Clock):
    """The monotonic clock; a CPU's caches are left alone."""

    def __init__(self) -> None:
        self._times_ms: list[float] = []

    def measure(self, work: Callable[[], T]) -> T:
        """Runs and times one call."""
        start = time.perf_counter()
        result = work()
        self._times_ms.append((time.perf_counter() - start) * 1e3)
        return result

    def read_ms(self) -> list[float]:
        """The times since the last read."""
        times, self._times_ms = self._times_ms, []
        return times

    def flush_l2(self) -> None:
        """Nothing: emulated times claim nothing."""

    def synchronize(self) -> None:
        """Nothing: a CPU call has ended when it returns."""

    def release_memory(self) -> None:
        """Nothing: a CPU has no such cache."""


class CudaClock(Clock):
    """CUDA events around each call; nothing waits until a block is read."""

    def __init__(self) -> None:
        self._pairs: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
        self._flush_buffer: Tensor | None = None

    def measure(self, work: Callable[[], T]) -> T:
        """Runs one call between two events on the current stream."""
        start, end = timing_event(), timing_event()
        start.record()
        result = work()
        end.record()
        self._pairs.append((start, end))
        return result

    def read_ms(self) -> list[float]:
        """Waits for the device once, and gives the times since the last read."""
        self.synchronize()
        times = [start.elapsed_time(end) for start, end in self._pairs]
        self._pairs = []
        return times

    def flush_l2(self) -> None:
        """Overwrites a buffer larger than the L2 cache, outside any events."""
        if self._flush_buffer is None:
            self._flush_buffer = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
        self._flush_buffer.zero_()

    def synchronize(self) -> None:
        """Waits for the device."""
        torch.cuda.synchronize()

    def release_memory(self) -> None:
        """Empties PyTorch's cache: what is measured next starts from its own memory."""
        torch.cuda.empty_cache()


def timing_event() -> torch.cuda.Event:
    """A CUDA event that can be timed against another."""
    event: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch's own
    return event


def clock_for(device: str) -> Clock:
    """The clock of a device.

    Args:
        device: cpu or cuda.

    Returns:
        A new clock.
    """
    return CudaClock() if device == "cuda" else CpuClock()
