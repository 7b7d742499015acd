"""The implementations of the layer, by name."""

from __future__ import annotations

from conf.choices import RecipeName
from conf.schema import Recipe
from mxfp8_attention.case import Case
from mxfp8_attention.emulation.layer import EmulatedPath
from mxfp8_attention.layer import AttentionPath
from mxfp8_attention.reference import ReferencePath
from mxfp8_attention.te.layer import TransformerEnginePath

BACKENDS = ("reference", "emulated", "te")


def build_path(backend: str, recipe: Recipe, case: Case) -> AttentionPath:
    """Build one implementation of the layer.

    Args:
        backend: reference (FP32 with every recipe), emulated or te.
        recipe: The quantization.
        case: Inputs and weights; the path's parameters are copies of them.

    Returns:
        The path.

    Raises:
        ValueError: The backend is unknown or does not run this recipe.
    """
    if backend == "reference":
        return ReferencePath(case)
    if backend == "emulated":
        if recipe.name not in (RecipeName.mxfp8, RecipeName.bf16):
            raise ValueError(
                f"recipe must be mxfp8 or bf16 with backend=emulated, got {recipe.name.name}; "
                "set backend=te"
            )
        return EmulatedPath(recipe, case)
    if backend == "te":
        return TransformerEnginePath(recipe, case)
    raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, got {backend}")
