"""The Triton kernel that rotates queries, and how all RoPE kernels address their data.

A program owns some heads of one token (all of them where their gradients are summed), so nothing
that it writes is read or written by another, each input is read once and each output written once.
Loads and stores are as wide as a row: a rotary slice is loaded whole and parted into pairs in
registers, instead of gathering every second element. Block sizes are powers of two; widths and
head counts need not be, the rest is masked.

Letters: H heads, N nope width, R rotary width, V value width. WIDE: compute in FP64, not FP32.
Only rope_triton imports this module, when a kernel is wanted.
"""

# Arguments of a kernel are pointers and numbers of Triton's own, which Python cannot annotate.
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def sequence_and_batch(token, seq_len, batch, BATCH_FIRST: tl.constexpr):
    """Part a token's number in memory order into its two indices."""
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
    """Convert to the type that is computed in."""
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

    In place x and out are one tensor, and the first N columns are not touched. PAIRS is how many
    pairs an access of 16 bytes holds.
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
    # A thread that holds PAIRS pairs moves their halves as they are; twice as wide an access would
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
        # A warp may store what another has still to load: wait until all have loaded.
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
