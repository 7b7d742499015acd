"""Small points and planted faults for the tests of the node side."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from conf.choices import Backend
from conf.plain import to_plain
from conf.schema import Benchmark, CalibratedTolerance, Gpu, MxFp8Recipe, Point, Recipe
from jobs.node.point_file import PointFile, read_point_file
from mxfp8_attention.case import Case
from mxfp8_attention.layer import AttentionPath
from mxfp8_attention.paths import build_path
from tests.shapes import TINY

CPU = Gpu(name="cpu", device="cpu", backend=Backend.emulated)
H200 = Gpu(
    name="h200",
    matches=["H200"],
    compute_capability="9.0",
    peak_bf16_tflops=989.0,
    peak_fp8_tflops=1979.0,
    bandwidth_tb_per_s=4.8,
)
GB300 = Gpu(
    name="gb300",
    matches=["GB300"],
    compute_capability="10.3",
    peak_bf16_tflops=2500.0,
    peak_fp8_tflops=5000.0,
    peak_mxfp8_tflops=5000.0,
    bandwidth_tb_per_s=8.0,
)
FEW = Benchmark(
    name="few",
    warmup_min_iterations=1,
    warmup_max_iterations=1,
    blocks=2,
    iterations_per_block=1,
    bootstrap_resamples=50,
    stages=False,
)


def point(**fields: Any) -> Point:  # noqa: ANN401 - the fields of Point
    """A point that runs in about a second."""
    tiny = Point(
        gpu=CPU,
        shape=TINY,
        recipe=MxFp8Recipe(),
        backend=Backend.emulated,
        tolerance=CalibratedTolerance(),
        benchmark=replace(FEW, enabled=False),
    )
    return replace(tiny, **fields)


def write_point_file(path: Path, content: Point, **submitted: Any) -> Path:  # noqa: ANN401 - JSON
    """Write a point as the planner does."""
    data = {"point_id": "p-test", "sweep_id": "s-test", "point": to_plain(content), **submitted}
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def point_file(folder: Path, content: Point, **submitted: Any) -> PointFile:  # noqa: ANN401 - JSON
    """Write a point, and read it back."""
    return read_point_file(write_point_file(folder / "point.json", content, **submitted))


def planting(
    fault: Callable[[dict[str, Tensor]], None], arm: str = "recipe"
) -> Callable[..., AttentionPath]:
    """Return a path builder with one arm whose step returns tensors with a fault.

    Args:
        fault: Changes the tensors of a step in place.
        arm: recipe or bf16.
    """

    def build(backend: str, recipe: Recipe, case: Case) -> AttentionPath:
        path = build_path(backend, recipe, case)
        if backend == "reference" or (recipe.name.name == "bf16") != (arm == "bf16"):
            return path
        honest_step = path.step

        def step() -> dict[str, Tensor]:
            tensors = {name: tensor.clone() for name, tensor in honest_step().items()}
            fault(tensors)
            return tensors

        path.step = step  # type: ignore[method-assign]  # a fault is planted
        return path

    return build


def raising(error: BaseException) -> Callable[..., AttentionPath]:
    """Return a path builder that fails."""

    def build(backend: str, recipe: Recipe, case: Case) -> AttentionPath:
        raise error

    return build


def zeroed(name: str) -> Callable[[dict[str, Tensor]], None]:
    """Return a fault that zeroes one tensor."""

    def fault(tensors: dict[str, Tensor]) -> None:
        tensors[name].zero_()

    return fault


def with_nan(name: str) -> Callable[[dict[str, Tensor]], None]:
    """Return a fault that puts one NaN into one tensor."""

    def fault(tensors: dict[str, Tensor]) -> None:
        tensors[name].view(-1)[tensors[name].numel() // 2] = torch.nan

    return fault
