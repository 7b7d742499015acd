"""Tables of RoPE, plain and YaRN, and the softmax scale that belongs to them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


@dataclass(frozen=True)
class YarnParameters:
    """Parameters of YaRN, which stretches the context; the defaults are DeepSeek-V3's.

    Attributes:
        factor: Factor by which the context grows.
        original_seq_len: Context in tokens that the model was first trained on.
        beta_fast: Frequencies with more turns than this in the original context are kept.
        beta_slow: Frequencies with fewer turns than this are divided by `factor`.
        mscale: Weight of the length correction in the tables.
        mscale_all_dim: Weight of the length correction in the softmax scale.

    Source: Peng et al., YaRN (arXiv 2309.00071), sections 3.2 and 3.4; DeepSeek-V3's config.json.
    """

    factor: float = 40.0
    original_seq_len: int = 4096
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    mscale: float = 1.0
    mscale_all_dim: float = 1.0

    def length_correction(self, weight: float) -> float:
        """Return 0.1 weight ln(factor) + 1, or 1 if the context is not stretched."""
        return 1.0 if self.factor <= 1.0 else 0.1 * weight * math.log(self.factor) + 1.0

    @property
    def table_factor(self) -> float:
        """Factor on cosines and sines; 1 for DeepSeek-V3."""
        return self.length_correction(self.mscale) / self.length_correction(self.mscale_all_dim)


@dataclass(frozen=True)
class RopeTables:
    """Cosines and sines of each position.

    Attributes:
        cos: fp32 [positions, rope_dim], with two equal halves.
        sin: fp32 [positions, rope_dim], with two equal halves.
    """

    cos: Tensor
    sin: Tensor

    @property
    def dim(self) -> int:
        """Width of the rotary slice."""
        return self.cos.shape[-1]

    def __len__(self) -> int:
        return self.cos.shape[0]


class Rotation(NamedTuple):
    """Checked tables, and the row of each token.

    Attributes:
        cos: fp32 [positions, rope_dim].
        sin: fp32 [positions, rope_dim].
        positions: int64 [s], or None if token i takes row i.
    """

    cos: Tensor
    sin: Tensor
    positions: Tensor | None

    @property
    def dim(self) -> int:
        """Width of the rotary slice."""
        return self.cos.shape[-1]

    def rows(self, seq_len: int) -> tuple[Tensor, Tensor]:
        """Return cosines and sines of each token, [s, rope_dim].

        A position outside the tables gives NaN and no error: reading positions on a GPU to check
        them would stall it.
        """
        if self.positions is None:
            return self.cos[:seq_len], self.sin[:seq_len]
        last = len(self.cos) - 1
        inside = ((self.positions >= 0) & (self.positions <= last))[:, None]
        index = self.positions.clamp(0, last)
        return (
            torch.where(inside, self.cos[index], torch.nan),
            torch.where(inside, self.sin[index], torch.nan),
        )


def rope_tables(
    positions: int | Tensor,
    dim: int,
    *,
    base: float = 10000.0,
    yarn: YarnParameters | None = None,
    device: torch.device | str | None = None,
) -> RopeTables:
    """Compute the tables; angles are FP64, rounded once to FP32.

    Args:
        positions: Number of positions from 0, or the positions themselves: integers, [positions]
            (see `context_parallel_positions`).
        dim: Width of the rotary slice, even.
        base: Frequency i is base^(-2 i / dim).
        yarn: Stretches the frequencies; None is plain RoPE.
        device: Device of the tables; by default that of `positions`, or the CPU.

    Returns:
        The tables, one row for each position.

    Raises:
        ValueError: `dim` is odd or not positive, or `positions` are not integers with one axis.
    """
    if dim <= 0 or dim % 2:
        raise ValueError(f"dim must be a positive even number, got {dim}")
    if isinstance(positions, Tensor):
        if positions.dim() != 1 or not holds_integers(positions):
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
    """Return the factor of attention on Q K^T.

    Args:
        head_dim_qk: Width of a query head, nope and rope together.
        yarn: The parameters that the tables were made with.

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
        seq_len: Tokens of the whole sequence.
        cp_size: Number of ranks.
        cp_rank: This rank.
        device: Device of the result.

    Returns:
        int64 [seq_len / cp_size].

    Raises:
        ValueError: The sequence does not divide into 2 cp_size chunks, or the rank does not exist.
    """
    if cp_size < 1:
        raise ValueError(f"cp_size must be at least 1, got {cp_size}")
    if seq_len % (2 * cp_size):
        raise ValueError(f"seq_len must be a multiple of 2 x {cp_size} ranks, got {seq_len}")
    if not 0 <= cp_rank < cp_size:
        raise ValueError(f"cp_rank must be from 0 to {cp_size - 1}, got {cp_rank}")
    chunks = torch.arange(seq_len, device=device).view(2 * cp_size, -1)
    return torch.cat((chunks[cp_rank], chunks[2 * cp_size - 1 - cp_rank]))


def holds_integers(x: Tensor) -> bool:
    """Return True for any integer dtype; bool is none."""
    return not (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool)


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
