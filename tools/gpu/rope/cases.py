"""The measured RoPE kernels, each with its data, its bytes and a way to run it.

Axes: s sequence, b batch, h heads, d width of a head. The bytes are a lower bound: each input read
once and each output written once, the tables once for all batches and heads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mxfp8_attention.rope import eager as rope_eager
from mxfp8_attention.rope import rope_tables
from mxfp8_attention.rope import triton as rope_triton
from mxfp8_attention.rope.tables import Rotation
from mxfp8_attention.rope.triton import Tile

KERNELS = (
    "q_fprop_inplace",
    "q_bprop_inplace",
    "q_fprop",
    "q_bprop",
    "kv_split_fprop",
    "kv_split_bprop",
    "k_fused_fprop",
    "k_fused_bprop",
)


@dataclass(frozen=True)
class Shape:
    """The shape of one attention layer."""

    seq_len: int
    batch: int
    heads: int
    nope_dim: int = 128
    rope_dim: int = 64
    value_dim: int = 128
    dtype: torch.dtype = torch.bfloat16

    @property
    def tokens(self) -> int:
        """Tokens of the whole batch."""
        return self.seq_len * self.batch

    def __str__(self) -> str:
        return f"s={self.seq_len} b={self.batch} h={self.heads}"

    def floor_bytes(self, kernel: str) -> int:
        """Return the bytes that a kernel must at least read and write."""
        nope, rope, value = self.nope_dim, self.rope_dim, self.value_dim
        # Elements, per head and per token.
        per_head, per_token = {
            "q_fprop_inplace": (2 * rope, 0),
            "q_bprop_inplace": (2 * rope, 0),
            "q_fprop": (2 * (nope + rope), 0),
            "q_bprop": (2 * (nope + rope), 0),
            "kv_split_fprop": (nope + value + nope + rope + value, rope),
            "kv_split_bprop": (nope + rope + value + nope + value, rope),
            "k_fused_fprop": (nope + nope + rope, rope),
            "k_fused_bprop": (2 * (nope + rope), 0),
        }[kernel]
        elements = self.tokens * (per_head * self.heads + per_token)
        tables = 2 * self.seq_len * rope // 2 * torch.float32.itemsize
        return elements * self.dtype.itemsize + tables


@dataclass(frozen=True)
class Case:
    """A kernel with random data of its own.

    Attributes:
        run: Runs the fused kernel.
        expect: Runs the eager definition on copies, and returns the expected `outputs`.
        outputs: Tensors that the kernel writes.
        restore: Fills the outputs with NaN; in place, restores the input.
    """

    run: Callable[[], None]
    expect: Callable[[], tuple[Tensor, ...]]
    outputs: tuple[Tensor, ...]
    restore: Callable[[], None]


def build(
    kernel: str, shape: Shape, tile: Tile | None = None, device: str = "cuda", keep: bool = False
) -> Case:
    """Allocate inputs and outputs of one of KERNELS.

    Args:
        kernel: Its name.
        shape: The layer's shape.
        tile: Work of a program; None follows the kernel's own rule.
        device: cpu or cuda.
        keep: Keep a copy of an input that is overwritten, for `restore`.
    """
    seq_len, batch, heads = shape.seq_len, shape.batch, shape.heads
    nope, rope, value = shape.nope_dim, shape.rope_dim, shape.value_dim
    tables = rope_tables(seq_len, rope, device=device)
    rotation = Rotation(tables.cos, tables.sin, None)

    def random(head_count: int, width: int) -> Tensor:
        return torch.randn(seq_len, batch, head_count, width, dtype=shape.dtype, device=device)

    if kernel.startswith("q_"):
        x = random(heads, nope + rope)
        inverse = "bprop" in kernel
        in_place = kernel.endswith("inplace")
        out = x if in_place else torch.empty_like(x)
        original = x.clone() if in_place and keep else x

        def expect_q() -> tuple[Tensor, ...]:
            expected = torch.empty_like(original)
            rope_eager.q_into(expected, original, rotation, inverse=inverse)
            return (expected,)

        return Case(
            run=lambda: rope_triton.q_into(out, x, rotation, inverse=inverse, tile=tile),
            expect=expect_q,
            outputs=(out,),
            restore=lambda: _restore(x, original) if in_place else _poison(out),
        )
    inputs, outputs = {
        "kv_split_fprop": (
            ((heads, nope + value), (1, rope)),
            ((heads, nope + rope), (heads, value)),
        ),
        "kv_split_bprop": (
            ((heads, nope + rope), (heads, value)),
            ((heads, nope + value), (1, rope)),
        ),
        "k_fused_fprop": (((heads, nope + rope),), ((heads, nope + rope),)),
        "k_fused_bprop": (((heads, nope + rope),), ((heads, nope + rope),)),
    }[kernel]
    name = kernel.replace("_bprop", "_backward").replace("_fprop", "") + "_into"
    fused, eager = getattr(rope_triton, name), getattr(rope_eager, name)
    given = tuple(random(*size) for size in inputs)
    written = tuple(
        torch.empty(seq_len, batch, *size, dtype=shape.dtype, device=device) for size in outputs
    )

    def expect_kv() -> tuple[Tensor, ...]:
        expected = tuple(torch.empty_like(x) for x in written)
        eager(*expected, *given, rotation)
        return expected

    return Case(
        run=lambda: fused(*written, *given, rotation, tile=tile),
        expect=expect_kv,
        outputs=written,
        restore=lambda: _poison(*written),
    )


def _poison(*outputs: Tensor) -> None:
    for x in outputs:
        x.fill_(torch.nan)


def _restore(x: Tensor, original: Tensor) -> None:
    if original is not x:
        x.copy_(original)
