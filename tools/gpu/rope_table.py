"""The RoPE kernels on the page of the H200, from the record of `tools.gpu.rope`."""

from __future__ import annotations

from typing import Any

from tools.gpu.tables import table


def rope_kernels(record: dict[str, Any]) -> str:
    """Times of the kernels, what they must move at least, and what is left above that.

    Args:
        record: What `tools.gpu.rope` wrote.

    Returns:
        Markdown.
    """
    copy, shares = record["copy"]["long"], _shares_of_copies(record["other_shapes"])
    words = (
        f"`python -m tools.gpu.rope` at shape=dsv3 in bf16, beside a copy that ran at {copy:.2f} "
        "TB/s; the floor is what must be read and written once, at that rate. A first call took "
        f"{record['first_call']['warm_cache_s']:.2f} s with a warm compile cache, "
        f"{record['first_call']['empty_cache_s']:.2f} s with an empty one."
    )
    kernels = [
        (name, f"{row['ms']:.4f}", f"{row['floor_bytes'] / 1e6:.0f}", f"{row['share']:.3f}")
        for name, row in record["kernels"].items()
    ]
    totals = [
        (
            name,
            f"{row['ms']:.3f}",
            f"{row['floor_bytes'] / 1e6:.0f}",
            f"{row['floor_ms']:.3f}",
            f"{row['left_ms']:.3f}",
            f"{row['share']:.3f}",
        )
        for name, row in record["totals"].items()
    ]
    return "\n\n".join(
        (
            words,
            table(("kernel", "ms", "floor (MB)", "share of copy"), kernels),
            table(
                ("forward and backward", "ms", "floor (MB)", "floor (ms)", "left (ms)", "share"),
                totals,
            ),
            "At other shapes, the slowest and the fastest kernel as a share of a copy of as many "
            "bytes: what is short is never as fast as what is long.",
            table(("shape", "least", "kernel", "largest", "kernel"), shares),
        )
    )


def _shares_of_copies(shapes: dict[str, Any]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for shape, kernels in shapes.items():
        shares = sorted((row["share_of_equal_copy"], name) for name, row in kernels.items())
        (least, slowest), (largest, fastest) = shares[0], shares[-1]
        rows.append((shape, f"{least:.3f}", slowest, f"{largest:.3f}", fastest))
    return rows
