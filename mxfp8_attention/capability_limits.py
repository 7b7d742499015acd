"""What is known to be impossible before anything runs: one table, each row with its source.

Pure data and arithmetic, without torch: a login node reads it too, so that `plan` can tell a
point that no node will ever take. What depends on the libraries found on a node is asked there
(`mxfp8_attention.capability`); these limits then explain the library's answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from conf.choices import AttnMask, Backend, Job, QkvFormat, RecipeName, RopeKernel
from conf.schema import Point, Recipe, Shape

Version = tuple[int, int, int]


@dataclass(frozen=True)
class Limit:
    """One version limit of a library.

    Attributes:
        name: What it is a limit of.
        minimum: The first version that works.
        broken: Later versions that do not.
        source: Where it is written.
    """

    name: str
    minimum: Version
    broken: tuple[Version, ...]
    source: str

    def refuses(self, version: Version) -> str | None:
        """Why a version does not serve, None if it does.

        Args:
            version: (major, minor, patch).

        Returns:
            One sentence, or None.
        """
        shown = ".".join(map(str, version))
        if version < self.minimum:
            least = ".".join(map(str, self.minimum))
            return f"{self.name} must be {least} or later, got {shown}"
        if version in self.broken:
            bad = ", ".join(".".join(map(str, one)) for one in self.broken)
            return f"{self.name} must not be one of the broken releases {bad}, got {shown}"
        return None


_BACKENDS = "Transformer Engine 2.20.2, pytorch/attention/dot_product_attention/utils.py"

CUDNN_FOR_TRANSFORMER_ENGINE = Limit(
    "cuDNN for Transformer Engine",
    (9, 12, 0),
    (),
    "Transformer Engine 2.20.2, common/__init__.py: MIN_CUDNN_VERSION",
)
CUDNN_FOR_MXFP8_ATTENTION = Limit(
    "cuDNN for MXFP8 attention", (9, 21, 0), ((9, 23, 0), (9, 23, 1)), _BACKENDS
)
CUDNN_FOR_CURRENT_SCALING_ATTENTION = Limit(
    "cuDNN for FP8 attention with current scaling", (9, 14, 0), (), _BACKENDS
)


@dataclass(frozen=True)
class ComputeCapabilities:
    """Compute capabilities that can run one thing, with the words of the library's refusal.

    Attributes:
        minimum: The first that works.
        too_old: What the library says of an earlier one.
        end: The first that no longer works, None: all later ones do.
        too_new: What the library says of such a one.
        source: Where both are written.
    """

    minimum: tuple[int, int]
    too_old: str
    source: str
    end: tuple[int, int] | None = None
    too_new: str = ""

    def refuses(self, capability: tuple[int, int]) -> str | None:
        """Why a compute capability does not serve, None if it does.

        Args:
            capability: (major, minor).

        Returns:
            One sentence, or None.
        """
        if capability < self.minimum:
            return self.too_old
        if self.end is not None and capability >= self.end:
            return self.too_new
        return None


_QUANTIZATION = "Transformer Engine 2.20.2, pytorch/quantization.py"

_FP8 = ComputeCapabilities(
    (8, 9),
    "Device compute capability 8.9 or higher required for FP8 execution.",
    _QUANTIZATION,
)
COMPUTE_CAPABILITIES: dict[RecipeName, ComputeCapabilities] = {
    RecipeName.mxfp8: ComputeCapabilities(
        (10, 0),
        "Device compute capability 10.0 or higher required for MXFP8 execution.",
        _QUANTIZATION,
        (12, 0),
        "MXFP8 (for all gemm layouts) is not supported on 12.0+ architectures yet.",
    ),
    RecipeName.fp8_current: _FP8,
    RecipeName.fp8_delayed: _FP8,
    RecipeName.fp8_block: ComputeCapabilities(
        (9, 0),
        "FP8 block scaled GEMM requires compute capability 9.0 or higher and CUDA >= 12.9.",
        _QUANTIZATION,
    ),
}
CURRENT_SCALING_ATTENTION = ComputeCapabilities(
    (10, 0),
    "Disabling FusedAttention for FP8 current scaling on arch < sm100",
    _BACKENDS,
    (12, 0),
    "Disabling FusedAttention as FP8 is not supported for compute capability = sm120",
)

MXFP8_BLOCK = 32
MXFP8_ATTENTION_TOKENS = 128
FP8_MULTIPLE = 16
HOPPER_FP8_HEAD_DIM = 128


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
    return reason or _rope_refusal(point) or shape_refusal(point.shape, point.recipe)


def shape_refusal(shape: Shape, recipe: Recipe) -> str | None:
    """Says why a recipe cannot take a shape, whatever the library.

    Args:
        shape: The shape.
        recipe: The recipe.

    Returns:
        One sentence, or None.
    """
    attention = attention_is_quantized(recipe)
    if recipe.name is RecipeName.mxfp8:
        # Attention's rules first: where they hold, those of the blocks hold for the products.
        checks = []
        if attention:
            checks += [
                ("head_dim_nope + head_dim_rope", shape.head_dim_qk, MXFP8_BLOCK, "attention"),
                ("shape.head_dim_v", shape.head_dim_v, MXFP8_BLOCK, "MXFP8 attention"),
                ("shape.seq_len", shape.seq_len, MXFP8_ATTENTION_TOKENS, "MXFP8 attention"),
            ]
        checks += [
            ("shape.hidden", shape.hidden, MXFP8_BLOCK, "MXFP8 blocks"),
            ("shape.batch * shape.seq_len", shape.tokens, MXFP8_BLOCK, "MXFP8 blocks"),
            ("heads' total width of v", shape.num_heads * shape.head_dim_v, MXFP8_BLOCK, "blocks"),
            (
                "heads' total width of q",
                shape.num_heads * shape.head_dim_qk,
                MXFP8_BLOCK,
                "MXFP8 blocks",
            ),
        ]
    elif recipe.name is RecipeName.bf16:
        checks = []
    else:
        checks = [
            ("shape.hidden", shape.hidden, FP8_MULTIPLE, "FP8 matrix products"),
            ("shape.batch * shape.seq_len", shape.tokens, FP8_MULTIPLE, "FP8 matrix products"),
            (
                "heads' total width of v",
                shape.num_heads * shape.head_dim_v,
                FP8_MULTIPLE,
                "FP8 matrix products",
            ),
        ]
    for key, value, multiple, what in checks:
        if value % multiple:
            return f"{key} must be a multiple of {multiple} for {what}, got {value}"
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


def _rope_refusal(point: Point) -> str | None:
    if point.shape.rope_kernel is RopeKernel.triton and point.gpu.device == "cpu":
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
