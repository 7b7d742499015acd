"""The Triton launches of MLA RoPE: the functions of `rope.eager`, fused.

Every tensor is [s, b, h, d]. Block sizes follow from the shape by rule: nothing is tuned at the
first call.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mxfp8_attention.rope import triton_kernels as kernels
from mxfp8_attention.rope.tables import Rotation


@dataclass(frozen=True)
class Tile:
    """Cut of a kernel's work: heads that a program holds at once, and its warps."""

    heads: int
    num_warps: int


def q_into(
    out: Tensor, x: Tensor, rotation: Rotation, *, inverse: bool, tile: Tile | None = None
) -> None:
    """Write x with its last rope_dim columns rotated (back) to out, which may be x itself."""
    seq_len, batch, heads, head_dim = x.shape
    rope_dim = rotation.dim
    nope_dim = head_dim - rope_dim
    in_place = out is x
    tile = tile or _tile(heads, rope_dim if in_place else max(nope_dim, rope_dim), x, num_warps=4)
    if x.numel() == 0:
        return
    _launch(
        kernels.rotate_heads,
        seq_len * batch * _blocks(heads, tile.heads),
        (out, x),
        rotation,
        (*out.stride(), *x.stride()),
        x,
        tile,
        N=nope_dim,
        BLOCK_N=_power_of_two(nope_dim),
        BATCH_FIRST=out.stride(1) > out.stride(0),
        INVERSE=inverse,
        IN_PLACE=in_place,
        PAIRS=max(1, 8 // x.element_size()),
    )


def k_fused_into(out: Tensor, k: Tensor, rotation: Rotation, *, tile: Tile | None = None) -> None:
    """Copy k's nope columns; give every head the rotated rotary slice of head 0."""
    nope_dim = k.shape[-1] - rotation.dim
    _share_key(out, None, k, k[:, :, :1, nope_dim:], rotation, nope_dim, 0, tile)


def k_fused_backward_into(
    dk: Tensor, grad: Tensor, rotation: Rotation, *, tile: Tile | None = None
) -> None:
    """Send the rotary gradient, summed over heads, to head 0 and exact zeros to the others."""
    nope_dim = grad.shape[-1] - rotation.dim
    _gather_key_gradient(dk, dk[:, :, :1, nope_dim:], grad, None, rotation, nope_dim, 0, tile)


def kv_split_into(
    k: Tensor, v: Tensor, kv: Tensor, k_pe: Tensor, rotation: Rotation, *, tile: Tile | None = None
) -> None:
    """Split kv into k's nope columns and v; append the rotated shared key to every head of k."""
    value_dim = v.shape[-1]
    _share_key(k, v, kv, k_pe, rotation, kv.shape[-1] - value_dim, value_dim, tile)


def kv_split_backward_into(
    dkv: Tensor,
    dk_pe: Tensor,
    grad_k: Tensor,
    grad_v: Tensor,
    rotation: Rotation,
    *,
    tile: Tile | None = None,
) -> None:
    """Join the gradients of k's nope columns and of v; sum the rotary one over heads."""
    value_dim = grad_v.shape[-1]
    nope_dim = dkv.shape[-1] - value_dim
    _gather_key_gradient(dkv, dk_pe, grad_k, grad_v, rotation, nope_dim, value_dim, tile)


def _share_key(
    k: Tensor,
    v: Tensor | None,
    kv: Tensor,
    key: Tensor,
    rotation: Rotation,
    nope_dim: int,
    value_dim: int,
    tile: Tile | None,
) -> None:
    seq_len, batch, heads, _ = k.shape
    tile = tile or _tile(heads, max(nope_dim, value_dim, rotation.dim), k, num_warps=4)
    if k.numel() == 0:
        return
    _launch(
        kernels.share_key,
        seq_len * batch * _blocks(heads, tile.heads),
        (k, k if v is None else v, kv, key),
        rotation,
        (*kv.stride(), key.stride(0), key.stride(1), key.stride(3)),
        k,
        tile,
        **_kv_widths(nope_dim, value_dim),
        BATCH_FIRST=_batch_first(k),
    )


def _gather_key_gradient(
    dkv: Tensor,
    dkey: Tensor,
    grad_k: Tensor,
    grad_v: Tensor | None,
    rotation: Rotation,
    nope_dim: int,
    value_dim: int,
    tile: Tile | None,
) -> None:
    seq_len, batch, heads, _ = grad_k.shape
    tile = tile or _tile(heads, max(nope_dim, value_dim, rotation.dim), grad_k, num_warps=8)
    if grad_k.numel() == 0:
        return
    grad_v = grad_k if grad_v is None else grad_v
    _launch(
        kernels.gather_key_gradient,
        seq_len * batch,
        (dkv, dkey, grad_k, grad_v),
        rotation,
        (*grad_k.stride(), *grad_v.stride()),
        grad_k,
        tile,
        **_kv_widths(nope_dim, value_dim),
        BATCH_FIRST=_batch_first(dkv),
    )


def _launch(
    kernel: Any,  # noqa: ANN401 - Triton's own type, which only a machine with Triton has
    programs: int,
    data: Sequence[Tensor],
    rotation: Rotation,
    strides: Sequence[int],
    heads_SBHD: Tensor,
    tile: Tile,
    **constants: int,
) -> None:
    """Launch a kernel; all take their tensors, the tables, the sizes and the strides like this."""
    seq_len, batch, heads, _ = heads_SBHD.shape
    with _on(heads_SBHD.device):
        kernel[(programs,)](
            *data,
            rotation.cos.contiguous(),
            rotation.sin.contiguous(),
            rotation.positions,
            rotation.cos.shape[0],
            seq_len,
            batch,
            *strides,
            H=heads,
            R=rotation.dim,
            BLOCK_H=tile.heads,
            BLOCK_R=_power_of_two(rotation.dim),
            WIDE=heads_SBHD.dtype == torch.float64,
            num_warps=tile.num_warps,
            enable_fp_fusion=False,
            **constants,
        )


def _kv_widths(nope_dim: int, value_dim: int) -> dict[str, int]:
    return {
        "N": nope_dim,
        "V": value_dim,
        "BLOCK_N": _power_of_two(nope_dim),
        "BLOCK_V": _power_of_two(value_dim),
    }


def _tile(heads: int, widest: int, x: Tensor, num_warps: int) -> Tile:
    """Give each thread one access of 16 bytes to the widest slice of a head.

    Of the cuts that `tools.gpu.rope --candidates` compares, this one is the fastest on an H200, or
    within 1 % of it, for every kernel.
    """
    fitting = max(1, 16 * 32 * num_warps // (widest * x.element_size()))
    return Tile(min(_power_of_two(heads), 1 << fitting.bit_length() - 1), num_warps)


def _blocks(heads: int, block: int) -> int:
    return -(-heads // block)


def _power_of_two(at_least: int) -> int:
    """Return the smallest power of two that is at least this and at least 2."""
    return max(2, 1 << (at_least - 1).bit_length())


def _batch_first(dense_SBHD: Tensor) -> bool:
    """Return True if b comes before s in the memory of a dense tensor."""
    if dense_SBHD.is_contiguous():
        return False
    assert dense_SBHD.transpose(0, 1).is_contiguous(), "an operator allocated a sparse result"
    return True


def _on(device: torch.device) -> AbstractContextManager[object]:
    """Make the tensor's GPU the current one, which Triton launches on."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
