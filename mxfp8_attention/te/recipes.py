"""Recipes of this tool as Transformer Engine's recipe objects."""

from __future__ import annotations

from typing import Any

from conf.choices import Fp8Format
from conf.schema import Fp8BlockRecipe, Fp8CurrentRecipe, Fp8DelayedRecipe, MxFp8Recipe, Recipe


def transformer_engine_recipe(recipe: Recipe) -> Any:  # noqa: ANN401 - the library's own type
    """Return the recipe for `transformer_engine.pytorch.autocast`, None for BF16.

    A new object each time: the library modifies it under `NVTE_DPA_FP8_RECIPE=F16`.

    Raises:
        ValueError: The library does not support this combination of fields.
    """
    from transformer_engine.common import recipe as library

    formats = {Fp8Format.e4m3: library.Format.E4M3, Fp8Format.hybrid: library.Format.HYBRID}
    match recipe:
        case MxFp8Recipe():
            return library.MXFP8BlockScaling(
                fp8_format=formats[recipe.format], fp8_dpa=recipe.fp8_dpa
            )
        case Fp8CurrentRecipe():
            return library.Float8CurrentScaling(
                fp8_format=formats[recipe.format], fp8_dpa=recipe.fp8_dpa
            )
        case Fp8DelayedRecipe():
            return library.DelayedScaling(
                fp8_format=formats[recipe.format],
                fp8_dpa=recipe.fp8_dpa,
                margin=recipe.margin,
                amax_history_len=recipe.amax_history_len,
                amax_compute_algo="max",
            )
        case Fp8BlockRecipe():
            if recipe.format is not Fp8Format.e4m3:
                raise ValueError(
                    f"recipe.format must be e4m3 for fp8_block, got {recipe.format.name}"
                )
            return library.Float8BlockScaling(fp8_format=formats[recipe.format])
    return None
