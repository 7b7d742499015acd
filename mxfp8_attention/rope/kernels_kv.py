"""The Triton kernels that give every head the shared rotary key, and sum its gradient.

See rope_kernels for how a program's work is cut and what the letters mean. Inputs may have any
strides; outputs are dense, so that a token's number times its size is its offset.
Only rope_triton imports this module, when a kernel is wanted.
"""

# Arguments of a kernel are pointers and numbers of Triton's own, which Python cannot annotate.
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

from mxfp8_attention.rope.kernels import cos_and_sin, offsets, sequence_and_batch, widened, within


@triton.jit
def share_key(
    k_ptr,
    v_ptr,
    kv_ptr,
    key_ptr,
    cos_ptr,
    sin_ptr,
    positions_ptr,
    table_rows,
    seq_len,
    batch,
    kv_stride_s,
    kv_stride_b,
    kv_stride_h,
    kv_stride_d,
    key_stride_s,
    key_stride_b,
    key_stride_d,
    H: tl.constexpr,
    N: tl.constexpr,
    R: tl.constexpr,
    V: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_V: tl.constexpr,
    BATCH_FIRST: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Build BLOCK_H heads of one token of k, [nope | rotated key], and of v where V > 0.

    kv holds [nope | v] per head, key the rotary key that all heads share.
    """
    HEAD_BLOCKS: tl.constexpr = (H + BLOCK_H - 1) // BLOCK_H
    token = (tl.program_id(0) // HEAD_BLOCKS).to(tl.int64)
    heads = tl.program_id(0) % HEAD_BLOCKS * BLOCK_H + tl.arange(0, BLOCK_H)
    sequence, sample = sequence_and_batch(token, seq_len, batch, BATCH_FIRST)
    kv_ptr += sequence * kv_stride_s + sample * kv_stride_b
    key_ptr += sequence * key_stride_s + sample * key_stride_b
    k_ptr += token * (H * (N + R))
    dtype = k_ptr.dtype.element_ty

    columns_N = tl.arange(0, BLOCK_N)
    columns_V = tl.arange(0, BLOCK_V)
    if N > 0:
        mask_N = within(heads, columns_N, H, N)
        nope_ptr = kv_ptr + offsets(heads, columns_N, kv_stride_h, kv_stride_d)
        nope = tl.load(nope_ptr, mask=mask_N)
    if V > 0:
        mask_V = within(heads, columns_V, H, V)
        value_ptr = kv_ptr + offsets(heads, N + columns_V, kv_stride_h, kv_stride_d)
        value = tl.load(value_ptr, mask=mask_V)

    # One row of R elements for many heads of output: gathering its pairs costs nothing.
    halves = tl.arange(0, BLOCK_R // 2)
    pair_mask = halves < R // 2
    first_of_pair = 2 * halves.to(tl.int64)
    x1 = tl.load(key_ptr + first_of_pair * key_stride_d, mask=pair_mask)
    x2 = tl.load(key_ptr + (first_of_pair + 1) * key_stride_d, mask=pair_mask)
    x1, x2 = widened(x1, WIDE), widened(x2, WIDE)
    cos, sin = cos_and_sin(
        cos_ptr, sin_ptr, positions_ptr, table_rows, sequence, R, BLOCK_R // 2, WIDE
    )
    left = (x1 * cos - x2 * sin).to(dtype)
    right = (x2 * cos + x1 * sin).to(dtype)

    if N > 0:
        tl.store(k_ptr + offsets(heads, columns_N, N + R, 1), nope, mask=mask_N)
    if V > 0:
        v_ptr += token * (H * V)
        tl.store(v_ptr + offsets(heads, columns_V, V, 1), value, mask=mask_V)
    mask = within(heads, halves, H, R // 2)
    left_ptr = k_ptr + offsets(heads, N + halves, N + R, 1)
    right_ptr = k_ptr + offsets(heads, N + R // 2 + halves, N + R, 1)
    tl.store(left_ptr, tl.broadcast_to(left[None, :], (BLOCK_H, BLOCK_R // 2)), mask=mask)
    tl.store(right_ptr, tl.broadcast_to(right[None, :], (BLOCK_H, BLOCK_R // 2)), mask=mask)


@triton.jit
def gather_key_gradient(
    dkv_ptr,
    dkey_ptr,
    grad_k_ptr,
    grad_v_ptr,
    cos_ptr,
    sin_ptr,
    positions_ptr,
    table_rows,
    seq_len,
    batch,
    grad_k_stride_s,
    grad_k_stride_b,
    grad_k_stride_h,
    grad_k_stride_d,
    grad_v_stride_s,
    grad_v_stride_b,
    grad_v_stride_h,
    grad_v_stride_d,
    H: tl.constexpr,
    N: tl.constexpr,
    R: tl.constexpr,
    V: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_V: tl.constexpr,
    BATCH_FIRST: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Undo `share_key` for all heads of one token: dkv, and the key's gradient summed over heads.

    Without values (V = 0) dkv is the gradient of a fused k: its rotary columns are set to zero in
    every head but the first, where dkey_ptr points.
    """
    HEAD: tl.constexpr = N + V if V > 0 else N + R
    token = tl.program_id(0).to(tl.int64)
    sequence, sample = sequence_and_batch(token, seq_len, batch, BATCH_FIRST)
    grad_k_ptr += sequence * grad_k_stride_s + sample * grad_k_stride_b
    grad_v_ptr += sequence * grad_v_stride_s + sample * grad_v_stride_b
    dkv_ptr += token * (H * HEAD)
    dkey_ptr += token * (R if V > 0 else H * HEAD)
    dtype = dkv_ptr.dtype.element_ty

    columns_N = tl.arange(0, BLOCK_N)
    columns_V = tl.arange(0, BLOCK_V)
    columns_R = tl.arange(0, BLOCK_R)
    halves = tl.arange(0, BLOCK_R // 2)
    # Asked for before the loop: with few heads, waiting for it afterwards would show.
    cos, sin = cos_and_sin(
        cos_ptr, sin_ptr, positions_ptr, table_rows, sequence, R, BLOCK_R // 2, WIDE
    )
    left_sum = tl.zeros((BLOCK_H, BLOCK_R // 2), tl.float64 if WIDE else tl.float32)
    right_sum = tl.zeros((BLOCK_H, BLOCK_R // 2), tl.float64 if WIDE else tl.float32)
    for first in range(0, H, BLOCK_H):
        heads = first + tl.arange(0, BLOCK_H)
        mask_half = within(heads, halves, H, R // 2)
        left_ptr = grad_k_ptr + offsets(heads, N + halves, grad_k_stride_h, grad_k_stride_d)
        columns = N + R // 2 + halves
        right_ptr = grad_k_ptr + offsets(heads, columns, grad_k_stride_h, grad_k_stride_d)
        left = tl.load(left_ptr, mask=mask_half, other=0.0)
        right = tl.load(right_ptr, mask=mask_half, other=0.0)
        if N > 0:
            mask_N = within(heads, columns_N, H, N)
            nope_ptr = grad_k_ptr + offsets(heads, columns_N, grad_k_stride_h, grad_k_stride_d)
            nope = tl.load(nope_ptr, mask=mask_N)
        if V > 0:
            mask_V = within(heads, columns_V, H, V)
            value_ptr = grad_v_ptr + offsets(heads, columns_V, grad_v_stride_h, grad_v_stride_d)
            value = tl.load(value_ptr, mask=mask_V)
        left_sum += widened(left, WIDE)
        right_sum += widened(right, WIDE)
        if N > 0:
            tl.store(dkv_ptr + offsets(heads, columns_N, HEAD, 1), nope, mask=mask_N)
        if V > 0:
            tl.store(dkv_ptr + offsets(heads, N + columns_V, HEAD, 1), value, mask=mask_V)
        else:
            zero = tl.zeros((BLOCK_H, BLOCK_R), dtype)
            mask_R = within(heads, columns_R, H, R) & (heads > 0)[:, None]
            tl.store(dkv_ptr + offsets(heads, N + columns_R, HEAD, 1), zero, mask=mask_R)

    left = tl.sum(left_sum, axis=0)
    right = tl.sum(right_sum, axis=0)
    pair_mask = halves < R // 2
    tl.store(dkey_ptr + 2 * halves, (left * cos + right * sin).to(dtype), mask=pair_mask)
    tl.store(dkey_ptr + 2 * halves + 1, (right * cos - left * sin).to(dtype), mask=pair_mask)
