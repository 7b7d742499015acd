"""What calls of the public RoPE functions cost: through autograd, and a process's first one.

python -m tools.gpu.rope.calls     prints the seconds of this process's first call
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from typing import cast

import torch

from mxfp8_attention.rope import mla_rope_kv, mla_rope_q, rope_tables
from tools.gpu.rope.cases import Shape
from tools.gpu.rope.timing import queued_ms

FIRST_CALL_GOAL_S = 1.0


def through_autograd(shape: Shape) -> dict[str, float]:
    """Time the public functions forward and backward, split layout, q and its gradient in place.

    Unlike the kernels' own times this includes the allocations, the launches and autograd.
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
    # In place needs a tensor that is no leaf, as a projection's result is none.
    queries = [leaf_q * 1 for _ in range(24)]

    def step() -> None:
        q = queries.pop()
        edge = torch.autograd.graph.get_gradient_edge(q)
        rotated = mla_rope_q(q, tables, rope_dim=shape.rope_dim, inplace=True, inplace_grad=True)
        k, v = mla_rope_kv(kv, k_pe, tables, nope_dim=shape.nope_dim)
        # mypy's stub knows lists of tensors or of edges, but no mixture.
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
    # What autograd itself imports at its first call is not RoPE's.
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
                [sys.executable, "-m", "tools.gpu.rope.calls"],
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
