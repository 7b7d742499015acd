"""How FP32 matrix products run on a GPU: in full, or on tensor cores where that is exact."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def matmul_precision(*, exact_in_tf32: bool) -> Iterator[None]:
    """Set the precision of FP32 products and put it back afterwards.

    TF32 keeps 10 mantissa bits: a bf16 value, or an FP8 value times a power of two, passes
    unchanged, its products are exact and are summed in FP32 as a BF16 or FP8 product's are.

    Args:
        exact_in_tf32: Whether every operand is such a value. False: no TF32 anywhere.
    """
    before = torch.get_float32_matmul_precision()
    # On a CPU "high" may mean bf16 pieces; there it stays "highest".
    use_tf32 = exact_in_tf32 and torch.cuda.is_available()
    torch.set_float32_matmul_precision("high" if use_tf32 else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
