"""Times a kernel on a GPU: graph replays over data larger than the L2, medians of CUDA events."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import torch

# Several times the L2 of any GPU at hand (60 MB on an H200), so that nothing is found there.
_ROTATED_BYTES = 600e6
_REPLAYS = 15


def copies_needed(floor_bytes: int) -> int:
    """Return how many sets of data to rotate over so that each is cold when its turn comes."""
    return max(2, min(64, -(-int(_ROTATED_BYTES) // floor_bytes)))


def graph_ms(runs: Sequence[Callable[[], None]]) -> float:
    """Return the median time of one run, in ms, when all `runs` are replayed as one CUDA graph.

    A graph leaves out what the host does between launches: the time is the kernels' own, and the
    gaps that the GPU needs between them.
    """
    for run in runs:
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for run in runs:
            run()
    for _ in range(3):
        graph.replay()
    return _median_event_ms(graph.replay, _REPLAYS) / len(runs)


def queued_ms(run: Callable[[], None], repeats: int = _REPLAYS) -> float:
    """Return the median time of `run`, in ms, its launches queued behind a short sleep.

    The sleep lets the host run ahead, as it does in a training step.
    """
    return _median_event_ms(run, repeats, sleep_cycles=4_000_000)


def copy_tb_s(total_bytes: int) -> float:
    """Return the bandwidth of a device-to-device copy, read and written bytes together, TB/s.

    The faster of two ways counts: in a CUDA graph a long copy becomes a memcpy node, which reached
    2.8 TB/s on an H200 where the same copies launched one after another reached 4.3.

    Args:
        total_bytes: what one copy reads and writes together.
    """
    elements = total_bytes // 2 // 2
    sources = [
        torch.randn(elements, dtype=torch.bfloat16, device="cuda")
        for _ in range(copies_needed(total_bytes))
    ]
    pairs = [(torch.empty_like(source), source) for source in sources]

    def copier(target: torch.Tensor, source: torch.Tensor) -> Callable[[], None]:
        return lambda: (target.copy_(source), None)[1]

    copies = [copier(*pair) for pair in pairs]

    def all_copies() -> None:
        for copy in copies:
            copy()

    fastest_ms = min(graph_ms(copies), queued_ms(all_copies) / len(copies))
    return total_bytes / fastest_ms / 1e9


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # as below


def _median_event_ms(run: Callable[[], object], repeats: int, sleep_cycles: int = 0) -> float:
    samples: list[float] = []
    for _ in range(repeats):
        start, stop = _event(), _event()
        if sleep_cycles:
            torch.cuda._sleep(sleep_cycles)  # type: ignore[no-untyped-call]  # untyped in torch
        start.record()
        run()
        stop.record()
        torch.cuda.synchronize()
        samples.append(start.elapsed_time(stop))
    return statistics.median(samples)
