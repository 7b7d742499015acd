"""Composes the points of `docs/results/h200.md`, on a machine with Hydra.

    python -m tools.gpu.points > docs/results/points.json

`python -m tools.gpu.results` reads that file on a GPU machine without Hydra.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from conf.plain import from_plain, to_plain
from conf.schema import Point

ROOT = Path(__file__).resolve().parents[2]
_POINT_KEYS = ("job", "gpu", "shape", "recipe", "backend", "tolerance", "benchmark")


@dataclass(frozen=True)
class PagePoint:
    """One point of the page.

    Attributes:
        name: Name on the page.
        group: Part of the page; groups can run in separate calls.
        overrides: Command line after `python launch.py gpu=h200`.
        cudnn: `bundled` makes both libraries load PyTorch's cuDNN, `as_found` changes nothing.
    """

    name: str
    group: str
    overrides: str
    cudnn: str = "bundled"


# For intervals of at most 1 %: a power-capped GPU varies by 3 % from block to block.
_LONG = "benchmark.blocks=120 benchmark.budget_s=120"
_SHORT = "benchmark.blocks=10 benchmark.iterations_per_block=4"
_FEW = "benchmark=quick benchmark.blocks=3 benchmark.warmup_max_iterations=5"

POINTS = (
    # Recipes at the seed's shape, and the two that Hopper does not support.
    PagePoint("dsv3 bf16", "recipes", f"shape=dsv3 recipe=bf16 {_LONG}"),
    PagePoint("dsv3 fp8_current", "recipes", f"shape=dsv3 recipe=fp8_current {_LONG}"),
    PagePoint("dsv3 fp8_block", "recipes", f"shape=dsv3 recipe=fp8_block {_LONG}"),
    PagePoint("dsv3 mxfp8", "recipes", "shape=dsv3 recipe=mxfp8"),
    PagePoint(
        "dsv3 fp8_current fp8_dpa",
        "recipes",
        "shape=dsv3 recipe=fp8_current recipe.fp8_dpa=true",
    ),
    PagePoint(
        "hopper_fp8 fp8_delayed fp8_dpa",
        "recipes",
        "shape=hopper_fp8 recipe=fp8_delayed recipe.fp8_dpa=true benchmark.blocks=40",
    ),
    # Conflicting cuDNNs.
    PagePoint("probe", "cudnn", "job=probe"),
    PagePoint("probe, cuDNN as found", "cudnn", "job=probe", "as_found"),
    PagePoint(
        "dsv2_lite bf16, cuDNN as found",
        "cudnn",
        f"shape=dsv2_lite recipe=bf16 {_FEW}",
        "as_found",
    ),
    # RoPE and the emulation at the full shape.
    PagePoint(
        "dsv3 bf16, eager RoPE",
        "paths",
        f"shape=dsv3 recipe=bf16 shape.rope_kernel=eager tolerance=none {_SHORT}",
    ),
    PagePoint(
        "dsv3 bf16, triton RoPE",
        "paths",
        f"shape=dsv3 recipe=bf16 shape.rope_kernel=triton tolerance=none {_SHORT}",
    ),
    PagePoint("dsv3 mxfp8, emulated", "paths", f"shape=dsv3 recipe=mxfp8 backend=emulated {_FEW}"),
    PagePoint(
        "dsv3 split bf16",
        "paths",
        f"shape=dsv3 shape.projection=split recipe=bf16 {_SHORT}",
    ),
    PagePoint(
        "dsv3 fp8_current, cached weights",
        "paths",
        f"shape=dsv3 recipe=fp8_current recipe.weights=cached {_SHORT}",
    ),
    # Models and sequence lengths, BF16 and FP8 side by side.
    PagePoint("dsv3_model fp8_current", "shapes", f"shape=dsv3_model recipe=fp8_current {_SHORT}"),
    PagePoint("kimi_k2 fp8_current", "shapes", f"shape=kimi_k2 recipe=fp8_current {_SHORT}"),
    PagePoint("dsv2_lite fp8_current", "shapes", f"shape=dsv2_lite recipe=fp8_current {_SHORT}"),
    PagePoint(
        "dsv3 s=1024 fp8_current",
        "shapes",
        f"shape=dsv3 shape.seq_len=1024 recipe=fp8_current {_SHORT}",
    ),
    PagePoint(
        "dsv3 s=2048 fp8_current",
        "shapes",
        f"shape=dsv3 shape.seq_len=2048 recipe=fp8_current {_SHORT}",
    ),
    PagePoint(
        "dsv3 s=8192 fp8_current",
        "shapes",
        f"shape=dsv3 shape.seq_len=8192 recipe=fp8_current {_SHORT}",
    ),
    # Errors against FP32 are not gated: predicting them takes longer than measuring.
    PagePoint(
        "dsv3 s=16384 fp8_current",
        "shapes",
        "shape=dsv3 shape.seq_len=16384 recipe=fp8_current tolerance=none "
        "benchmark.blocks=6 benchmark.iterations_per_block=2",
    ),
    PagePoint(
        "dsv2_lite s=1024 fp8_current, CUDA graph",
        "shapes",
        "shape=dsv2_lite shape.seq_len=1024 recipe=fp8_current benchmark.cuda_graph=true "
        + _SHORT,
    ),
    # An extra, untimed pass, with the profile beside the record.
    PagePoint(
        "dsv2_lite fp8_current, under ncu",
        "profile",
        f"shape=dsv2_lite recipe=fp8_current {_FEW} benchmark.profile=ncu",
    ),
)


def compose(point: PagePoint) -> dict[str, Any]:
    """Compose a point by the command line, and return an entry of `points.json`.

    Raises:
        SystemExit: The command line rejected it.
    """
    arguments = ["gpu=h200", *point.overrides.split()]
    done = subprocess.run(
        [sys.executable, "launch.py", "run", *arguments, "--cfg", "job", "--resolve"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise SystemExit(f"{point.name}: {done.stderr.strip()}")
    composed: Any = OmegaConf.to_container(OmegaConf.create(done.stdout))
    config = from_plain(Point, {key: composed[key] for key in _POINT_KEYS})
    return {
        "name": point.name,
        "group": point.group,
        "cudnn": point.cudnn,
        "command": " ".join(["python launch.py", *arguments]),
        "point": to_plain(config),
    }


if __name__ == "__main__":
    print(json.dumps([compose(point) for point in POINTS], indent=1))
