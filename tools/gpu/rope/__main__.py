r"""Measures MLA RoPE on one GPU against the copy bandwidth of the same run.

    python -m tools.gpu.rope --output rope.json     kernels, totals, checks, other shapes
    python -m tools.gpu.rope --candidates           block sizes of each kernel
    PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool memcheck \
        python -m tools.gpu.rope --sanitize         small runs for compute-sanitizer

Needs torch and triton only. A part that fails prints its traceback and is listed in the record
under `failed`; the other parts still run, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch

from mxfp8_attention.rope.triton import Tile
from tools.gpu.rope import checks as rope_checks
from tools.gpu.rope.cases import KERNELS, Shape, build
from tools.gpu.rope.timing import (
    copies_needed,
    copy_tb_s,
    first_calls,
    graph_ms,
    through_autograd,
)

DSV3 = Shape(4096, 1, 128)
# Lengths and head counts for which the share of the bandwidth must not drop.
OTHER_SHAPES = tuple(Shape(seq_len, 4, heads) for seq_len in (512, 32768) for heads in (16, 64))

FEW_HEADS = Shape(32768, 4, 16)

# Lowest allowed share of the copy bandwidth at DSV3.
KERNEL_GOALS = {
    "q_fprop_inplace": 0.75,
    "q_bprop_inplace": 0.75,
    "q_fprop": 0.85,
    "q_bprop": 0.85,
    "kv_split_fprop": 0.90,
    "kv_split_bprop": 0.90,
}
_Q_IN_PLACE, _Q = ("q_fprop_inplace", "q_bprop_inplace"), ("q_fprop", "q_bprop")
_SPLIT, _FUSED = ("kv_split_fprop", "kv_split_bprop"), ("k_fused_fprop", "k_fused_bprop")
# The kernels of RoPE forward and backward. Their goal is one share: 0.41 ms for the first of them
# if a copy runs at 4.25 TB/s.
TOTALS = {
    "split, q in place": (*_Q_IN_PLACE, *_SPLIT),
    "split, q out of place": (*_Q, *_SPLIT),
    "fused, q in place": (*_Q_IN_PLACE, *_FUSED),
    "fused, q out of place": (*_Q, *_FUSED),
}
TOTAL_GOAL = 0.85
CANDIDATES = tuple(
    Tile(heads, num_warps)
    for heads in (4, 8, 16, 32, 64, 128)
    for num_warps in (1, 2, 4, 8, 16)
    if 1 <= heads // num_warps <= 16
)

Result = TypeVar("Result")


class Report:
    """Results of the parts, and errors of those that failed."""

    def __init__(self) -> None:
        self.parts: dict[str, object] = {}
        self.failed: dict[str, str] = {}

    def part(self, name: str, run: Callable[[], Result]) -> Result | None:
        """Run one part; return its result, or None after printing its traceback."""
        start = time.monotonic()
        print(f"\n== {name}", flush=True)
        result = None
        try:
            result = self.parts[name] = run()
        except Exception as error:  # the other parts still run
            traceback.print_exc(file=sys.stdout)
            self.failed[name] = f"{type(error).__name__}: {error}"
        torch.cuda.empty_cache()
        print(f"   {time.monotonic() - start:.1f} s", flush=True)
        return result


def environment() -> dict[str, str | int]:
    """Return the GPU and the libraries."""
    import triton

    properties = torch.cuda.get_device_properties(0)
    return {
        "gpu": properties.name,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "multiprocessors": properties.multi_processor_count,
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
        "triton": triton.__version__,
        "python": sys.version.split()[0],
    }


def kernel_row(
    kernel: str, shape: Shape, copy: float, tile: Tile | None = None
) -> dict[str, float]:
    """Time one kernel; return ms, floor in bytes, TB/s and the share of `copy` TB/s."""
    floor_bytes = shape.floor_bytes(kernel)
    cases = [build(kernel, shape, tile) for _ in range(copies_needed(floor_bytes))]
    ms = graph_ms([case.run for case in cases])
    tb_s = floor_bytes / ms / 1e9
    return {"ms": ms, "floor_bytes": floor_bytes, "tb_s": tb_s, "share": tb_s / copy}


def kernel_table(shape: Shape, copy: float) -> dict[str, dict[str, float]]:
    """Time every kernel at one shape and print the shares of the copy bandwidth."""
    rows = {}
    for kernel in KERNELS:
        rows[kernel] = kernel_row(kernel, shape, copy)
        row, goal = rows[kernel], KERNEL_GOALS.get(kernel) if shape == DSV3 else None
        print(
            f"  {shape!s:22} {kernel:16} {row['ms']:8.4f} ms "
            f"{row['floor_bytes'] / 1e6:8.1f} MB {row['tb_s']:6.3f} TB/s  "
            f"share {row['share']:.3f}{_verdict(row['share'], goal)}",
            flush=True,
        )
        torch.cuda.empty_cache()
    return rows


def other_shape(shape: Shape, copy: float) -> dict[str, dict[str, float]]:
    """Time every kernel at one shape, also against a copy of the same size.

    Short kernels reach less bandwidth than long ones; a kernel is slow if a copy is faster.
    """
    rows = kernel_table(shape, copy)
    for row in rows.values():
        equal_copy = copy_tb_s(int(row["floor_bytes"]))
        row["share_of_equal_copy"] = row["tb_s"] / equal_copy
        torch.cuda.empty_cache()
    shares = ", ".join(f"{name} {row['share_of_equal_copy']:.3f}" for name, row in rows.items())
    print(f"  {shape!s:22} of a copy of as many bytes: {shares}", flush=True)
    return rows


def _verdict(share: float, goal: float | None) -> str:
    return "" if goal is None else f"  goal {goal:.2f} {'met' if share >= goal else 'MISSED'}"


def totals(rows: dict[str, dict[str, float]], copy: float) -> dict[str, dict[str, float]]:
    """Add kernels up to all of RoPE, forward and backward."""
    result = {}
    for name, kernels in TOTALS.items():
        ms = sum(rows[kernel]["ms"] for kernel in kernels)
        floor_bytes = sum(rows[kernel]["floor_bytes"] for kernel in kernels)
        floor_ms = floor_bytes / copy / 1e9
        share = floor_ms / ms
        result[name] = {
            "ms": ms,
            "floor_bytes": floor_bytes,
            "floor_ms": floor_ms,
            "left_ms": ms - floor_ms,
            "share": share,
        }
        print(
            f"  {name:22} {ms:.4f} ms, floor {floor_bytes / 1e6:.1f} MB = {floor_ms:.4f} ms, "
            f"left {ms - floor_ms:.4f} ms  share {share:.3f}{_verdict(share, TOTAL_GOAL)}"
        )
    return result


def compare_candidates(shape: Shape, copy: float) -> dict[str, dict[str, float]]:
    """Time every block size of each kernel, and print the best of each first."""
    result = {}
    for kernel in KERNELS:
        shares = {}
        for tile in CANDIDATES:
            if tile.heads <= shape.heads:
                row = kernel_row(kernel, shape, copy, tile)
                shares[f"{tile.heads} heads {tile.num_warps} warps"] = row["share"]
                torch.cuda.empty_cache()
        shares["by rule"] = kernel_row(kernel, shape, copy)["share"]
        result[kernel] = dict(sorted(shares.items(), key=lambda item: -item[1]))
        best = ", ".join(f"{name} {share:.3f}" for name, share in list(result[kernel].items())[:8])
        print(f"  {kernel:16} rule {shares['by rule']:.3f}; {best}", flush=True)
    return result


def checks() -> list[str]:
    """Check the kernels' results."""
    passed = [rope_checks.check_exact(shape) for shape in rope_checks.SHAPES]
    passed.append(rope_checks.check_repeats(Shape(1024, 1, 128)))
    passed.append(rope_checks.check_strides_and_formats())
    passed.append(rope_checks.check_large_offsets())
    print("\n".join(f"  {line}" for line in passed))
    return passed


def copies() -> dict[str, float]:
    """Measure the copy bandwidth in TB/s: of a long copy, and of the sizes of two kernels."""
    result = {
        "long": copy_tb_s(8 * 2**30),
        "kv_bytes": copy_tb_s(DSV3.floor_bytes("kv_split_fprop")),
        "q_bytes": copy_tb_s(DSV3.floor_bytes("q_fprop_inplace")),
    }
    print("  " + ", ".join(f"{name} {tb_s:.3f} TB/s" for name, tb_s in result.items()))
    return result


def main() -> int:
    """Run the selected parts, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, help="write the record here, as JSON")
    parser.add_argument("--candidates", action="store_true", help="compare block sizes only")
    parser.add_argument("--sanitize", action="store_true", help="small runs for compute-sanitizer")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("no CUDA GPU here; run this on a GPU node", file=sys.stderr)
        return 2
    torch.manual_seed(42)
    if arguments.sanitize:
        print(rope_checks.run_for_sanitizer())
        return 0

    report = Report()
    print(f"  {report.part('environment', environment)}")
    bandwidth = report.part("copy", copies)
    if bandwidth is None:
        return 1
    copy = bandwidth["long"]
    if arguments.candidates:
        report.part("candidates", lambda: compare_candidates(DSV3, copy))
        report.part("few_heads", lambda: compare_candidates(FEW_HEADS, copy))
    else:
        rows = report.part("kernels", lambda: kernel_table(DSV3, copy))
        if rows is not None:
            report.part("totals", lambda: totals(rows, copy))
        report.part("autograd", lambda: through_autograd(DSV3))
        report.part("first_call", first_calls)
        report.part("checks", checks)
        report.part(
            "other_shapes",
            lambda: {str(shape): other_shape(shape, copy) for shape in OTHER_SHAPES},
        )
    if report.failed:
        print(f"\nfailed: {report.failed}")
    if arguments.output:
        record = {**report.parts, "failed": report.failed}
        arguments.output.write_text(json.dumps(record, indent=1) + "\n")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
