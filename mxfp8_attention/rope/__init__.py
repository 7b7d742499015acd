"""MLA RoPE: rotation of queries and of the shared key, its tables, eager and as Triton kernels."""

from mxfp8_attention.rope.mla import mla_rope_k, mla_rope_kv, mla_rope_q
from mxfp8_attention.rope.tables import (
    RopeTables,
    YarnParameters,
    context_parallel_positions,
    rope_tables,
    softmax_scale,
)

__all__ = [
    "RopeTables",
    "YarnParameters",
    "context_parallel_positions",
    "mla_rope_k",
    "mla_rope_kv",
    "mla_rope_q",
    "rope_tables",
    "softmax_scale",
]
