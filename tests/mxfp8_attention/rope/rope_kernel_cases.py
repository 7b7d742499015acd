"""Requirements on the RoPE kernels, as cases for Triton's interpreter and for a GPU.

A case takes the device. On "cpu" the kernels are interpreted (TRITON_INTERPRET=1 from the start of
the process, see triton_interpreter); the interpreter cuts fp32 off when it converts to bf16
instead of rounding, so that bf16 may there be one unit in the last place off. Everything else is
compared bit for bit with the eager definition, but for the sum over heads, whose order differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mxfp8_attention.rope import (
    context_parallel_positions,
    mla_rope_k,
    mla_rope_kv,
    mla_rope_q,
    rope_tables,
)
from mxfp8_attention.rope import eager as rope_eager
from mxfp8_attention.rope import operators as rope_ops
from mxfp8_attention.rope import triton as rope_triton
from mxfp8_attention.rope.tables import Rotation
from mxfp8_attention.rope.triton import Tile

SENTINEL = 77.0


@dataclass(frozen=True)
class Shape:
    """Tokens and widths of one comparison."""

    seq_len: int
    batch: int
    heads: int
    nope: int
    rope: int
    value: int
    dtype: torch.dtype = torch.float32


def _assert_same(got: Tensor, want: Tensor, what: str) -> None:
    if got.device.type == "cpu" and got.dtype == torch.bfloat16:
        off = (got.float() - want.float()).abs() > torch.finfo(torch.bfloat16).eps * want.abs()
    else:
        off = (got != want) & ~(got.isnan() & want.isnan())
    assert not off.any(), f"{what}: {int(off.sum())} of {off.numel()} differ"


def _assert_same_sum(got: Tensor, want: Tensor, heads: int, what: str) -> None:
    """Allow one unit in the last place, and what the order of `heads` FP32 terms below 8 adds."""
    wide = torch.float64 if got.dtype == torch.float64 else torch.float32
    allowed = torch.finfo(got.dtype).eps * want.abs() + 8 * heads * torch.finfo(wide).eps
    assert ((got - want).abs() <= allowed).all(), what


def _results(shape: Shape, kernel: str, device: str) -> dict[str, Tensor]:
    """Run every public function, forward and backward, on data that a seed decides."""
    random = partial(_random, shape, torch.Generator().manual_seed(3), device)
    tables = rope_tables(shape.seq_len, shape.rope, device=device)
    head_dim = shape.nope + shape.rope
    q, k, kv = (random(shape.heads, d) for d in (head_dim, head_dim, shape.nope + shape.value))
    k_pe = random(1, shape.rope)
    grad, grad_v = random(shape.heads, head_dim), random(shape.heads, shape.value)
    results = {}
    for name, inplace in (("q", False), ("q in place", True)):
        leaf = q.clone().requires_grad_()
        out = mla_rope_q(
            leaf * 1,
            tables,
            rope_dim=shape.rope,
            kernel=kernel,
            inplace=inplace,
            inplace_grad=inplace,
        )
        results[name] = out.detach()
        (results[f"d {name}"],) = torch.autograd.grad(out, leaf, grad.clone())
    k.requires_grad_()
    out = mla_rope_k(k, tables, rope_dim=shape.rope, kernel=kernel)
    (dk,) = torch.autograd.grad(out, k, grad)
    results |= {"fused k": out.detach(), "d fused k nope": dk[..., : shape.nope]}
    results |= {"d other heads": dk[:, :, 1:], "sum fused": dk[:, :, :1, shape.nope :]}
    leaves = kv.requires_grad_(), k_pe.requires_grad_()
    outs = mla_rope_kv(*leaves, tables, nope_dim=shape.nope, kernel=kernel)
    dkv, dk_pe = torch.autograd.grad(outs, leaves, (grad, grad_v))
    results |= {"k": outs[0].detach(), "v": outs[1].detach(), "d kv": dkv, "sum split": dk_pe}
    return results


def _random(
    shape: Shape, generator: torch.Generator, device: str, heads: int, width: int
) -> Tensor:
    size = (shape.seq_len, shape.batch, heads, width)
    return torch.randn(size, generator=generator).to(device=device, dtype=shape.dtype)


def equals_eager(shape: Shape, device: str) -> None:
    """Both kernels give the same, forward and backward, in place and out of it."""
    results = (_results(shape, kernel, device) for kernel in ("triton", "eager"))
    got, want = results
    for name in want:
        if name.startswith("sum"):
            _assert_same_sum(got[name], want[name], shape.heads, f"{name} at {shape}")
        else:
            _assert_same(got[name], want[name], f"{name} at {shape}")


def formats_and_positions(device: str) -> None:
    """Other axis orders, packed sequences, offsets and explicit positions, also backward."""
    tables = rope_tables(12, 6, device=device)
    torch.manual_seed(1)
    q, k_pe = torch.randn(8, 2, 3, 16, device=device), torch.randn(8, 2, 1, 6, device=device)
    lengths = torch.tensor([0, 5, 5, 7], device=device)
    chunk = context_parallel_positions(16, 2, 1, device=device).clamp(max=11)
    outside = torch.tensor([0, 12, -1, 11, 2, 3, 4, 5], device=device)
    for options, axes in (
        ({"qkv_format": "bshd", "positions": 1}, 4),
        ({"qkv_format": "sbhd", "positions": chunk}, 4),
        ({"qkv_format": "sbhd", "positions": outside}, 4),
        ({"qkv_format": "thd", "cu_seqlens": lengths}, 3),
        ({"qkv_format": "thd", "cu_seqlens": lengths, "positions": 4}, 3),
    ):
        x, key = (q, k_pe) if axes == 4 else (q[:, 0], k_pe[:, 0])
        forward, backward = [], []
        for kernel in ("triton", "eager"):
            arguments = options | {"kernel": kernel}
            leaves = x.clone().requires_grad_(), key.clone().requires_grad_()
            outs = (
                mla_rope_q(leaves[0], tables, rope_dim=6, **arguments),
                mla_rope_k(leaves[0], tables, rope_dim=6, **arguments),
                *mla_rope_kv(*leaves, tables, nope_dim=10, **arguments),
            )
            forward.append([out.detach() for out in outs])
            generator = torch.Generator(device).manual_seed(2)
            grads = [torch.randn(o.shape, generator=generator, device=device) for o in outs]
            backward.append(
                [
                    *torch.autograd.grad(outs[0], leaves[0], grads[0]),
                    *torch.autograd.grad(outs[1], leaves[0], grads[1]),
                    *torch.autograd.grad(outs[2:], leaves, grads[2:]),
                ]
            )
        for got, want in zip(*forward, strict=True):
            assert got.is_contiguous()
            _assert_same(got, want, f"{options}")
        for got, want in zip(*backward, strict=True):
            assert got.is_contiguous()
            outside_table = want.isnan()
            assert torch.equal(got.isnan(), outside_table), f"{options}"
            _assert_same_sum(got[~outside_table], want[~outside_table], 3, f"d {options}")


def any_tile_gives_the_same(device: str) -> None:
    """The cut of the heads, even or not, affects only the speed."""
    shape = Shape(2, 2, 5, 10, 6, 12)
    random = partial(_random, shape, torch.Generator().manual_seed(5), device)
    tables = rope_tables(2, 6, device=device)
    rotation = Rotation(tables.cos, tables.sin, None)
    x, kv, k_pe = random(5, 16), random(5, 22), random(1, 6)
    want_q, want_k, want_v = torch.empty_like(x), torch.empty_like(x), random(5, 12)
    rope_eager.q_into(want_q, x, rotation, inverse=False)
    rope_eager.kv_split_into(want_k, want_v, kv, k_pe, rotation)
    for heads in (1, 2, 4, 8):
        tile = Tile(heads, 1)
        q, k, v = torch.empty_like(x), torch.empty_like(x), torch.empty_like(want_v)
        rope_triton.q_into(q, x, rotation, inverse=False, tile=tile)
        rope_triton.kv_split_into(k, v, kv, k_pe, rotation, tile=tile)
        for got, want in ((q, want_q), (k, want_k), (v, want_v)):
            _assert_same(got, want, f"{tile}")
        dkv, dk_pe = torch.empty_like(kv), torch.empty_like(k_pe)
        rope_triton.kv_split_backward_into(dkv, dk_pe, x, want_v, rotation, tile=tile)
        expected = rope_eager.rotate_back(x[..., 10:].sum(2, keepdim=True), tables.cos, tables.sin)
        _assert_same_sum(dk_pe, expected, 5, f"{tile}")


@st.composite
def _shapes(draw: st.DrawFn) -> Shape:
    even = st.integers(1, 12).map(lambda n: 2 * n)
    return Shape(
        seq_len=draw(st.integers(1, 3)),
        batch=draw(st.integers(1, 3)),
        heads=draw(st.integers(1, 7)),
        nope=draw(even),
        rope=draw(even),
        value=draw(even),
    )


def _inside(buffer: list[Tensor], shape: tuple[int, ...], order: list[int], gap: int) -> Tensor:
    """Allocate a view with its axes in any order in memory and sentinels around and between."""
    padded = [shape[axis] + gap for axis in order]
    memory = torch.full(padded, SENTINEL)
    buffer.append(memory)
    view = memory[tuple(slice(gap // 2, gap // 2 + shape[axis]) for axis in order)]
    return view.permute([order.index(axis) for axis in range(4)])


def _dense_inside(buffer: list[Tensor], *shape: int) -> Tensor:
    """Allocate a dense result with sentinels before and behind."""
    size = torch.Size(shape).numel()
    memory = torch.full((size + 128,), SENTINEL)
    buffer.append(memory)
    return memory[64 : 64 + size].view(shape)


def nothing_else_is_written(device: str) -> None:
    """Results equal eager for any shape and strides; inputs and memory around stay unchanged."""

    @settings(max_examples=25, deadline=None, database=None, derandomize=True)
    @given(
        shape=_shapes(),
        order=st.permutations([0, 1, 2, 3]),
        gap=st.integers(0, 3),
        backward=st.booleans(),
    )
    def check(shape: Shape, order: list[int], gap: int, backward: bool) -> None:
        _check_memory(shape, order, gap, backward, device)

    check()


def _check_memory(shape: Shape, order: list[int], gap: int, backward: bool, device: str) -> None:
    tokens, heads = (shape.seq_len, shape.batch), shape.heads
    head_dim = shape.nope + shape.rope
    buffers: list[Tensor] = []

    def strided(head_count: int, width: int) -> Tensor:
        x = _inside(buffers, (*tokens, head_count, width), order, gap)
        return x.copy_(torch.randn(x.shape))

    def dense(head_count: int, width: int) -> Tensor:
        return _dense_inside(buffers, *tokens, head_count, width)

    tables = rope_tables(shape.seq_len, shape.rope)
    q = strided(heads, head_dim)
    q_out = dense(heads, head_dim)
    if backward:
        inputs = strided(heads, head_dim), strided(heads, shape.value)
        outputs = dense(heads, shape.nope + shape.value), dense(1, shape.rope)
        names = "kv_split_backward_into", "k_fused_backward_into"
    else:
        inputs = strided(heads, shape.nope + shape.value), strided(1, shape.rope)
        outputs = dense(heads, head_dim), dense(heads, shape.value)
        names = "kv_split_into", "k_fused_into"
    fused_out = dense(heads, head_dim)
    after = []
    for module in (rope_triton, rope_eager):
        # Moving keeps strides only within one allocation: copy the buffers and view them anew.
        copies = [memory.clone().to(device) for memory in buffers]
        views = [
            copy.as_strided(x.shape, x.stride(), x.storage_offset())
            for copy, x in zip(copies, (q, q_out, *inputs, *outputs, fused_out), strict=True)
        ]
        rotation = Rotation(tables.cos.to(device), tables.sin.to(device), None)
        module.q_into(views[1], views[0], rotation, inverse=backward)
        getattr(module, names[0])(*views[4:6], *views[2:4], rotation)
        getattr(module, names[1])(views[6], views[0], rotation)
        module.q_into(views[0], views[0], rotation, inverse=backward)
        after.append(copies)
    for i, (got, want) in enumerate(zip(*after, strict=True)):
        summed = backward and i in (5, 6)
        if summed:
            _assert_same_sum(got, want, heads, f"buffer {i}")
        else:
            _assert_same(got, want, f"buffer {i}")


def autograd_tracks_a_change_in_place(device: str) -> None:
    """Otherwise a tensor saved for backward would silently be stale."""
    tables = rope_tables(4, 6, device=device)
    x = torch.ones(4, 1, 2, 10, device=device)
    before = x._version
    rope_ops.rope_q_(x, tables.cos, tables.sin, None, False, "triton")
    assert x._version > before


def _cases() -> dict[str, Callable[[str], None]]:
    cases: dict[str, Callable[[str], None]] = {
        "formats and positions": formats_and_positions,
        "any tile gives the same": any_tile_gives_the_same,
        "nothing else is written": nothing_else_is_written,
        "autograd tracks a change in place": autograd_tracks_a_change_in_place,
    }
    for heads in (1, 3, 5, 12, 96, 100, 128):
        shape = Shape(2, 1, heads, 32, 16, 32)
        cases[f"{heads} heads"] = partial(equals_eager, shape)
    for nope, rope, value in ((128, 64, 128), (10, 6, 12), (100, 20, 36), (2, 2, 2), (64, 96, 64)):
        for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64):
            shape = Shape(3, 2, 3, nope, rope, value, dtype)
            name = f"widths {nope} {rope} {value} {str(dtype).removeprefix('torch.')}"
            cases[name] = partial(equals_eager, shape)
    return cases


CASES = _cases()
