"""Computes and stores what errors to expect: `python -m tools.calibrate --all`.

Needs torch alone, so that it runs on any node. Every shape is computed with both initialisations
and with both projections; results are stored after each shape, so that an interrupted run keeps
what it has.
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
    """The shapes of conf/shape, by name."""
    return {path.stem: read_shape(path) for path in sorted(SHAPES.glob("*.yaml"))}


def read_shape(path: Path) -> Shape:
    """Read a shape's file, without a YAML library: these files are `key: value` lines.

    Args:
        path: The file.

    Returns:
        The shape.

    Raises:
        ValueError: A line is something else, or a value does not fit its key.
    """
    plain: dict[str, Any] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        text = line.partition("#")[0].strip()
        if not text:
            continue
        name, colon, value = text.partition(":")
        if not colon or not value.strip():
            raise ValueError(f"{path.name} must hold `key: value` lines, got {line!r}")
        plain[name] = scalar(value.strip())
    shape = from_plain(Shape, plain)
    assert isinstance(shape, Shape)
    return shape


def scalar(text: str) -> bool | int | float | str:
    """A YAML scalar's value."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def with_overrides(shape: Shape, overrides: Sequence[str]) -> Shape:
    """The shape with some keys replaced.

    Args:
        shape: The shape.
        overrides: `key=value` each, by the keys of `conf.schema.Shape`.

    Returns:
        A new shape.

    Raises:
        ValueError: No such key, or a value that does not fit it.
    """
    plain = to_plain(shape)
    for override in overrides:
        name, equals, value = override.removeprefix("shape.").partition("=")
        if not equals or name not in plain:
            raise ValueError(f"{override} must be key=value, with a key of {', '.join(plain)}")
        plain[name] = scalar(value)
    changed = from_plain(Shape, plain)
    assert isinstance(changed, Shape)
    return changed


def variants(shape: Shape, fixed: Set[str] = frozenset()) -> Iterator[Shape]:
    """The shape with both projections and both initialisations.

    Args:
        shape: The shape.
        fixed: Keys of it that stay as they are.

    Yields:
        One shape for each combination.
    """
    init_stds = dict.fromkeys((SEED_INIT_STD, 1 / math.sqrt(shape.hidden)))
    for projection in [shape.projection] if "projection" in fixed else Projection:
        for init_std in [shape.init_std] if "init_std" in fixed else init_stds:
            yield dataclasses.replace(shape, projection=projection, init_std=init_std)


def recipes_for(shape: Shape, names: Sequence[str] = ()) -> list[Recipe]:
    """The recipes that a shape is calibrated for.

    Args:
        shape: The layer; FP8 attention with one scale a tensor only where Hopper takes it.
        names: Which; all without any.

    Returns:
        Recipes with the fields that change their numbers.
    """
    found: list[Recipe] = [
        Bf16Recipe(),
        MxFp8Recipe(),
        MxFp8Recipe(fp8_dpa=False),
        Fp8CurrentRecipe(),  # and delayed scaling, whose numbers are the same
        Fp8BlockRecipe(),
    ]
    if shape.head_dim_qk == shape.head_dim_v == HOPPER_FP8_HEAD_DIM:
        found.append(Fp8DelayedRecipe(fp8_dpa=True))
    wanted = {"fp8_current" if name == "fp8_delayed" else name for name in names} | set(names)
    return [recipe for recipe in found if not names or recipe.name.name in wanted]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: The command line's words, by default this process's.

    Returns:
        0, or 2 for a wrong command.
    """
    try:
        options = _options(arguments)
        shapes = _chosen(options)
        for shape in shapes:
            _check(shape, recipes_for(shape, options.recipe), options.device)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"[{time.monotonic() - began:7.1f} s] {line}", flush=True)

    for shape in shapes:
        recipes = recipes_for(shape, options.recipe)
        if options.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        say(f"{shape.name} {shape.projection.name} init_std={shape.init_std:.4g}")
        predictions = predict_recipes(
            shape, recipes, options.device, other_seeds(shape.seed, options.seeds), say
        )
        rows = [(shape, r, p) for r, p in zip(recipes, predictions, strict=True)]
        save_predictions(rows, options.output)
        if options.device == "cuda":
            say(f"peak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")
    say(f"stored in {options.output}")
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
        help="changes of every shape; a projection or init_std set here is the only one computed",
    )
    parser.add_argument(
        "--recipe", nargs="+", default=[], choices=[r.name for r in RecipeName], help="which"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--seeds", type=int, default=DEFAULT_SEEDS, help="how many seeds")
    parser.add_argument("--output", type=Path, default=STORE, help="the file to add to")
    return parser.parse_args(arguments)


def _chosen(options: argparse.Namespace) -> list[Shape]:
    known = shipped_shapes()
    names = list(known) if options.all else options.shape
    if not names:
        raise ValueError(f"--shape must name one of {', '.join(known)}, or give --all")
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"--shape must be one of {', '.join(known)}, got {unknown[0]}")
    if options.seeds < 1:
        raise ValueError(f"--seeds must be at least 1, got {options.seeds}")
    if options.device == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device must be cpu where there is no CUDA GPU, got cuda")
    shapes = [with_overrides(known[name], options.set) for name in names]
    problems = [problem for shape in shapes for problem in shape_problems(shape)]
    if problems:
        raise ValueError(str(problems[0]))
    fixed = {override.removeprefix("shape.").partition("=")[0] for override in options.set}
    return [variant for shape in shapes for variant in variants(shape, fixed)]


def _check(shape: Shape, recipes: Sequence[Recipe], device: str) -> None:
    """Refuse what this device or a recipe cannot compute before anything is computed."""
    unsupported = rope_refusal(shape, device)
    if unsupported is not None:
        raise ValueError(str(unsupported))
    for recipe in recipes:
        unsupported = shape_refusal(shape, recipe)
        if unsupported is not None:
            raise ValueError(f"{unsupported}; --recipe selects the recipes to compute")


if __name__ == "__main__":
    sys.exit(main())
