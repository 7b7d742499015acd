"""MXFP8 attention and linear layers as plain loops over blocks and heads.

Only the quantizer is shared with the emulation. It gets one block of 32 columns at a time, so that
no axis can be mistaken. Products of FP8 values are summed in FP64.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mxfp8_attention.emulation.mxfp8 import fake_quantize

BLOCK = 32
TILE = 128
LAZY_LOG2 = 4.0


def along_rows(x: Tensor) -> Tensor:
    """Quantize each row's blocks of 32, one block after another."""
    out = torch.empty(x.shape, dtype=torch.float64)
    for start in range(0, x.shape[1], BLOCK):
        block = slice(start, start + BLOCK)
        out[:, block] = fake_quantize(x[:, block], 1)
    return out


def along_columns(x: Tensor) -> Tensor:
    """Quantize each column's blocks of 32."""
    return along_rows(x.T.contiguous()).T


def linear(x: Tensor, weight: Tensor, dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """y, dx and dw of a linear layer, each product summed block by block."""

    def product(a: Tensor, b: Tensor) -> Tensor:
        total = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float64)
        for start in range(0, a.shape[1], BLOCK):
            block = slice(start, start + BLOCK)
            total += a[:, block] @ b[block]
        return total

    y = product(along_rows(x), along_rows(weight).T)
    dx = product(along_rows(dy), along_columns(weight))
    dw = product(along_columns(dy).T, along_columns(x))
    return y, dx, dw


def e4m3(x: Tensor, scale: float) -> Tensor:
    """Round to E4M3 after multiplying by a fixed scale."""
    scaled = (x.to(torch.float32) * scale).clamp(-448, 448)
    return scaled.to(torch.float8_e4m3fn).to(torch.float64) / scale


def attention_forward(
    q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool
) -> tuple[Tensor, Tensor]:
    """Compute one head: an online softmax over tiles of 128 keys whose maximum lags behind.

    Args:
        q: bf16 [s_q, d_qk].
        k: bf16 [s_kv, d_qk].
        v: bf16 [s_kv, d_v].
        scale: Softmax scale.
        causal: True if query i attends to keys 0 to i only.

    Returns:
        bf16 output [s_q, d_v], and log(sum(exp(S))) [s_q].
    """
    q_row, k_row, v_col = along_rows(q), along_rows(k), along_columns(v)
    out = torch.empty(q.shape[0], v.shape[1], dtype=torch.bfloat16)
    log_sum = torch.empty(q.shape[0], dtype=torch.float64)
    for i in range(q.shape[0]):
        maximum, total = -math.inf, 0.0
        result = torch.zeros(v.shape[1], dtype=torch.float64)
        for start in range(0, k.shape[0], TILE):
            scores = k_row[start : start + TILE] @ q_row[i] * scale
            if causal:
                scores = scores[: max(0, i + 1 - start)]
            if not len(scores):
                break
            tile_maximum = float(scores.max())
            if tile_maximum - maximum > LAZY_LOG2 * math.log(2):
                shrink = math.exp(maximum - tile_maximum)
                total, result, maximum = total * shrink, result * shrink, tile_maximum
            p = (scores - maximum).exp()
            total += float(p.sum())
            result += e4m3(p, 16.0) @ v_col[start : start + len(p)]
        out[i] = (result / total).to(torch.bfloat16)
        log_sum[i] = maximum + math.log(total)
    return out, log_sum


def attention_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    log_sum: Tensor,
    dout: Tensor,
    scale: float,
    causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return one head's dq, dk, dv in FP64, from the results of `attention_forward`."""
    q_row, k_row, q_col, k_col = along_rows(q), along_rows(k), along_columns(q), along_columns(k)
    dout_row, dout_col, v_row = along_rows(dout), along_columns(dout), along_rows(v)
    p = torch.zeros(q.shape[0], k.shape[0], dtype=torch.float64)
    ds = torch.zeros_like(p)
    for i in range(q.shape[0]):
        visible = i + 1 if causal else k.shape[0]
        p[i, :visible] = (k_row[:visible] @ q_row[i] * scale - log_sum[i]).exp()
        delta = float(out[i].double() @ dout[i].double())
        ds[i] = p[i] * (v_row @ dout_row[i] - delta) * scale
    dv = e4m3(p, 256.0).T @ dout_col
    dq = along_rows(ds.to(torch.float32)) @ k_col
    dk = along_columns(ds.to(torch.float32)).T @ q_col
    return dq, dk, dv
