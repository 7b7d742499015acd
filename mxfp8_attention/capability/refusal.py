"""What is known to be impossible before anything runs, by the table of `capability_limits`.

Pure arithmetic, without torch: a login node reads it too, so that `plan` can tell a point that no
node will ever take.
"""

from __future__ import annotations

from conf.choices import AttnMask, Backend, Job, QkvFormat, RecipeName, RopeKernel
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
)
from mxfp8_attention.flops import projection_widths


def refusal_by_config(point: Point) -> str | None:
    """Says why the GPU that a point names cannot take it, from its configuration alone.

    Args:
        point: A valid point.

    Returns:
        One sentence, in the library's own words where it has some; None if nothing speaks
        against the point.
    """
    return refusal_anywhere(point) or _gpu_refusal(point)


def refusal_anywhere(point: Point) -> str | None:
    """Says why no machine whatsoever can take a point.

    Args:
        point: A valid point.

    Returns:
        One sentence that names the key, the rule and the value, or None.
    """
    if point.job is Job.probe:
        return None
    if point.shape.qkv_format is not QkvFormat.sbhd:
        return f"shape.qkv_format must be sbhd, got {point.shape.qkv_format.name}"
    if point.backend is Backend.emulated:
        reason = _emulation_refusal(point)
    elif point.gpu.device == "cpu":
        reason = (
            "backend=te needs a CUDA GPU, got gpu=cpu; "
            "name the GPU (gpu=gb300) or use backend=emulated"
        )
    else:
        reason = None
    return (
        reason
        or rope_refusal(point.shape, point.gpu.device)
        or shape_refusal(point.shape, point.recipe)
    )


def shape_refusal(shape: Shape, recipe: Recipe) -> str | None:
    """Says why a recipe cannot take a shape, whatever the library.

    Args:
        shape: The shape.
        recipe: The recipe.

    Returns:
        One sentence, or None.
    """
    if recipe.name is RecipeName.bf16:
        return None
    sizes: list[tuple[str, int, Multiple]] = []
    products = MXFP8_BLOCKS if recipe.name is RecipeName.mxfp8 else FP8_PRODUCTS
    if recipe.name is RecipeName.mxfp8 and attention_is_quantized(recipe):
        # Attention's rules first: their keys say more than a projection's width.
        sizes += [
            ("head_dim_nope + head_dim_rope", shape.head_dim_qk, MXFP8_HEAD_DIMS),
            ("shape.head_dim_v", shape.head_dim_v, MXFP8_HEAD_DIMS),
            ("shape.seq_len", shape.seq_len, MXFP8_SEQ_LEN),
        ]
    # Each is summed over in one of a linear layer's three products.
    sizes += [
        ("shape.hidden", shape.hidden, products),
        ("shape.batch * shape.seq_len", shape.tokens, products),
        ("heads' total width of v", shape.num_heads * shape.head_dim_v, products),
    ]
    sizes += [
        (f"the width of the {name} projection", width, products)
        for name, width in projection_widths(shape).items()
    ]
    for key, value, rule in sizes:
        if value % rule.of:
            return f"{key} must be a multiple of {rule.of} for {rule.what}, got {value}"
    return None


def attention_is_quantized(recipe: Recipe) -> bool:
    """Whether the recipe asks for attention in FP8 too."""
    return bool(getattr(recipe, "fp8_dpa", False))


def mask_name(mask: AttnMask) -> str:
    """The mask as Transformer Engine names it."""
    return "causal" if mask is AttnMask.causal else "no_mask"


def _emulation_refusal(point: Point) -> str | None:
    name = point.recipe.name
    if name not in (RecipeName.bf16, RecipeName.mxfp8):
        return f"backend=emulated runs recipe=bf16 and recipe=mxfp8, got {name.name}"
    gates = point.benchmark
    if name is not RecipeName.bf16 and gates.enabled:
        for key in ("min_fprop_speedup", "min_bprop_speedup"):
            if getattr(gates, key) is not None:
                return (
                    f"benchmark.{key} must be null with backend=emulated: the time of an "
                    f"emulated arm says nothing about hardware, got {getattr(gates, key)}"
                )
    return None


def rope_refusal(shape: Shape, device: str) -> str | None:
    """Says why a device cannot run the RoPE that a shape asks for, None if it can."""
    if shape.rope_kernel is RopeKernel.triton and device == "cpu":
        return (
            "shape.rope_kernel=triton needs a CUDA GPU, got gpu=cpu; "
            "name the GPU or use shape.rope_kernel=eager"
        )
    return None


def _gpu_refusal(point: Point) -> str | None:
    if point.job is Job.probe or point.backend is not Backend.te:
        return None
    if point.gpu.any or point.gpu.compute_capability is None:
        return None
    major, minor = map(int, point.gpu.compute_capability.split("."))
    needed = COMPUTE_CAPABILITIES.get(point.recipe.name)
    reason = needed.refuses((major, minor)) if needed else None
    if reason is None and attention_is_quantized(point.recipe):
        reason = _quantized_attention_refusal(point, (major, minor))
    return reason


def _quantized_attention_refusal(point: Point, capability: tuple[int, int]) -> str | None:
    shape, name = point.shape, point.recipe.name
    if name is RecipeName.fp8_current:
        return CURRENT_SCALING_ATTENTION.refuses(capability)
    delayed_on_hopper = name is RecipeName.fp8_delayed and capability < (10, 0)
    if delayed_on_hopper and (shape.head_dim_qk, shape.head_dim_v) != (HOPPER_FP8_HEAD_DIM,) * 2:
        return (
            f"FP8 attention with delayed scaling on compute capability {capability[0]}."
            f"{capability[1]} needs head dims {HOPPER_FP8_HEAD_DIM}/{HOPPER_FP8_HEAD_DIM}, "
            f"got {shape.head_dim_qk}/{shape.head_dim_v}"
        )
    return None
