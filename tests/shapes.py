"""Shapes for tests: one that takes milliseconds, and one of a real model."""

from __future__ import annotations

from dataclasses import replace

from conf.schema import Shape

DSV3 = Shape(name="dsv3", seq_len=4096, hidden=16384, num_heads=128)
# shape=tiny, which has stored predictions.
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
    """Return the tiny shape with some keys replaced."""
    return replace(TINY, **changes)  # type: ignore[arg-type]  # the keys' types are the caller's
