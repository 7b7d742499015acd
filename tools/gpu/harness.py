"""Measures the overhead of the harness: its BF16 times against a bare loop.

    python -m tools.gpu.harness [--output harness.json]

At shape=dsv3 projection=split, the configuration of Transformer Engine's own MXFP8 attention test:
LayerNormLinear for Q and for KV, DotProductAttention, Linear. The bare loop calls the same modules
in the same process without the harness. Needs a CUDA GPU with Transformer Engine.
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
    """Return a path's modules in the form of `TRANSFORMER_ENGINE_TEST`."""
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
    """Time a path's modules without the harness, and return each fprop and bprop in ms."""
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
    # Not earlier: if the GPU waits for the host, the events include the host's time.
    torch.cuda.synchronize()
    return {
        "fprop": [start.elapsed_time(middle) for start, middle, _ in events[warmup:]],
        "bprop": [middle.elapsed_time(end) for _, middle, end in events[warmup:]],
    }


def compare(shape: Shape = SHAPE, method: Benchmark = METHOD) -> dict[str, Any]:
    """Measure with and without the harness in turn, and with its L2 flush apart.

    Returns medians in ms, their relative difference, and the modules' configuration.
    """
    case = make_case(shape, "cuda")
    path = TransformerEnginePath(Bf16Recipe(), case)
    again = TransformerEnginePath(Bf16Recipe(), case)
    bare: dict[str, list[float]] = {direction: [] for direction in DIRECTIONS}
    harness: dict[str, list[float]] = {direction: [] for direction in DIRECTIONS}
    flushed: dict[str, list[float]] = {direction: [] for direction in DIRECTIONS}
    for _ in range(_ROUNDS):
        for times, method_used in ((harness, replace(method, flush_l2=False)), (flushed, method)):
            samples = take_samples(
                {RECIPE: again, BASELINE: path}, method_used, CudaClock(), lambda: False
            )
            for direction in DIRECTIONS:
                times[direction] += samples.ms_BI(BASELINE, direction).flatten().tolist()
        bare_times = bare_loop(path, 10, method.blocks * method.iterations_per_block)
        for direction in DIRECTIONS:
            bare[direction] += bare_times[direction]
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
    """Compare, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    result = compare()
    if options.output:
        options.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    same = result["configuration"] == TRANSFORMER_ENGINE_TEST
    print(f"modules equal Transformer Engine's test: {same}: {result['configuration']}")
    for direction in DIRECTIONS:
        times = result[direction]
        verdict = "within" if abs(times["difference"]) <= ALLOWED_DIFFERENCE else "NOT within"
        print(
            f"{direction}: bare loop {times['bare_ms']:.3f} ms, harness {times['harness_ms']:.3f} "
            f"ms ({times['difference']:+.2%}, {verdict} {ALLOWED_DIFFERENCE:.0%}); "
            f"with L2 flushed {times['harness_flushed_ms']:.3f} ms"
        )


if __name__ == "__main__":
    main()
