"""Shows that the harness costs nothing: its BF16 figures against a bare loop.

    python -m tools.gpu.harness [--output harness.json]

At shape=dsv3 projection=split, which is what Transformer Engine's own MXFP8 attention test
configures: LayerNormLinear for Q and for KV, DotProductAttention, Linear. The bare loop calls
the same modules, in the same process, with nothing of the harness around them. Needs a CUDA GPU
with Transformer Engine.
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from conf.choices import Projection
from conf.schema import Benchmark, Bf16Recipe, Shape
from jobs.node.arm import BASELINE, RECIPE
from jobs.node.benchmark import take_samples
from jobs.node.clock import CudaClock, timing_event
from jobs.record import DIRECTIONS
from mxfp8_attention.case import make_case
from mxfp8_attention.rope import mla_rope_kv, mla_rope_q
from mxfp8_attention.te.layer import TransformerEnginePath

ALLOWED_DIFFERENCE = 0.02
SHAPE = Shape(
    name="dsv3",
    seq_len=4096,
    hidden=16384,
    num_heads=128,
    projection=Projection.split,
)
# (module, in_features, out_features) of tests/pytorch/attention's MLA test for MXFP8.
TRANSFORMER_ENGINE_TEST = (
    ("LayerNormLinear", 16384, 24576),
    ("LayerNormLinear", 16384, 32832),
    ("DotProductAttention", 128, (192, 128)),
    ("Linear", 16384, 16384),
)
_ROUNDS = 4
METHOD = Benchmark(name="harness", blocks=10, iterations_per_block=5)


def configuration(path: TransformerEnginePath) -> tuple[tuple[str, Any, Any], ...]:
    """What a path's modules are, as `TRANSFORMER_ENGINE_TEST` writes it."""
    attention = path.attention_module
    q, kv, out = (path.layers[name] for name in ("q", "kv", "out"))
    channels = (
        attention.hidden_size_per_attention_head_k,
        attention.hidden_size_per_attention_head_v,
    )
    return (
        (type(q).__name__, q.in_features, q.out_features),
        (type(kv).__name__, kv.in_features, kv.out_features),
        (type(attention).__name__, attention.num_attention_heads, channels),
        (type(out).__name__, out.in_features, out.out_features),
    )


def bare_loop(path: TransformerEnginePath, warmup: int, iterations: int) -> dict[str, list[float]]:
    """Times the modules of a path by hand.

    Args:
        path: Whose modules.
        warmup: Iterations before the first sample.
        iterations: Samples.

    Returns:
        Milliseconds of each fprop and each bprop.
    """
    case, shape = path.case, path.case.shape
    q_layer, kv_layer, out_layer = (path.layers[name] for name in ("q", "kv", "out"))
    rope_dim, nope_dim = shape.head_dim_rope, shape.head_dim_nope
    leaves = [path.x_SBC, *path.parameters().values()]
    events: list[tuple[torch.cuda.Event, ...]] = []
    for _ in range(warmup + iterations):
        for leaf in leaves:
            leaf.grad = None
        start, middle, end = (timing_event() for _ in range(3))
        start.record()
        q = q_layer(path.x_SBC).unflatten(-1, (shape.num_heads, -1))
        kv = kv_layer(path.x_SBC)
        k_pe = kv[..., -rope_dim:].unsqueeze(2)
        k, v = mla_rope_kv(
            kv[..., :-rope_dim].unflatten(-1, (shape.num_heads, -1)),
            k_pe,
            case.tables,
            nope_dim=nope_dim,
        )
        q = mla_rope_q(q, case.tables, rope_dim=rope_dim)
        out = out_layer(path.attention_module(q, k, v))
        middle.record()
        out.backward(case.dout_SBC)
        end.record()
        events.append((start, middle, end))
        del q, kv, k_pe, k, v, out
    # Not before: a GPU that waits for the host would count the host's time as the modules'.
    torch.cuda.synchronize()
    return {
        "fprop": [start.elapsed_time(middle) for start, middle, _ in events[warmup:]],
        "bprop": [middle.elapsed_time(end) for _, middle, end in events[warmup:]],
    }


def compare(shape: Shape = SHAPE, method: Benchmark = METHOD) -> dict[str, Any]:
    """Measures both ways, several times each, in turn.

    Args:
        shape: The layer.
        method: The harness's method; its L2 flush is measured apart.

    Returns:
        Medians in milliseconds, their relative difference, and the modules' configuration.
    """
    case = make_case(shape, "cuda")
    path = TransformerEnginePath(Bf16Recipe(), case)
    again = TransformerEnginePath(Bf16Recipe(), case)
    bare: dict[str, list[float]] = {"fprop": [], "bprop": []}
    harness: dict[str, list[float]] = {"fprop": [], "bprop": []}
    flushed: dict[str, list[float]] = {"fprop": [], "bprop": []}
    for _ in range(_ROUNDS):
        for kept, method_used in ((harness, replace(method, flush_l2=False)), (flushed, method)):
            found = take_samples(
                {RECIPE: again, BASELINE: path}, method_used, CudaClock(), lambda: False
            )
            for direction in DIRECTIONS:
                kept[direction] += found.ms_BI(BASELINE, direction).flatten().tolist()
        by_hand = bare_loop(path, 10, method.blocks * method.iterations_per_block)
        for direction in DIRECTIONS:
            bare[direction] += by_hand[direction]
    result: dict[str, Any] = {
        "configuration": configuration(path),
        "transformer_engine_test": TRANSFORMER_ENGINE_TEST,
        "samples": len(bare["fprop"]),
    }
    for direction in DIRECTIONS:
        medians = {
            "bare_ms": statistics.median(bare[direction]),
            "harness_ms": statistics.median(harness[direction]),
            "harness_flushed_ms": statistics.median(flushed[direction]),
        }
        difference = medians["harness_ms"] / medians["bare_ms"] - 1
        result[direction] = {**medians, "difference": difference}
    return result


def main() -> None:
    """Compares, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    result = compare()
    if options.output:
        options.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    same = result["configuration"] == TRANSFORMER_ENGINE_TEST
    print(f"modules equal Transformer Engine's test: {same}: {result['configuration']}")
    for direction in DIRECTIONS:
        found = result[direction]
        verdict = "within" if abs(found["difference"]) <= ALLOWED_DIFFERENCE else "NOT within"
        print(
            f"{direction}: bare loop {found['bare_ms']:.3f} ms, harness {found['harness_ms']:.3f} "
            f"ms ({found['difference']:+.2%}, {verdict} {ALLOWED_DIFFERENCE:.0%}); "
            f"with L2 flushed {found['harness_flushed_ms']:.3f} ms"
        )


if __name__ == "__main__":
    main()
