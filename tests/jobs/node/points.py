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
GB300 = Gpu(name="gb300", matches=["GB300"], compute_capability="10.3", peak_bf16_tflops=2500.0)
FEW = Benchmark(
    name="few",
    warmup_min_iterations=1,
    warmup_max_iterations=1,
    blocks=2,
    iterations_per_block=1,
    bootstrap_resamples=50,
    stages=False,
)


def point(**changed: Any) -> Point:  # noqa: ANN401 - the fields of Point
    """A point that runs in about a second."""
    made = Point(
        gpu=CPU,
        shape=TINY,
        recipe=MxFp8Recipe(),
        backend=Backend.emulated,
        tolerance=CalibratedTolerance(),
        benchmark=replace(FEW, enabled=False),
    )
    return replace(made, **changed)


def write_point_file(path: Path, made: Point, **noted: Any) -> Path:  # noqa: ANN401 - JSON
    """Writes a point as the planner does."""
    content = {"point_id": "p-test", "sweep_id": "s-test", "point": to_plain(made), **noted}
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def point_file(folder: Path, made: Point, **noted: Any) -> PointFile:  # noqa: ANN401 - JSON
    """The same, read back."""
    return read_point_file(write_point_file(folder / "point.json", made, **noted))


def planting(fault: Callable[[dict[str, Tensor]], None]) -> Callable[..., AttentionPath]:
    """A path builder whose recipe arm returns tensors with a fault.

    Args:
        fault: Changes the tensors of a step in place.

    Returns:
        What `run_attempt` takes as `build`.
    """

    def build(backend: str, recipe: Recipe, case: Case) -> AttentionPath:
        path = build_path(backend, recipe, case)
        if backend == "reference" or recipe.name.name == "bf16":
            return path
        honest = path.step

        def step() -> dict[str, Tensor]:
            tensors = {name: tensor.clone() for name, tensor in honest().items()}
            fault(tensors)
            return tensors

        path.step = step  # type: ignore[method-assign]  # a fault is planted
        return path

    return build


def raising(error: BaseException) -> Callable[..., AttentionPath]:
    """A path builder that fails."""

    def build(backend: str, recipe: Recipe, case: Case) -> AttentionPath:
        raise error

    return build


def zeroed(name: str) -> Callable[[dict[str, Tensor]], None]:
    """Empties one tensor."""

    def fault(tensors: dict[str, Tensor]) -> None:
        tensors[name].zero_()

    return fault


def with_nan(name: str) -> Callable[[dict[str, Tensor]], None]:
    """Puts one NaN into one tensor."""

    def fault(tensors: dict[str, Tensor]) -> None:
        tensors[name].view(-1)[tensors[name].numel() // 2] = torch.nan

    return fault
