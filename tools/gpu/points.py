"""Composes the points that `docs/results/h200.md` shows, on a machine with Hydra.

    python -m tools.gpu.points > docs/results/points.json

The GPU machine needs no Hydra then: `python -m tools.gpu.results` reads that file.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from conf.plain import from_plain, to_plain
from conf.schema import Point

ROOT = Path(__file__).resolve().parents[2]
_POINT_KEYS = ("job", "gpu", "shape", "recipe", "backend", "tolerance", "benchmark")


@dataclass(frozen=True)
class Wanted:
    """One point of the page.

    Attributes:
        name: What the page calls it.
        group: Which part of the page; groups can be run in separate calls.
        overrides: The command line after `python launch.py gpu=h200`.
        cudnn: `bundled`: both libraries take PyTorch's cuDNN; `as_found`: left to chance.
    """

    name: str
    group: str
    overrides: tuple[str, ...]
    cudnn: str = field(default="bundled")


# Intervals no wider than 1 % of the value: a power-capped GPU scatters by 3 % from block to block.
_LONG = ("benchmark.blocks=120", "benchmark.budget_s=120")
_SHORT = ("benchmark.blocks=10", "benchmark.iterations_per_block=4")
_FEW = ("benchmark=quick", "benchmark.blocks=3", "benchmark.warmup_max_iterations=5")

WANTED = (
    # Recipes at the seed's shape, and the two that Hopper refuses.
    Wanted("dsv3 bf16", "recipes", ("shape=dsv3", "recipe=bf16", *_LONG)),
    Wanted("dsv3 fp8_current", "recipes", ("shape=dsv3", "recipe=fp8_current", *_LONG)),
    Wanted("dsv3 fp8_block", "recipes", ("shape=dsv3", "recipe=fp8_block", *_LONG)),
    Wanted("dsv3 mxfp8", "recipes", ("shape=dsv3", "recipe=mxfp8")),
    Wanted(
        "dsv3 fp8_current fp8_dpa",
        "recipes",
        ("shape=dsv3", "recipe=fp8_current", "recipe.fp8_dpa=true"),
    ),
    Wanted(
        "hopper_fp8 fp8_delayed fp8_dpa",
        "recipes",
        ("shape=hopper_fp8", "recipe=fp8_delayed", "recipe.fp8_dpa=true", "benchmark.blocks=40"),
    ),
    # Two cuDNNs that disagree.
    Wanted("probe", "cudnn", ("job=probe",)),
    Wanted("probe, cuDNN as found", "cudnn", ("job=probe",), "as_found"),
    Wanted(
        "dsv2_lite bf16, cuDNN as found",
        "cudnn",
        ("shape=dsv2_lite", "recipe=bf16", *_FEW),
        "as_found",
    ),
    # RoPE and the emulation at the full shape.
    Wanted(
        "dsv3 bf16, eager RoPE",
        "paths",
        ("shape=dsv3", "recipe=bf16", "shape.rope_kernel=eager", "tolerance=none", *_SHORT),
    ),
    Wanted(
        "dsv3 bf16, triton RoPE",
        "paths",
        ("shape=dsv3", "recipe=bf16", "shape.rope_kernel=triton", "tolerance=none", *_SHORT),
    ),
    Wanted(
        "dsv3 mxfp8, emulated",
        "paths",
        ("shape=dsv3", "recipe=mxfp8", "backend=emulated", *_FEW),
    ),
    Wanted(
        "dsv3 split bf16",
        "paths",
        ("shape=dsv3", "shape.projection=split", "recipe=bf16", *_SHORT),
    ),
    Wanted(
        "dsv3 fp8_current, cached weights",
        "paths",
        ("shape=dsv3", "recipe=fp8_current", "recipe.weights=cached", *_SHORT),
    ),
    # Models and sequence lengths, BF16 and FP8 side by side.
    Wanted(
        "dsv3_model fp8_current", "shapes", ("shape=dsv3_model", "recipe=fp8_current", *_SHORT)
    ),
    Wanted("kimi_k2 fp8_current", "shapes", ("shape=kimi_k2", "recipe=fp8_current", *_SHORT)),
    Wanted("dsv2_lite fp8_current", "shapes", ("shape=dsv2_lite", "recipe=fp8_current", *_SHORT)),
    *(
        Wanted(
            f"dsv3 s={seq_len} fp8_current",
            "shapes",
            ("shape=dsv3", f"shape.seq_len={seq_len}", "recipe=fp8_current", *_SHORT),
        )
        for seq_len in (1024, 2048, 8192)
    ),
    # Errors against FP32 are shown, not gated: predicting them takes longer than measuring.
    Wanted(
        "dsv3 s=16384 fp8_current",
        "shapes",
        (
            "shape=dsv3",
            "shape.seq_len=16384",
            "recipe=fp8_current",
            "tolerance=none",
            "benchmark.blocks=6",
            "benchmark.iterations_per_block=2",
        ),
    ),
    Wanted(
        "dsv2_lite s=1024 fp8_current, CUDA graph",
        "shapes",
        (
            "shape=dsv2_lite",
            "shape.seq_len=1024",
            "recipe=fp8_current",
            "benchmark.cuda_graph=true",
            *_SHORT,
        ),
    ),
    # An untimed pass more, with the profile beside the record.
    Wanted(
        "dsv2_lite fp8_current, under ncu",
        "profile",
        ("shape=dsv2_lite", "recipe=fp8_current", *_FEW, "benchmark.profile=ncu"),
    ),
)


def compose(wanted: Wanted) -> dict[str, Any]:
    """Lets the command line compose one point.

    Args:
        wanted: The point.

    Returns:
        What `python -m jobs.node` takes, and how to run it.

    Raises:
        SystemExit: The command line refused it.
    """
    words = ["gpu=h200", *wanted.overrides]
    done = subprocess.run(
        [sys.executable, "launch.py", "run", *words, "--cfg", "job", "--resolve"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise SystemExit(f"{wanted.name}: {done.stderr.strip()}")
    composed: Any = OmegaConf.to_container(OmegaConf.create(done.stdout))
    point = from_plain(Point, {key: composed[key] for key in _POINT_KEYS})
    return {
        "name": wanted.name,
        "group": wanted.group,
        "cudnn": wanted.cudnn,
        "command": " ".join(["python launch.py", *words]),
        "point": to_plain(point),
    }


if __name__ == "__main__":
    print(json.dumps([compose(wanted) for wanted in WANTED], indent=1))
