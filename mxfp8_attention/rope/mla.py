"""MLA RoPE: rotate queries, and give every head the one shared rotary key, with gradients.

Axes: S sequence, B batch, T packed tokens, H heads, D width of a head. Q and K heads are
[nope | rope]; only the rope columns are rotated. They are interleaved going in and half-split
coming out (see `rope.eager`), as in DeepSeek-V3's weights.

K has one of two layouts. Fused: k [s, b, h, nope + rope], of which head 0's rope columns are the
shared rotary key and the other heads' are never read (`mla_rope_k`). Split: kv [s, b, h, nope + v]
and the shared key by itself, [s, b, 1, rope] (`mla_rope_kv`). In both, the key's gradient is the
FP32 sum over heads, rotated back and rounded once.

Every function takes `qkv_format`: sbhd, bshd, or thd with `cu_seqlens`, where tokens of all
sequences are packed into one axis and each sequence starts at position 0 (queries and keys may
have different cu_seqlens). `positions` changes that: an offset is the position of the first token,
or of the first token of each packed sequence; a tensor is the table row of each token, whatever
its sequence. The result has the dtype and the format of the input and is dense.

`kernel` is eager (plain PyTorch), triton (fused), or auto: triton on a GPU, else eager. There is
no silent fallback: a GPU without Triton is an error.
"""

from __future__ import annotations

from typing import SupportsIndex

import torch
from torch import Tensor

from mxfp8_attention.rope.layouts import QKV_FORMATS, from_sbhd, overlaps_itself, to_sbhd
from mxfp8_attention.rope.operators import (
    rope_k_fused,
    rope_kv_split,
    rope_q,
    rotate_in_place,
)
from mxfp8_attention.rope.tables import RopeTables, Rotation, holds_integers

_DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


def mla_rope_q(
    q: Tensor,
    tables: RopeTables,
    *,
    rope_dim: int,
    qkv_format: str = "sbhd",
    cu_seqlens: Tensor | None = None,
    positions: Tensor | int | None = None,
    kernel: str = "auto",
    inplace: bool = False,
    inplace_grad: bool = False,
) -> Tensor:
    """Rotate the last `rope_dim` columns of every query head.

    Args:
        q: [s, b, h, nope + rope], or as `qkv_format` says; bf16, fp16, fp32 or fp64, any strides.
        tables: Result of `rope_tables`, `rope_dim` wide.
        rope_dim: Width of the rotary slice, even.
        qkv_format: sbhd, bshd or thd.
        cu_seqlens: thd only, int [sequences + 1]: the start of each sequence, then the end of the
            last one. Tokens after it are padding and take position 0.
        positions: Position of the first token (with cu_seqlens, of each sequence's first), or int
            [s] (thd: [t]): the table row of each token.
        kernel: auto, eager or triton.
        inplace: Overwrite q's rotary columns instead of copying q; autograd tracks the change.
        inplace_grad: With `inplace`, let backward overwrite the incoming gradient too. Correct
            only if nothing else reads that gradient, as when only attention uses the result.

    Returns:
        The rotated queries, in the shape of q; q itself with `inplace`.

    Raises:
        ValueError: Shapes, dtypes, positions or kernel are inconsistent.
        ImportError: q is on a GPU, `kernel` is not eager and Triton is not installed.
    """
    _check_data("q", q, qkv_format, rope_dim)
    if inplace_grad and not inplace:
        raise ValueError("inplace_grad needs inplace=True")
    if inplace and overlaps_itself(q):
        raise ValueError(
            f"q must hold each element once to be rotated in place, got strides {q.stride()} "
            f"for shape {tuple(q.shape)}; leave inplace=False"
        )
    rotation = _rotation(q, tables, rope_dim, qkv_format, cu_seqlens, positions)
    if inplace:
        return rotate_in_place(q, rotation, qkv_format, inplace_grad, kernel)
    q_SBHD = to_sbhd(q, qkv_format)
    out = rope_q(q_SBHD, *rotation, qkv_format == "bshd", False, kernel)
    return from_sbhd(out, qkv_format)


def mla_rope_k(
    k: Tensor,
    tables: RopeTables,
    *,
    rope_dim: int,
    qkv_format: str = "sbhd",
    cu_seqlens: Tensor | None = None,
    positions: Tensor | int | None = None,
    kernel: str = "auto",
) -> Tensor:
    """Fused layout: rotate head 0's rotary slice and give it to every head of k.

    Args:
        k: [s, b, h, nope + rope], or as `qkv_format` says. V is not rotated and not passed.
        tables: As for `mla_rope_q`.
        rope_dim: As for `mla_rope_q`.
        qkv_format: As for `mla_rope_q`.
        cu_seqlens: As for `mla_rope_q`.
        positions: As for `mla_rope_q`.
        kernel: As for `mla_rope_q`.

    Returns:
        [s, b, h, nope + rope]. Backward sends the rotary gradient of all heads to head 0's slice
        and exact zeros to the slices of the others.

    Raises:
        ValueError: Shapes, dtypes, positions or kernel are inconsistent.
        ImportError: k is on a GPU, `kernel` is not eager and Triton is not installed.
    """
    _check_data("k", k, qkv_format, rope_dim)
    rotation = _rotation(k, tables, rope_dim, qkv_format, cu_seqlens, positions)
    k_SBHD = to_sbhd(k, qkv_format)
    out = rope_k_fused(k_SBHD, *rotation, qkv_format == "bshd", kernel)
    return from_sbhd(out, qkv_format)


def mla_rope_kv(
    kv: Tensor,
    k_pe: Tensor,
    tables: RopeTables,
    *,
    nope_dim: int,
    qkv_format: str = "sbhd",
    cu_seqlens: Tensor | None = None,
    positions: Tensor | int | None = None,
    kernel: str = "auto",
) -> tuple[Tensor, Tensor]:
    """Split layout: split kv into k and v and append the rotated shared key to every head of k.

    Args:
        kv: [s, b, h, nope + v], or as `qkv_format` says: k's nope columns, then v, in each head.
        k_pe: [s, b, 1, rope], the shared rotary key, in kv's dtype.
        tables: Result of `rope_tables`, as wide as k_pe.
        nope_dim: Width of k's columns that are not rotated.
        qkv_format: As for `mla_rope_q`.
        cu_seqlens: As for `mla_rope_q`.
        positions: As for `mla_rope_q`.
        kernel: As for `mla_rope_q`.

    Returns:
        k [s, b, h, nope + rope] and v [s, b, h, v].

    Raises:
        ValueError: Shapes, dtypes, positions or kernel are inconsistent.
        ImportError: kv is on a GPU, `kernel` is not eager and Triton is not installed.
    """
    _check_data("kv", kv, qkv_format)
    _check_data("k_pe", k_pe, qkv_format)
    if k_pe.shape[:-1] != (*kv.shape[:-2], 1) or k_pe.dtype != kv.dtype:
        raise ValueError(
            f"k_pe must be {kv.dtype} of shape {(*kv.shape[:-2], 1)} and its width, "
            f"got {k_pe.dtype} of shape {tuple(k_pe.shape)}"
        )
    if not 0 <= nope_dim < kv.shape[-1]:
        raise ValueError(
            f"nope_dim must be from 0 to less than kv's head width {kv.shape[-1]}, got {nope_dim}"
        )
    rope_dim = k_pe.shape[-1]
    rotation = _rotation(kv, tables, rope_dim, qkv_format, cu_seqlens, positions)
    kv_SBHD, k_pe_SBHD = (to_sbhd(x, qkv_format) for x in (kv, k_pe))
    k_SBHD, v_SBHD = rope_kv_split(
        kv_SBHD, k_pe_SBHD, *rotation, qkv_format == "bshd", nope_dim, kernel
    )
    return from_sbhd(k_SBHD, qkv_format), from_sbhd(v_SBHD, qkv_format)


def _check_data(name: str, x: Tensor, qkv_format: str, rope_dim: int = 0) -> None:
    if qkv_format not in QKV_FORMATS:
        raise ValueError(f"qkv_format must be one of {', '.join(QKV_FORMATS)}, got {qkv_format}")
    axes = len(qkv_format)
    if x.dim() != axes:
        raise ValueError(f"{name} must have the {axes} axes {qkv_format}, got {tuple(x.shape)}")
    if x.dtype not in _DTYPES:
        raise ValueError(f"{name} must be bfloat16, float16, float32 or float64, got {x.dtype}")
    if rope_dim > x.shape[-1]:
        width = x.shape[-1]
        raise ValueError(f"rope_dim must be at most {name}'s head width {width}, got {rope_dim}")


def _check_tables(tables: RopeTables, rope_dim: int, x: Tensor) -> None:
    if rope_dim <= 0 or rope_dim % 2:
        raise ValueError(f"rope_dim must be a positive even number, got {rope_dim}")
    if tables.dim != rope_dim or tables.cos.shape != tables.sin.shape:
        raise ValueError(
            f"tables must be rope_dim={rope_dim} wide, got cos {tuple(tables.cos.shape)}, "
            f"sin {tuple(tables.sin.shape)}"
        )
    if tables.cos.device != x.device or tables.sin.device != x.device:
        raise ValueError(f"tables must be on {x.device} like the data, got {tables.cos.device}")


def _rotation(
    x: Tensor,
    tables: RopeTables,
    rope_dim: int,
    qkv_format: str,
    cu_seqlens: Tensor | None,
    positions: Tensor | int | None,
) -> Rotation:
    """Check the tables and find the row of each token."""
    _check_tables(tables, rope_dim, x)
    tokens = x.shape[1 if qkv_format == "bshd" else 0]
    _check_packing(qkv_format, cu_seqlens, needed=positions is None)
    if isinstance(positions, Tensor):
        if positions.shape != (tokens,) or not holds_integers(positions):
            raise ValueError(
                f"positions must be {tokens} integers, one for each token, "
                f"got {positions.dtype} of shape {tuple(positions.shape)}"
            )
        rows = positions.to(device=x.device, dtype=torch.int64)
        return Rotation(tables.cos, tables.sin, rows)
    first = 0 if positions is None else positions
    # Python accepts a bool as an index.
    if isinstance(first, bool) or not isinstance(first, SupportsIndex):
        raise ValueError(f"positions must be an offset or a tensor, got {first!r}")
    # Reading lengths on a GPU would stall it, so the longest packed sequence is not known.
    longest = tokens if cu_seqlens is None else 1
    if not 0 <= first <= len(tables) - longest:
        raise ValueError(
            f"positions must lie within the {len(tables)} of the tables, "
            f"got {tokens} tokens from {first}; make longer tables"
        )
    if cu_seqlens is not None:
        rows = _packed_positions(cu_seqlens, tokens, first, x.device)
        return Rotation(tables.cos, tables.sin, rows)
    return Rotation(tables.cos[first:], tables.sin[first:], None)


def _check_packing(qkv_format: str, cu_seqlens: Tensor | None, *, needed: bool) -> None:
    """Require cu_seqlens for thd and for thd alone, and check that they are lengths."""
    if cu_seqlens is None:
        if qkv_format == "thd" and needed:
            raise ValueError("qkv_format=thd needs cu_seqlens, or the positions of all tokens")
        return
    if qkv_format != "thd":
        raise ValueError(f"cu_seqlens needs qkv_format=thd, got {qkv_format}")
    if cu_seqlens.dim() != 1 or not len(cu_seqlens) or not holds_integers(cu_seqlens):
        raise ValueError(
            "cu_seqlens must be integers with one axis, the bounds of the sequences, "
            f"got {cu_seqlens.dtype} of shape {tuple(cu_seqlens.shape)}"
        )


def _packed_positions(cu_seqlens: Tensor, tokens: int, first: int, device: torch.device) -> Tensor:
    """Return each packed token's place in its own sequence, counted from `first`, [t].

    Padding after the last sequence takes 0.
    """
    starts = cu_seqlens.to(device=device, dtype=torch.int64)
    token = torch.arange(tokens, device=device)
    sequence = torch.searchsorted(starts, token, right=True) - 1
    return torch.where(token < starts[-1], token - starts[sequence] + first, 0)
