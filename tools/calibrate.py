"""Compute and store predicted errors: `python -m tools.calibrate --all`.

Needs only torch, so it runs on any node. Every shape is computed with both initialisations and
both projections. Results are stored after each shape, so an interrupted run loses only one.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
import time
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import Any

import torch

from conf.choices import Projection, RecipeName
from conf.plain import from_plain, to_plain
from conf.rules import shape_problems
from conf.schema import (
    Bf16Recipe,
    Fp8BlockRecipe,
    Fp8CurrentRecipe,
    Fp8DelayedRecipe,
    MxFp8Recipe,
    Recipe,
    Shape,
)
from mxfp8_attention.accuracy.prediction import DEFAULT_SEEDS, other_seeds, predict_recipes
from mxfp8_attention.accuracy.store import STORE, save_predictions
from mxfp8_attention.capability.limits import HOPPER_FP8_HEAD_DIM
from mxfp8_attention.capability.refusal import rope_refusal, shape_refusal

SHAPES = Path(__file__).parents[1] / "conf" / "shape"
SEED_INIT_STD = 0.023


def shipped_shapes() -> dict[str, Shape]:
    """Return the shapes of conf/shape by name."""
    return {path.stem: read_shape(path) for path in sorted(SHAPES.glob("*.yaml"))}


def read_shape(path: Path) -> Shape:
    """Read a shape's file without a YAML library: these files hold `key: value` lines.

    Raises:
        ValueError: A line has another form, or a value does not fit its key.
    """
    plain: dict[str, Any] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        text = line.partition("#")[0].strip()
        if not text:
            continue
        name, colon, value = text.partition(":")
        if not colon or not value.strip():
            raise ValueError(f"{path.name}: not a `key: value` line: {line!r}")
        plain[name] = scalar(value.strip())
    shape = from_plain(Shape, plain)
    assert isinstance(shape, Shape)
    return shape


def scalar(text: str) -> bool | int | float | str:
    """Return a YAML scalar's value."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def with_overrides(shape: Shape, overrides: Sequence[str]) -> Shape:
    """Return the shape with some keys replaced by `key=value` overrides.

    Raises:
        ValueError: A key does not exist, or a value does not fit it.
    """
    plain = to_plain(shape)
    for override in overrides:
        name, equals, value = override.removeprefix("shape.").partition("=")
        if not equals or name not in plain:
            raise ValueError(
                f"--set {override}: not key=value with one of the keys {', '.join(plain)}"
            )
        plain[name] = scalar(value)
    changed = from_plain(Shape, plain)
    assert isinstance(changed, Shape)
    return changed


def variants(shape: Shape, fixed: Set[str] = frozenset()) -> Iterator[Shape]:
    """Yield the shape with both projections and both initialisations; `fixed` keys do not vary."""
    init_stds = dict.fromkeys((SEED_INIT_STD, 1 / math.sqrt(shape.hidden)))
    for projection in [shape.projection] if "projection" in fixed else Projection:
        for init_std in [shape.init_std] if "init_std" in fixed else init_stds:
            yield dataclasses.replace(shape, projection=projection, init_std=init_std)


def recipes_for(shape: Shape, names: Sequence[str] = ()) -> list[Recipe]:
    """Return the recipes that a shape is calibrated for, or those of them that are named.

    FP8 attention with one scale per tensor is calibrated only for the head dim that Hopper runs.
    """
    recipes: list[Recipe] = [
        Bf16Recipe(),
        MxFp8Recipe(),
        MxFp8Recipe(fp8_dpa=False),
        Fp8CurrentRecipe(),  # and delayed scaling, whose numbers are the same
        Fp8BlockRecipe(),
    ]
    if shape.head_dim_qk == shape.head_dim_v == HOPPER_FP8_HEAD_DIM:
        recipes.append(Fp8DelayedRecipe(fp8_dpa=True))
    selected = {"fp8_current" if name == "fp8_delayed" else name for name in names} | set(names)
    return [recipe for recipe in recipes if not names or recipe.name.name in selected]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0, or 2 for a wrong command."""
    try:
        options = _options(arguments)
        shapes = _chosen(options)
        for shape in shapes:
            _check(shape, recipes_for(shape, options.recipe), options.device)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    start = time.monotonic()

    def log(line: str) -> None:
        print(f"[{time.monotonic() - start:7.1f} s] {line}", flush=True)

    for shape in shapes:
        recipes = recipes_for(shape, options.recipe)
        if options.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        log(f"{shape.name} {shape.projection.name} init_std={shape.init_std:.4g}")
        predictions = predict_recipes(
            shape, recipes, options.device, other_seeds(shape.seed, options.seeds), log
        )
        rows = [(shape, r, p) for r, p in zip(recipes, predictions, strict=True)]
        save_predictions(rows, options.output)
        if options.device == "cuda":
            log(f"peak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")
    log(f"stored in {options.output}")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.calibrate", description=__doc__, exit_on_error=True
    )
    parser.add_argument("--shape", nargs="+", default=[], metavar="NAME", help="conf/shape names")
    parser.add_argument("--all", action="store_true", help="every shape of conf/shape")
    parser.add_argument(
        "--set",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="override keys of every shape; a projection or init_std set here does not vary",
    )
    parser.add_argument(
        "--recipe",
        nargs="+",
        default=[],
        choices=[r.name for r in RecipeName],
        help="compute only these",
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--seeds", type=int, default=DEFAULT_SEEDS, help="number of seeds")
    parser.add_argument(
        "--output", type=Path, default=STORE, help="file to add the predictions to"
    )
    return parser.parse_args(arguments)


def _chosen(options: argparse.Namespace) -> list[Shape]:
    known = shipped_shapes()
    names = list(known) if options.all else options.shape
    if not names:
        raise ValueError(f"pass --all, or --shape with one of {', '.join(known)}")
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"unknown shape {unknown[0]}; shapes: {', '.join(known)}")
    if options.seeds < 1:
        raise ValueError(f"--seeds must be at least 1, got {options.seeds}")
    if options.device == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device cuda: no CUDA GPU here; use --device cpu")
    shapes = [with_overrides(known[name], options.set) for name in names]
    problems = [problem for shape in shapes for problem in shape_problems(shape)]
    if problems:
        raise ValueError(str(problems[0]))
    fixed = {override.removeprefix("shape.").partition("=")[0] for override in options.set}
    return [variant for shape in shapes for variant in variants(shape, fixed)]


def _check(shape: Shape, recipes: Sequence[Recipe], device: str) -> None:
    """Refuse what this device or a recipe cannot compute, before computing anything."""
    unsupported = rope_refusal(shape, device)
    if unsupported is not None:
        raise ValueError(str(unsupported))
    for recipe in recipes:
        unsupported = shape_refusal(shape, recipe)
        if unsupported is not None:
            raise ValueError(f"{unsupported}; --recipe selects the recipes to compute")


if __name__ == "__main__":
    sys.exit(main())
