"""Shapes that take milliseconds, for the tests of the numerics."""

from __future__ import annotations

from dataclasses import replace

from conf.schema import Shape

TINY = Shape(
    name="tiny",
    seq_len=128,
    hidden=256,
    num_heads=4,
    head_dim_nope=64,
    head_dim_rope=32,
    head_dim_v=64,
    init_std=0.0625,
)


def tiny(**changes: object) -> Shape:
    """The tiny shape with some keys replaced."""
    return replace(TINY, **changes)  # type: ignore[arg-type]  # the keys' types are the caller's
