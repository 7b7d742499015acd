"""What versions, GPUs and sizes the libraries take: one table, each row with its source.

Pure data, without torch. `mxfp8_attention.capability.refusal` applies it to a point before
anything runs; what depends on the libraries found on a node is asked there
(`mxfp8_attention.capability.checks`), and these limits then explain the library's answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from conf.choices import RecipeName

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


@dataclass(frozen=True)
class Multiple:
    """What a size must be a multiple of.

    Attributes:
        of: The number.
        what: What asks for it.
        source: Where it is written.
    """

    of: int
    what: str
    source: str


MXFP8_BLOCKS = Multiple(
    32,
    "MXFP8 blocks",
    "OCP Microscaling Formats v1.0: block size; "
    "Transformer Engine 2.20.2, pytorch/tensor/mxfp8_tensor.py: both axes of every operand",
)
MXFP8_HEAD_DIMS = Multiple(32, "MXFP8 attention", _BACKENDS)
MXFP8_SEQ_LEN = Multiple(
    128, "MXFP8 attention", "Transformer Engine 2.20.2, asserted where attention runs"
)
FP8_PRODUCTS = Multiple(
    16,
    "FP8 matrix products",
    "Transformer Engine 2.20.2, pytorch/utils.py: assert_dim_for_fp8_exec; cuBLAS",
)
# The one width of Q and K, beside an equal one of V, that FP8 attention takes on Hopper.
HOPPER_FP8_HEAD_DIM = 128
