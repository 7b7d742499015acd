"""Times RoPE on a GPU: kernels by graph replays, public calls, and the first call of a process.

python -m tools.gpu.rope.timing     prints the seconds of this process's first call
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import cast

import torch

from jobs.node.clock import timing_event
from mxfp8_attention.rope import mla_rope_kv, mla_rope_q, rope_tables
from tools.gpu.rope.cases import Shape

# Several times the L2 cache (60 MB on an H200), so that all data is cold.
_ROTATED_BYTES = 600e6
_REPLAYS = 15
FIRST_CALL_GOAL_S = 1.0


def copies_needed(floor_bytes: int) -> int:
    """Return the number of data sets to rotate over so that each is cold when it is used."""
    return max(2, min(64, -(-int(_ROTATED_BYTES) // floor_bytes)))


def graph_ms(runs: Sequence[Callable[[], None]]) -> float:
    """Return the median time of one run, in ms, when all `runs` are replayed as one CUDA graph.

    This excludes the host: it is the time of the kernels and of the gaps between them.
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
    """Return the bandwidth of a device-to-device copy in TB/s, reads and writes together.

    The faster of two ways counts: in a CUDA graph a long copy becomes a memcpy node, which reached
    2.8 TB/s on an H200, while the same copies launched one by one reached 4.3.
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


def _median_event_ms(run: Callable[[], object], repeats: int, sleep_cycles: int = 0) -> float:
    samples: list[float] = []
    for _ in range(repeats):
        start, stop = timing_event(), timing_event()
        if sleep_cycles:
            torch.cuda._sleep(sleep_cycles)  # type: ignore[no-untyped-call]  # untyped in torch
        start.record()
        run()
        stop.record()
        torch.cuda.synchronize()
        samples.append(start.elapsed_time(stop))
    return statistics.median(samples)


def through_autograd(shape: Shape) -> dict[str, float]:
    """Time the public functions forward and backward, split layout, q and its gradient in place.

    Unlike the kernels' own times, this includes allocations, launches and autograd.
    """
    tables = rope_tables(shape.seq_len, shape.rope_dim, device="cuda")
    size = (shape.seq_len, shape.batch)

    def random(heads: int, width: int) -> torch.Tensor:
        return torch.randn(*size, heads, width, dtype=shape.dtype, device="cuda")

    head_dim_qk = shape.nope_dim + shape.rope_dim
    leaf_q = random(shape.heads, head_dim_qk).requires_grad_()
    kv = random(shape.heads, shape.nope_dim + shape.value_dim).requires_grad_()
    k_pe = random(1, shape.rope_dim).requires_grad_()
    grads = (
        random(shape.heads, head_dim_qk),
        random(shape.heads, head_dim_qk),
        random(shape.heads, shape.value_dim),
    )
    # In-place rotation needs tensors that are not leaves, like the result of a projection.
    queries = [leaf_q * 1 for _ in range(24)]

    def step() -> None:
        q = queries.pop()
        edge = torch.autograd.graph.get_gradient_edge(q)
        rotated = mla_rope_q(q, tables, rope_dim=shape.rope_dim, inplace=True, inplace_grad=True)
        k, v = mla_rope_kv(kv, k_pe, tables, nope_dim=shape.nope_dim)
        # torch's stub allows tensors or edges, but not both.
        inputs = cast("tuple[torch.Tensor, ...]", (edge, kv, k_pe))
        torch.autograd.grad((rotated, k, v), inputs, grads)

    for _ in range(4):
        step()
    ms = queued_ms(step)
    print(f"  forward and backward through autograd, split, q in place: {ms:.4f} ms")
    return {"ms": ms}


def first_call_s() -> float:
    """Return the seconds of RoPE's first forward and backward in this process."""
    tables = rope_tables(4096, 64, device="cuda")
    q = torch.randn(4096, 1, 128, 192, dtype=torch.bfloat16, device="cuda", requires_grad=True)
    kv = torch.randn(4096, 1, 128, 256, dtype=torch.bfloat16, device="cuda", requires_grad=True)
    k_pe = torch.randn(4096, 1, 1, 64, dtype=torch.bfloat16, device="cuda", requires_grad=True)
    # Import what autograd itself needs, which does not count.
    torch.autograd.backward((q * 1, kv * 1), (q, kv))
    torch.cuda.synchronize()
    start = time.perf_counter()
    rotated = mla_rope_q(q, tables, rope_dim=64)
    k, v = mla_rope_kv(kv, k_pe, tables, nope_dim=128)
    torch.autograd.backward((rotated, k, v), (rotated, k, v))
    torch.cuda.synchronize()
    return time.perf_counter() - start


def first_calls() -> dict[str, float]:
    """Time the first call in new processes, with an empty compile cache and with a warm one."""
    result = {}
    with tempfile.TemporaryDirectory() as cache:
        for name in ("empty_cache_s", "warm_cache_s"):
            child = subprocess.run(
                [sys.executable, "-m", "tools.gpu.rope.timing"],
                env=os.environ | {"TRITON_CACHE_DIR": cache},
                capture_output=True,
                text=True,
                check=False,
            )
            if child.returncode:
                raise RuntimeError(child.stderr)
            result[name] = float(child.stdout)
            print(f"  first forward and backward, {name}: {result[name]:.3f}")
    met = result["warm_cache_s"] < FIRST_CALL_GOAL_S
    print(f"  goal {FIRST_CALL_GOAL_S} s with a warm cache {'met' if met else 'MISSED'}")
    return result


if __name__ == "__main__":
    print(first_call_s())
