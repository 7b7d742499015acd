"""Inputs, weights and tables of one layer, drawn the same for every implementation.

Axes: S tokens of a sequence, B batch, C hidden. Weights are named <layer>_weight and, if the shape
has them, <layer>_bias. The layers are qkv and out (fused), or q, kv and out (split); with split, q
and kv also have a norm: <layer>_norm_weight, <layer>_norm_bias.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import torch
from torch import Tensor

from conf.choices import AttnMask, Projection, QkvFormat, RopeTable
from conf.schema import Shape
from mxfp8_attention.flops import projection_widths
from mxfp8_attention.rope import RopeTables, YarnParameters, rope_tables, softmax_scale


@dataclass(frozen=True)
class Case:
    """Inputs, weights and tables of one layer.

    Attributes:
        shape: The layer.
        x_SBC: bf16 input.
        dout_SBC: bf16 upstream gradient, random normal.
        weights: bf16, by name.
        tables: FP32 cosines and sines.
        softmax_scale: Factor on Q K^T.
    """

    shape: Shape
    x_SBC: Tensor
    dout_SBC: Tensor
    weights: dict[str, Tensor]
    tables: RopeTables
    softmax_scale: float

    @property
    def causal(self) -> bool:
        """True if a token attends only to itself and the tokens before it."""
        return self.shape.attn_mask is AttnMask.causal


def weight_shapes(shape: Shape) -> dict[str, tuple[int, ...]]:
    """Return the size of each weight by name, in the layout of torch's Linear."""
    hidden = shape.hidden
    shapes: dict[str, tuple[int, ...]] = {}

    def linear(name: str, rows: int, columns: int) -> None:
        shapes[f"{name}_weight"] = (rows, columns)
        if shape.bias:
            shapes[f"{name}_bias"] = (rows,)

    for name, width in projection_widths(shape).items():
        if shape.projection is Projection.split:
            shapes[f"{name}_norm_weight"] = (hidden,)
            shapes[f"{name}_norm_bias"] = (hidden,)
        linear(name, width, hidden)
    linear("out", hidden, shape.num_heads * shape.head_dim_v)
    return shapes


def make_case(shape: Shape, device: torch.device | str, *, seed: int | None = None) -> Case:
    """Draw the inputs of one layer; equal shape, seed and device give equal tensors.

    Args:
        shape: The layer.
        device: Device of every tensor; a CPU and a GPU draw different numbers.
        seed: Overrides `shape.seed`.

    Returns:
        x and the upstream gradient are standard normal; weights and biases are normal with a
        standard deviation of `init_std`, a norm's weight around 1.

    Raises:
        ValueError: The shape's qkv_format is not sbhd.
    """
    if shape.qkv_format is not QkvFormat.sbhd:
        raise ValueError(
            f"shape.qkv_format must be sbhd, got {shape.qkv_format.name}; "
            "set shape.qkv_format=sbhd"
        )
    device = torch.device(device)
    base_seed = shape.seed if seed is None else seed

    def normal(name: str, size: tuple[int, ...]) -> Tensor:
        # One generator for each name, so that leaving out a bias changes no other tensor. The
        # CPU's generator uses 32 bits of its seed.
        generator = torch.Generator(device)
        generator.manual_seed(zlib.crc32(f"{name} {base_seed}".encode()))
        return torch.randn(size, generator=generator, device=device, dtype=torch.bfloat16)

    weights: dict[str, Tensor] = {}
    for name, size in weight_shapes(shape).items():
        weights[name] = normal(name, size).mul_(shape.init_std)
        if name.endswith("norm_weight"):
            weights[name].add_(1)
    yarn = yarn_parameters(shape)
    tokens = (shape.seq_len, shape.batch, shape.hidden)
    return Case(
        shape=shape,
        x_SBC=normal("x", tokens),
        dout_SBC=normal("dout", tokens),
        weights=weights,
        tables=rope_tables(
            shape.seq_len, shape.head_dim_rope, base=shape.rope_base, yarn=yarn, device=device
        ),
        softmax_scale=softmax_scale(shape.head_dim_qk, yarn),
    )


def yarn_parameters(shape: Shape) -> YarnParameters | None:
    """Return the YaRN parameters of a shape, None for plain RoPE."""
    if shape.rope_table is not RopeTable.yarn:
        return None
    return YarnParameters(
        factor=shape.yarn_factor,
        original_seq_len=shape.yarn_original_seq_len,
        beta_fast=shape.yarn_beta_fast,
        beta_slow=shape.yarn_beta_slow,
    )
