"""Faults to plant in the emulated MXFP8 path."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from conf.schema import Bf16Recipe, MxFp8Recipe, Shape
from mxfp8_attention.case import Case
from mxfp8_attention.emulation import linear, rounding
from mxfp8_attention.emulation.attention import AttentionMask
from mxfp8_attention.emulation.attention_numerics import BF16_NUMERICS
from mxfp8_attention.emulation.layer import EmulatedPath
from mxfp8_attention.emulation.linear import EmulatedLinear, linear_numerics
from mxfp8_attention.emulation.mxfp8 import Fp8Format, fake_quantize, quantize
from mxfp8_attention.rope import RopeTables, rope_tables

RECIPE = MxFp8Recipe()
HEAD = 1
"""The head that a fault of one head affects."""


class MutantPath(EmulatedPath):
    """The correct path, with hooks for faults."""

    def __init__(self, case: Case) -> None:
        super().__init__(RECIPE, case)
        self.q_tables = self.k_tables = case.tables
        self.before_rope: Callable[[Tensor], Tensor] = lambda x: x
        self.after_rope: Callable[..., tuple[Tensor, Tensor, Tensor]] = lambda q, k, v: (q, k, v)
        self.after_attention: Callable[[Tensor], Tensor] = lambda x: x

    def rope(self, *projected: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Apply RoPE with separate tables for queries and keys."""
        case = self.case
        inputs = [self.before_rope(tensor) for tensor in projected]
        self.case = dataclasses.replace(case, tables=self.q_tables)
        q, _, v = super().rope(*inputs)
        self.case = dataclasses.replace(case, tables=self.k_tables)
        _, k, _ = super().rope(*inputs)
        self.case = case
        return self.after_rope(q, k, v)

    def attend(self, q_SBHD: Tensor, k_SBHD: Tensor, v_SBHD: Tensor) -> Tensor:
        """Run attention and the hook on its result."""
        return self.after_attention(super().attend(q_SBHD, k_SBHD, v_SBHD))

    def attention(self, **roundings: rounding.Rounding) -> None:
        """Replace roundings of attention's operands."""
        numerics = dataclasses.replace(self.attention_rules.numerics, **roundings)  # type: ignore[arg-type]  # mypy sees only the threshold
        self.attention_rules = dataclasses.replace(self.attention_rules, numerics=numerics)

    def linears(self, **roundings: rounding.Rounding) -> None:
        """Replace roundings of the linear layers' operands."""
        self.linear_numerics = dataclasses.replace(self.linear_numerics, **roundings)  # type: ignore[arg-type]  # mypy sees only the flag


Fault = Callable[[MutantPath], None]


@dataclass(frozen=True)
class Mutant:
    """A fault.

    Attributes:
        name: The fault, in words.
        plant: Plants it in a correct path.
    """

    name: str
    plant: Fault


def _shifted(shape: Shape) -> RopeTables:
    return rope_tables(
        torch.arange(1, shape.seq_len + 1), shape.head_dim_rope, base=shape.rope_base
    )


def _zeros(x: Tensor) -> Tensor:
    return torch.zeros_like(x, dtype=torch.float32)


def _zeroed(path: MutantPath) -> None:
    path.after_attention = lambda x: x * 0


def _zeroed_weight_gradient(path: MutantPath) -> None:
    path.linears(x_wgrad=_zeros)


def _rope_off_by_one(path: MutantPath) -> None:
    path.q_tables = path.k_tables = _shifted(path.case.shape)


def _key_rope_off_by_one(path: MutantPath) -> None:
    path.k_tables = _shifted(path.case.shape)


def _half_split_input(path: MutantPath) -> None:
    shape = path.case.shape
    qk, rope = shape.head_dim_qk, shape.head_dim_rope
    columns = torch.arange(qk)
    # The order in which an interleaved reader reads the two halves as pairs.
    columns[-rope:] = columns[-rope:].view(2, -1).T.flatten()
    heads = 2 * shape.num_heads
    order = (torch.arange(heads)[:, None] * qk + columns).flatten()

    def reorder(qkv: Tensor) -> Tensor:
        return torch.cat((qkv[..., order], qkv[..., heads * qk :]), dim=-1)

    path.before_rope = reorder


def _key_not_rotated(path: MutantPath) -> None:
    tables = path.case.tables
    path.k_tables = RopeTables(torch.ones_like(tables.cos), torch.zeros_like(tables.sin))


def _key_gradient_of_head_0(path: MutantPath) -> None:
    nope = path.case.shape.head_dim_nope

    def lose(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rest = torch.cat((k[:, :, 1:, :nope], k[:, :, 1:, nope:].detach()), dim=-1)
        return q, torch.cat((k[:, :, :1], rest), dim=2), v

    path.after_rope = lose


def _unscaled(axis: int) -> rounding.Rounding:
    return lambda x: quantize(x, axis).data.to(torch.float32)


def _value_scales_dropped(path: MutantPath) -> None:
    path.attention(v_out=_unscaled(-2))


def _one_block_scale_dropped(path: MutantPath) -> None:
    def one_block(x: Tensor) -> Tensor:
        rounded = fake_quantize(x, -1)
        rounded[:, :32, :32] = quantize(x, -1).data[:, :32, :32].to(torch.float32)
        return rounded

    path.attention(k_score=one_block)


def _scales_of_the_other_axis(x: Tensor, axis: int) -> Tensor:
    """Data quantized along `axis` times scales of blocks along the other."""
    other = -3 - axis
    scale = torch.exp2(quantize(x, other).scale_e8m0.to(torch.float32) - 127)
    return quantize(x, axis).data.to(torch.float32) * scale.repeat_interleave(32, dim=other)


def _scales_along_the_wrong_axis(path: MutantPath) -> None:
    path.attention(v_out=partial(_scales_of_the_other_axis, axis=-2))


def _blocks_along_the_wrong_axis(path: MutantPath) -> None:
    path.attention(v_out=rounding.mx_row(), q_score=rounding.mx_col(), k_score=rounding.mx_col())


def _wrong_softmax_scale(path: MutantPath) -> None:
    scale = path.case.shape.head_dim_nope**-0.5
    path.attention_rules = dataclasses.replace(path.attention_rules, scale=scale)


def _mask(diagonal: int | None) -> Fault:
    def plant(path: MutantPath) -> None:
        mask = AttentionMask(diagonal)
        path.attention_rules = dataclasses.replace(path.attention_rules, mask=mask)

    return plant


def _columns_of_rows(x: Tensor) -> Tensor:
    return fake_quantize(fake_quantize(x, -1), -2)


def _double_quantization(path: MutantPath) -> None:
    path.linears(w_dgrad=_columns_of_rows, dy_wgrad=_columns_of_rows, x_wgrad=_columns_of_rows)


def _double_quantization_in_attention(path: MutantPath) -> None:
    path.attention(
        v_out=_columns_of_rows,
        dout_dv=_columns_of_rows,
        k_dq=_columns_of_rows,
        q_dk=_columns_of_rows,
    )


def _e5m2_inputs(path: MutantPath) -> None:
    row = rounding.mx_row(Fp8Format.E5M2)
    path.linears(x_fprop=row, x_wgrad=rounding.mx_col(Fp8Format.E5M2))


def _e5m2_gradients(path: MutantPath) -> None:
    path.linears(
        dy_dgrad=rounding.mx_row(Fp8Format.E5M2), dy_wgrad=rounding.mx_col(Fp8Format.E5M2)
    )


def _e5m2_probabilities(path: MutantPath) -> None:
    forward, backward = (rounding.fixed_scale(s, Fp8Format.E5M2) for s in (16.0, 256.0))
    path.attention(p_forward=forward, p_backward=backward)


def _head_gradient_lost(path: MutantPath) -> None:
    def lose(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        kept = torch.ones(q.shape[2], 1)
        kept[HEAD] = 0
        return q * kept + (q * (1 - kept)).detach(), k, v

    path.after_rope = lose


def _bf16_attention(path: MutantPath) -> None:
    path.attention_rules = dataclasses.replace(path.attention_rules, numerics=BF16_NUMERICS)


def _bf16_output_layer(path: MutantPath) -> None:
    weight, bias = path.parameters()["out_weight"], path.parameters()["out_bias"]
    numerics = linear_numerics(Bf16Recipe())
    path._layers["out"] = EmulatedLinear(weight, bias, numerics, RECIPE.weights)


def _delta_left_out(path: MutantPath) -> None:
    path.attention(dout_delta=_zeros)


MUTANTS = (
    Mutant("attention output zeroed", _zeroed),
    Mutant("every weight's gradient zeroed", _zeroed_weight_gradient),
    Mutant("RoPE off by one position", _rope_off_by_one),
    Mutant("K's RoPE alone off by one position", _key_rope_off_by_one),
    Mutant("half-split instead of interleaved input", _half_split_input),
    Mutant("K's rotation left out", _key_not_rotated),
    Mutant("rotary key's gradient from head 0 alone", _key_gradient_of_head_0),
    Mutant("V's scales dropped", _value_scales_dropped),
    Mutant("the scales of one tile of K dropped", _one_block_scale_dropped),
    Mutant("scales read along the wrong axis of V", _scales_along_the_wrong_axis),
    Mutant("Q, K, V quantized along the wrong axis", _blocks_along_the_wrong_axis),
    Mutant("softmax scale of the nope width", _wrong_softmax_scale),
    Mutant("no mask", _mask(None)),
    Mutant("mask off by one", _mask(1)),
    Mutant("double quantization in the linear layers", _double_quantization),
    Mutant("double quantization in attention", _double_quantization_in_attention),
    Mutant("E5M2 for x", _e5m2_inputs),
    Mutant("E5M2 for gradients", _e5m2_gradients),
    Mutant("E5M2 for P", _e5m2_probabilities),
    Mutant("dQ of one head lost", _head_gradient_lost),
    Mutant("BF16 attention instead of MXFP8", _bf16_attention),
    Mutant("BF16 output layer instead of MXFP8", _bf16_output_layer),
    Mutant("delta left out of dS", _delta_left_out),
)


def plant_zeroed_dx(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every linear layer of the emulation return zeros for its input's gradient."""
    correct = linear._Linear.backward

    def faulty(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        dx, *others = correct(ctx, dy)
        assert dx is not None
        return (torch.zeros_like(dx), *others)

    monkeypatch.setattr(linear._Linear, "backward", staticmethod(faulty))


def plant_no_quantizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every linear layer of the emulation leave its operands in bf16."""
    for name in ("mx_row", "mx_col"):
        monkeypatch.setattr(linear, name, lambda *_: rounding.to_bf16)
