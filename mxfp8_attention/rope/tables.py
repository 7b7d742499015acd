"""Tables of RoPE, plain and YaRN, and the softmax scale that goes with them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class YarnParameters:
    """How YaRN stretches the context; the defaults are DeepSeek-V3's.

    Attributes:
        factor: how many times longer the context becomes.
        original_seq_len: tokens of the context that the model was first trained on.
        beta_fast: a frequency that turns more often than this in the original context is kept.
        beta_slow: one that turns less often than this is divided by `factor`.
        mscale: weight of the length correction in the tables.
        mscale_all_dim: weight of the length correction in the softmax scale.

    Source: Peng et al., YaRN (arXiv 2309.00071), sections 3.2 and 3.4; DeepSeek-V3's config.json.
    """

    factor: float = 40.0
    original_seq_len: int = 4096
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    mscale: float = 1.0
    mscale_all_dim: float = 1.0

    def length_correction(self, weight: float) -> float:
        """Return 0.1 weight ln(factor) + 1, or 1 where the context is not stretched."""
        return 1.0 if self.factor <= 1.0 else 0.1 * weight * math.log(self.factor) + 1.0

    @property
    def table_factor(self) -> float:
        """What cosines and sines are multiplied with; 1 for DeepSeek-V3."""
        return self.length_correction(self.mscale) / self.length_correction(self.mscale_all_dim)


@dataclass(frozen=True)
class RopeTables:
    """Cosines and sines for each position.

    Attributes:
        cos: fp32 [positions, rope_dim], its two halves equal.
        sin: fp32 [positions, rope_dim], its two halves equal.
    """

    cos: Tensor
    sin: Tensor

    @property
    def dim(self) -> int:
        """Width of the rotary slice that these tables rotate."""
        return self.cos.shape[-1]

    def __len__(self) -> int:
        return self.cos.shape[0]


def rope_tables(
    positions: int | Tensor,
    dim: int,
    *,
    base: float = 10000.0,
    yarn: YarnParameters | None = None,
    device: torch.device | str | None = None,
) -> RopeTables:
    """Compute the tables; angles in FP64, rounded once to FP32.

    Args:
        positions: how many positions, counted from 0, or the positions themselves, [positions],
            of any integer dtype (see `context_parallel_positions`).
        dim: width of the rotary slice, even.
        base: frequency i is base^(-2 i / dim).
        yarn: stretch the frequencies; plain RoPE without it.
        device: where the tables shall be; by default where `positions` is, or the CPU.

    Returns:
        The tables, one row for each position.

    Raises:
        ValueError: `dim` is odd or not positive, or `positions` are no integers with one axis.
    """
    if dim <= 0 or dim % 2:
        raise ValueError(f"dim must be a positive even number, got {dim}")
    if isinstance(positions, Tensor):
        no_integers = positions.is_floating_point() or positions.dtype == torch.bool
        if positions.dim() != 1 or no_integers:
            raise ValueError(
                "positions must be integers with one axis, "
                f"got {positions.dtype} of shape {tuple(positions.shape)}"
            )
        device = positions.device if device is None else device
        index = positions.to(device=device, dtype=torch.float64)
    else:
        if positions < 0:
            raise ValueError(f"positions must be at least 0, got {positions}")
        index = torch.arange(positions, dtype=torch.float64, device=device)
    frequencies = _frequencies(dim, base, yarn).to(index.device)
    angles = torch.outer(index, frequencies)
    factor = 1.0 if yarn is None else yarn.table_factor
    cos, sin = ((table * factor).to(torch.float32) for table in (angles.cos(), angles.sin()))
    return RopeTables(cos=torch.cat((cos, cos), dim=-1), sin=torch.cat((sin, sin), dim=-1))


def softmax_scale(head_dim_qk: int, yarn: YarnParameters | None = None) -> float:
    """Return what attention multiplies Q K^T with.

    Args:
        head_dim_qk: width of a query head, nope and rope together.
        yarn: the stretch that the tables were made with.

    Returns:
        head_dim_qk^-0.5, times the squared length correction of YaRN.

    Source: DeepSeek-V3's inference code, MLA.softmax_scale.
    """
    correction = 1.0 if yarn is None else yarn.length_correction(yarn.mscale_all_dim)
    return float(head_dim_qk**-0.5 * correction * correction)


def context_parallel_positions(
    seq_len: int, cp_size: int, cp_rank: int, device: torch.device | str | None = None
) -> Tensor:
    """Return the positions of the tokens that one rank of context parallelism holds.

    The sequence is cut into 2 cp_size chunks; rank r holds chunks r and 2 cp_size - 1 - r, so that
    every rank has the same work under a causal mask.

    Args:
        seq_len: tokens of the whole sequence.
        cp_size: ranks that share it.
        cp_rank: this rank.
        device: where the result shall be.

    Returns:
        int64 [seq_len / cp_size].

    Raises:
        ValueError: the sequence does not divide into 2 cp_size chunks, or there is no such rank.
    """
    if cp_size < 1:
        raise ValueError(f"cp_size must be at least 1, got {cp_size}")
    if seq_len % (2 * cp_size):
        raise ValueError(f"seq_len must be a multiple of 2 x {cp_size} ranks, got {seq_len}")
    if not 0 <= cp_rank < cp_size:
        raise ValueError(f"cp_rank must be from 0 to {cp_size - 1}, got {cp_rank}")
    chunks = torch.arange(seq_len, device=device).view(2 * cp_size, -1)
    return torch.cat((chunks[cp_rank], chunks[2 * cp_size - 1 - cp_rank]))


def _frequencies(dim: int, base: float, yarn: YarnParameters | None) -> Tensor:
    """Return the angle per position of each pair, FP64 [dim / 2]."""
    plain = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    if yarn is None:
        return plain

    def pair_that_turns(times: float) -> float:
        """Return the (fractional) pair that turns `times` within the original context."""
        period = yarn.original_seq_len / (times * 2 * math.pi)
        return dim * math.log(period) / (2 * math.log(base))

    first = max(math.floor(pair_that_turns(yarn.beta_fast)), 0)
    last = min(math.ceil(pair_that_turns(yarn.beta_slow)), dim - 1)
    width = max(last - first, 1e-3)
    stretched = ((torch.arange(dim // 2, dtype=torch.float64) - first) / width).clamp(0, 1)
    return plain * (1 - stretched) + plain / yarn.factor * stretched
