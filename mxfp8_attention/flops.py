"""Operations and bytes of each stage, and the least time that a GPU needs for them (roofline)."""

from __future__ import annotations

from dataclasses import dataclass

from conf.choices import AttnMask, Projection, RecipeName
from conf.schema import Gpu, Recipe, Shape

BF16_BYTES = 2
STAGES = ("qkv", "rope", "attention", "out")
DIRECTIONS = ("fprop", "bprop")


@dataclass(frozen=True)
class StageCost:
    """Work of one stage in one direction.

    Attributes:
        stage: qkv, rope, attention or out.
        direction: fprop or bprop.
        precision: Precision of its matrix products: bf16, fp8 or mxfp8.
        flops: Multiplications and additions of its matrix products.
        bytes_moved: Its bf16 inputs read once and its bf16 outputs written once.
    """

    stage: str
    direction: str
    precision: str
    flops: float
    bytes_moved: float


def stage_costs(shape: Shape, recipe: Recipe) -> tuple[StageCost, ...]:
    """Return the costs of one training step: four stages of fprop, then four of bprop."""
    linear, attention = precisions(recipe)
    tokens, hidden = shape.tokens, shape.hidden
    qkv_width, v_width = projection_width(shape), shape.num_heads * shape.head_dim_v
    rope_fprop, rope_bprop = _rope_bytes(shape)
    costs = []
    for direction in DIRECTIONS:
        forward = direction == "fprop"
        costs += [
            _linear_cost("qkv", direction, linear, tokens, hidden, qkv_width),
            StageCost("rope", direction, "bf16", 0.0, rope_fprop if forward else rope_bprop),
            _attention_cost(direction, attention, shape),
            _linear_cost("out", direction, linear, tokens, v_width, hidden),
        ]
    return tuple(costs)


def precisions(recipe: Recipe) -> tuple[str, str]:
    """Return the precision of the linear layers' products and of attention's."""
    if recipe.name is RecipeName.bf16:
        return "bf16", "bf16"
    linear = "mxfp8" if recipe.name is RecipeName.mxfp8 else "fp8"
    return linear, linear if getattr(recipe, "fp8_dpa", False) else "bf16"


def projection_widths(shape: Shape) -> dict[str, int]:
    """Return the columns of each projection by name: qkv, or q and kv."""
    heads, qk, v = shape.num_heads, shape.head_dim_qk, shape.head_dim_v
    if shape.projection is Projection.fused:
        return {"qkv": heads * (2 * qk + v)}
    return {"q": heads * qk, "kv": heads * (shape.head_dim_nope + v) + shape.head_dim_rope}


def projection_width(shape: Shape) -> int:
    """Return the columns of the fused projection, or of q and kv together."""
    return sum(projection_widths(shape).values())


def total_flops(shape: Shape, recipe: Recipe, direction: str) -> float:
    """Return the operations of all matrix products in one direction."""
    return sum(c.flops for c in stage_costs(shape, recipe) if c.direction == direction)


def peak_tflops(gpu: Gpu, precision: str) -> float | None:
    """Return the dense peak of one precision, None if the GPU lacks it."""
    peaks = {
        "bf16": gpu.peak_bf16_tflops,
        "fp8": gpu.peak_fp8_tflops,
        "mxfp8": gpu.peak_mxfp8_tflops,
    }
    return peaks[precision]


def floor_ms(cost: StageCost, gpu: Gpu) -> float | None:
    """Return the roofline in milliseconds: the longer of compute time and memory time.

    None if the peaks of the GPU are not known.
    """
    peak = peak_tflops(gpu, cost.precision)
    if peak is None or gpu.bandwidth_tb_per_s is None:
        return None
    return 1e3 * max(
        cost.flops / (peak * 1e12), cost.bytes_moved / (gpu.bandwidth_tb_per_s * 1e12)
    )


def total_floor_ms(shape: Shape, recipe: Recipe, gpu: Gpu, direction: str) -> float | None:
    """Return the sum of the floors of all stages, each at its own precision."""
    floors = [
        floor_ms(cost, gpu) for cost in stage_costs(shape, recipe) if cost.direction == direction
    ]
    return None if None in floors else sum(floor for floor in floors if floor is not None)


def _linear_cost(
    stage: str, direction: str, precision: str, tokens: int, inputs: int, outputs: int
) -> StageCost:
    # Backward: one product for the input's gradient and one for the weight's.
    products = 1 if direction == "fprop" else 2
    x, weight, y = tokens * inputs, inputs * outputs, tokens * outputs
    # Forward reads x, w and writes y; backward reads dy, x, w and writes dx, dw.
    elements = x + weight + y if direction == "fprop" else 2 * x + 2 * weight + y
    flops = 2.0 * products * tokens * inputs * outputs
    return StageCost(stage, direction, precision, flops, float(BF16_BYTES * elements))


def _attention_cost(direction: str, precision: str, shape: Shape) -> StageCost:
    qk, v = shape.head_dim_qk, shape.head_dim_v
    pairs = float(shape.batch * shape.num_heads * shape.seq_len**2)
    if shape.attn_mask is AttnMask.causal:
        pairs /= 2
    # Forward Q K^T and P V; backward Q K^T again, dO V^T, P^T dO, dS K, dS^T Q.
    width = qk + v if direction == "fprop" else 3 * qk + 2 * v
    rows = shape.tokens * shape.num_heads
    # Forward reads q, k, v and writes o; backward reads q, k, v, o, do and writes dq, dk, dv.
    row_elements = 2 * qk + 2 * v if direction == "fprop" else 4 * qk + 4 * v
    return StageCost(
        "attention",
        direction,
        precision,
        2.0 * pairs * width,
        float(BF16_BYTES * rows * row_elements),
    )


def _rope_bytes(shape: Shape) -> tuple[float, float]:
    """Return fprop and bprop bytes: q read and written, and k's traffic (split: k's and v's)."""
    rows, heads = shape.tokens, shape.num_heads
    qk, nope, rope = shape.head_dim_qk, shape.head_dim_nope, shape.head_dim_rope
    q = 2 * rows * heads * qk
    if shape.projection is Projection.fused:
        # Forward never reads the other heads' rotary columns; backward reads and writes them all.
        k_fprop = rows * (heads * nope + rope) + rows * heads * qk
        k_bprop = 2 * rows * heads * qk
    else:
        v = shape.head_dim_v
        k_fprop = rows * (heads * (nope + v) + rope) + rows * heads * (qk + v)
        k_bprop = k_fprop
    tables = 2 * 4 * shape.seq_len * rope  # FP32, read once
    return (
        float(BF16_BYTES * (q + k_fprop) + tables),
        float(BF16_BYTES * (q + k_bprop) + tables),
    )
