"""The Triton kernels of MLA RoPE: rotate queries, share the rotary key, sum its gradient.

A program owns some heads of one token (all of them where their gradients are summed), so no
program writes what another reads or writes, and each input is read and each output written once.
Loads and stores are as wide as a row: a rotary slice is loaded whole and split into pairs in
registers instead of gathering every second element. Block sizes are powers of two; widths and
head counts need not be, the rest is masked. Inputs may have any strides; the outputs of
`share_key` and `gather_key_gradient` are dense.

Letters: H heads, N nope width, R rotary width, V value width. WIDE: compute in FP64, not FP32.
"""

# Kernel arguments are Triton's own pointers and scalars, which Python cannot annotate.
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def sequence_and_batch(token, seq_len, batch, BATCH_FIRST: tl.constexpr):
    """Split a token's number in memory order into its two indices."""
    if BATCH_FIRST:
        return token % seq_len, token // seq_len
    return token // batch, token % batch


@triton.jit
def cos_and_sin(
    cos_ptr,
    sin_ptr,
    positions_ptr,
    table_rows,
    sequence,
    R: tl.constexpr,
    BLOCK_HALF: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Load the first halves of the token's table row; NaN outside the table."""
    row = sequence
    if positions_ptr is not None:
        row = tl.load(positions_ptr + sequence).to(tl.int64)
    columns = tl.arange(0, BLOCK_HALF)
    inside = (columns < R // 2) & (row >= 0) & (row < table_rows)
    cos = tl.load(cos_ptr + row * R + columns, mask=inside, other=float("nan"))
    sin = tl.load(sin_ptr + row * R + columns, mask=inside, other=float("nan"))
    return widened(cos, WIDE), widened(sin, WIDE)


@triton.jit
def widened(x, WIDE: tl.constexpr):
    """Convert to the type to compute in."""
    return x.to(tl.float64 if WIDE else tl.float32)


@triton.jit
def offsets(heads, columns, stride_h, stride_d):
    """Return the offset of each element of (heads, columns), in 64 bits whatever the strides."""
    return heads.to(tl.int64)[:, None] * stride_h + columns.to(tl.int64)[None, :] * stride_d


@triton.jit
def within(heads, columns, H: tl.constexpr, WIDTH: tl.constexpr):
    """Mask what lies beyond the last head and the last column."""
    return (heads < H)[:, None] & (columns < WIDTH)[None, :]


@triton.jit
def rotate_heads(
    out_ptr,
    x_ptr,
    cos_ptr,
    sin_ptr,
    positions_ptr,
    table_rows,
    seq_len,
    batch,
    out_stride_s,
    out_stride_b,
    out_stride_h,
    out_stride_d,
    x_stride_s,
    x_stride_b,
    x_stride_h,
    x_stride_d,
    H: tl.constexpr,
    N: tl.constexpr,
    R: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BATCH_FIRST: tl.constexpr,
    INVERSE: tl.constexpr,
    IN_PLACE: tl.constexpr,
    WIDE: tl.constexpr,
    PAIRS: tl.constexpr,
):
    """Rotate (or rotate back) the last R columns of BLOCK_H heads of one token; copy the others.

    In place x and out are one tensor, and the first N columns are not touched. PAIRS is the number
    of pairs that an access of 16 bytes holds.
    """
    HEAD_BLOCKS: tl.constexpr = (H + BLOCK_H - 1) // BLOCK_H
    token = (tl.program_id(0) // HEAD_BLOCKS).to(tl.int64)
    heads = tl.program_id(0) % HEAD_BLOCKS * BLOCK_H + tl.arange(0, BLOCK_H)
    sequence, sample = sequence_and_batch(token, seq_len, batch, BATCH_FIRST)
    x_ptr += sequence * x_stride_s + sample * x_stride_b
    out_ptr += sequence * out_stride_s + sample * out_stride_b
    dtype = out_ptr.dtype.element_ty

    columns_N = tl.arange(0, BLOCK_N)
    columns_R = tl.arange(0, BLOCK_R)
    # A thread that holds PAIRS pairs moves their halves as they are; an access twice as wide would
    # send every half through shared memory first.
    halves = tl.max_contiguous(tl.arange(0, BLOCK_R // 2), PAIRS)
    mask_N = within(heads, columns_N, H, N)
    mask_R = within(heads, columns_R, H, R)
    mask_half = within(heads, halves, H, R // 2)

    if not IN_PLACE and N > 0:
        nope_ptr = x_ptr + offsets(heads, columns_N, x_stride_h, x_stride_d)
        nope = tl.load(nope_ptr, mask=mask_N)
    if INVERSE:
        left_ptr = x_ptr + offsets(heads, N + halves, x_stride_h, x_stride_d)
        right_ptr = x_ptr + offsets(heads, N + R // 2 + halves, x_stride_h, x_stride_d)
        left = tl.load(left_ptr, mask=mask_half)
        right = tl.load(right_ptr, mask=mask_half)
    else:
        pairs_ptr = x_ptr + offsets(heads, N + columns_R, x_stride_h, x_stride_d)
        pairs = tl.load(pairs_ptr, mask=mask_R)
    cos, sin = cos_and_sin(
        cos_ptr, sin_ptr, positions_ptr, table_rows, sequence, R, BLOCK_R // 2, WIDE
    )
    cos, sin = cos[None, :], sin[None, :]

    if IN_PLACE:
        # A warp may overwrite what another has not loaded yet: wait until all have loaded.
        tl.debug_barrier()
    elif N > 0:
        nope_ptr = out_ptr + offsets(heads, columns_N, out_stride_h, out_stride_d)
        tl.store(nope_ptr, nope, mask=mask_N)
    if INVERSE:
        left, right = widened(left, WIDE), widened(right, WIDE)
        x1 = (left * cos + right * sin).to(dtype)
        x2 = (right * cos - left * sin).to(dtype)
        pairs_ptr = out_ptr + offsets(heads, N + columns_R, out_stride_h, out_stride_d)
        tl.store(pairs_ptr, tl.reshape(tl.join(x1, x2), (BLOCK_H, BLOCK_R)), mask=mask_R)
    else:
        x1, x2 = tl.split(tl.reshape(pairs, (BLOCK_H, BLOCK_R // 2, 2)))
        x1, x2 = widened(x1, WIDE), widened(x2, WIDE)
        left = (x1 * cos - x2 * sin).to(dtype)
        right = (x2 * cos + x1 * sin).to(dtype)
        left_ptr = out_ptr + offsets(heads, N + halves, out_stride_h, out_stride_d)
        right_ptr = out_ptr + offsets(heads, N + R // 2 + halves, out_stride_h, out_stride_d)
        tl.store(left_ptr, left, mask=mask_half)
        tl.store(right_ptr, right, mask=mask_half)


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
    every head but the first, which dkey_ptr points to.
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
    # Loaded before the loop: with few heads, waiting for it afterwards would be measurable.
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
