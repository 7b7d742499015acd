"""FP32 matrix products: their precision on a GPU, and attention's in pieces that fit into memory.

Axes: S tokens, B batch, H heads, D width of a head, N = B * H heads of all sequences.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

_CPU_BUDGET_BYTES = 256 * 2**20
_GPU_SHARE_OF_FREE = 0.4


@contextmanager
def matmul_precision(*, exact_in_tf32: bool) -> Iterator[None]:
    """Use TF32 for FP32 products if it is exact for every operand, and never otherwise.

    TF32 keeps 10 mantissa bits: a bf16 value, or an FP8 value times a power of two, is unchanged.
    Its products are exact and summed in FP32, as those of BF16 and FP8 are.
    """
    before = torch.get_float32_matmul_precision()
    # On a CPU "high" may split operands into bf16 pieces; there it stays "highest".
    use_tf32 = exact_in_tf32 and torch.cuda.is_available()
    torch.set_float32_matmul_precision("high" if use_tf32 else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def to_NSD(x_SBHD: Tensor) -> Tensor:
    """Reorder [s, b, h, d] to [b * h, s, d]; a copy unless it is dense in that order."""
    return x_SBHD.permute(1, 2, 0, 3).flatten(0, 1)


def to_SBHD(x_NSD: Tensor, batch: int) -> Tensor:
    """View [b * h, s, d] as [s, b, h, d]."""
    return torch.unflatten(x_NSD, 0, (batch, -1)).permute(2, 0, 1, 3)


def piece_bytes(seq_len_q: int, seq_len_kv: int, planes: int) -> int:
    """Return the bytes of one head with `planes` FP32 [s_q, s_kv] tensors alive at once."""
    return 4 * planes * seq_len_q * seq_len_kv


def head_pieces(
    heads: int, seq_len_q: int, seq_len_kv: int, planes: int, device: torch.device
) -> Iterator[slice]:
    """Cut heads into slices whose temporaries fit: 256 MiB on a CPU, 2/5 of a GPU's free memory.

    A slice has at least one head, whatever the memory. `planes` is as for `piece_bytes`.
    """
    budget = _CPU_BUDGET_BYTES
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        budget = int(_GPU_SHARE_OF_FREE * (torch.cuda.mem_get_info(device)[0] + cached))
    step = max(1, budget // piece_bytes(seq_len_q, seq_len_kv, planes))
    for start in range(0, heads, step):
        yield slice(start, min(start + step, heads))
