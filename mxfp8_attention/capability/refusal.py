"""The limit that makes a point impossible, known from its configuration alone.

Arithmetic without torch: the login node uses it too, so `plan` can mark points that no node can
run.
"""

from __future__ import annotations

from conf.choices import AttnMask, Backend, Job, RecipeName, RopeKernel
from conf.schema import Point, Recipe, Shape
from mxfp8_attention.capability.limits import (
    COMPUTE_CAPABILITIES,
    CURRENT_SCALING_ATTENTION,
    FP8_PRODUCTS,
    HOPPER_FP8_HEAD_DIM,
    MXFP8_BLOCKS,
    MXFP8_HEAD_DIMS,
    MXFP8_SEQ_LEN,
    Multiple,
    Unsupported,
    dotted,
)
from mxfp8_attention.flops import projection_widths

_EMULATED_RECIPES = (RecipeName.bf16, RecipeName.mxfp8)


def refusal_by_config(point: Point) -> Unsupported | None:
    """Return the reason why the GPU that a point names cannot run it, None if it can."""
    return refusal_anywhere(point) or _gpu_refusal(point)


def refusal_anywhere(point: Point) -> Unsupported | None:
    """Return the reason why no machine can run a point, None if one can."""
    if point.job is Job.probe:
        return None
    return (
        _backend_refusal(point)
        or rope_refusal(point.shape, point.gpu.device)
        or shape_refusal(point.shape, point.recipe)
    )


def _backend_refusal(point: Point) -> Unsupported | None:
    name = point.recipe.name
    if point.backend is Backend.emulated and name not in _EMULATED_RECIPES:
        return Unsupported("recipe", "bf16 or mxfp8 with backend=emulated", name.name)
    if point.backend is Backend.te and point.gpu.device == "cpu":
        remedy = "set gpu=gb300, for example, or backend=emulated"
        return Unsupported("gpu", "a CUDA GPU with backend=te", "cpu", remedy)
    return None


def rope_refusal(shape: Shape, device: str) -> Unsupported | None:
    """Return the reason why a device cannot run the shape's RoPE kernel, None if it can."""
    if shape.rope_kernel is RopeKernel.triton and device == "cpu":
        return Unsupported("shape.rope_kernel", "auto or eager without a CUDA GPU", "triton")
    return None


def shape_refusal(shape: Shape, recipe: Recipe) -> Unsupported | None:
    """Return the reason why a recipe cannot take a shape with any library, None if it can."""
    if recipe.name is RecipeName.bf16:
        return None
    sizes: list[tuple[str, int, Multiple]] = []
    products = MXFP8_BLOCKS if recipe.name is RecipeName.mxfp8 else FP8_PRODUCTS
    if recipe.name is RecipeName.mxfp8 and attention_is_quantized(recipe):
        # Attention's rules first: their keys are more specific than the width of a projection.
        sizes += [
            ("head_dim_nope + head_dim_rope", shape.head_dim_qk, MXFP8_HEAD_DIMS),
            ("shape.head_dim_v", shape.head_dim_v, MXFP8_HEAD_DIMS),
            ("shape.seq_len", shape.seq_len, MXFP8_SEQ_LEN),
        ]
    # One of a linear layer's three products sums over each of these.
    sizes += [
        ("shape.hidden", shape.hidden, products),
        ("shape.batch * shape.seq_len", shape.tokens, products),
        ("shape.num_heads * shape.head_dim_v", shape.num_heads * shape.head_dim_v, products),
    ]
    sizes += [
        (f"the width of the {name} projection", width, products)
        for name, width in projection_widths(shape).items()
    ]
    refusals = (rule.refuses(name, size) for name, size, rule in sizes)
    return next((refusal for refusal in refusals if refusal is not None), None)


def attention_is_quantized(recipe: Recipe) -> bool:
    """Return True if the recipe runs attention in FP8 too."""
    return bool(getattr(recipe, "fp8_dpa", False))


def mask_name(mask: AttnMask) -> str:
    """Return Transformer Engine's name of the mask."""
    return "causal" if mask is AttnMask.causal else "no_mask"


def _gpu_refusal(point: Point) -> Unsupported | None:
    if point.job is Job.probe or point.backend is not Backend.te:
        return None
    if point.gpu.any or point.gpu.compute_capability is None:
        return None
    major, minor = map(int, point.gpu.compute_capability.split("."))
    rule = COMPUTE_CAPABILITIES.get(point.recipe.name)
    refusal = rule.refuses((major, minor)) if rule else None
    if refusal is None and attention_is_quantized(point.recipe):
        refusal = _quantized_attention_refusal(point, (major, minor))
    return refusal


def _quantized_attention_refusal(point: Point, capability: tuple[int, int]) -> Unsupported | None:
    shape, name = point.shape, point.recipe.name
    if name is RecipeName.fp8_current:
        return CURRENT_SCALING_ATTENTION.refuses(capability)
    delayed_on_hopper = name is RecipeName.fp8_delayed and capability < (10, 0)
    if delayed_on_hopper and (shape.head_dim_qk, shape.head_dim_v) != (HOPPER_FP8_HEAD_DIM,) * 2:
        return Unsupported(
            "head_dim_qk/head_dim_v",
            f"{HOPPER_FP8_HEAD_DIM}/{HOPPER_FP8_HEAD_DIM} for FP8 attention with delayed scaling "
            f"on compute capability {dotted(capability)}",
            f"{shape.head_dim_qk}/{shape.head_dim_v}",
        )
    return None
