"""Versions, GPUs and sizes that the libraries accept: one table, each row with its source.

Plain data without torch. `capability.refusal` applies it to a point before anything runs,
`capability.checks` to the libraries of a node.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from conf.choices import RecipeName

Version = tuple[int, int, int]


@dataclass(frozen=True)
class Unsupported:
    """A limit that a point or a machine exceeds; `str` gives the sentence.

    Attributes:
        limit: What is limited: a key, a size, a library, the GPU.
        required: The constraint, as it reads after "must be".
        actual: The value that breaks it.
        remedy: What to set instead.
        quote: The library's own sentence; it replaces ours.
    """

    limit: str
    required: str
    actual: str
    remedy: str = ""
    quote: str = ""

    def __str__(self) -> str:
        sentence = f"{self.limit} must be {self.required}, got {self.actual}"
        return self.quote or (f"{sentence}; {self.remedy}" if self.remedy else sentence)


@dataclass(frozen=True)
class VersionLimit:
    """The versions of a library that work.

    Attributes:
        name: The library, and what it is needed for.
        minimum: First version that works.
        broken: Later versions that do not.
        source: Where this is documented.
    """

    name: str
    minimum: Version
    broken: tuple[Version, ...]
    source: str

    def refuses(self, version: Version) -> Unsupported | None:
        """Return the limit that a version exceeds, None if the version works."""
        if version < self.minimum:
            return Unsupported(self.name, f"{dotted(self.minimum)} or later", dotted(version))
        if version in self.broken:
            releases = ", ".join(map(dotted, self.broken))
            required = f"another release than {releases}, which are broken"
            return Unsupported(self.name, required, dotted(version))
        return None


@dataclass(frozen=True)
class ComputeCapabilities:
    """The compute capabilities that work, with the library's sentence for the others.

    Attributes:
        minimum: First one that works.
        too_old: The library's sentence for an earlier one.
        source: Where both sentences are.
        end: First one that no longer works; None if all later ones do.
        too_new: The library's sentence for such a one.
    """

    minimum: tuple[int, int]
    too_old: str
    source: str
    end: tuple[int, int] | None = None
    too_new: str = ""

    def refuses(self, capability: tuple[int, int]) -> Unsupported | None:
        """Return the limit that a compute capability exceeds, None if it works."""
        name, actual = "compute capability", dotted(capability)
        if capability < self.minimum:
            required = f"{dotted(self.minimum)} or later"
            return Unsupported(name, required, actual, quote=self.too_old)
        if self.end is not None and capability >= self.end:
            return Unsupported(name, f"below {dotted(self.end)}", actual, quote=self.too_new)
        return None


@dataclass(frozen=True)
class Multiple:
    """A number that a size must be a multiple of.

    Attributes:
        of: The number.
        purpose: What needs it.
        source: Where this is documented.
    """

    of: int
    purpose: str
    source: str

    def refuses(self, name: str, size: int) -> Unsupported | None:
        """Return the limit that a size exceeds, None if the size works."""
        if size % self.of == 0:
            return None
        return Unsupported(name, f"a multiple of {self.of} for {self.purpose}", str(size))


def dotted(version: Iterable[int]) -> str:
    """Return a version or a compute capability in its usual form: 9.21.0, 10.0."""
    return ".".join(map(str, version))


_BACKENDS = "Transformer Engine 2.20.2, pytorch/attention/dot_product_attention/utils.py"
_QUANTIZATION = "Transformer Engine 2.20.2, pytorch/quantization.py"

CUDNN_FOR_TRANSFORMER_ENGINE = VersionLimit(
    "cuDNN for Transformer Engine",
    (9, 12, 0),
    (),
    "Transformer Engine 2.20.2, common/__init__.py: MIN_CUDNN_VERSION",
)
CUDNN_FOR_MXFP8_ATTENTION = VersionLimit(
    "cuDNN for MXFP8 attention", (9, 21, 0), ((9, 23, 0), (9, 23, 1)), _BACKENDS
)
CUDNN_FOR_CURRENT_SCALING_ATTENTION = VersionLimit(
    "cuDNN for FP8 attention with current scaling", (9, 14, 0), (), _BACKENDS
)

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
# The only head_dim_qk = head_dim_v that FP8 attention accepts on Hopper.
HOPPER_FP8_HEAD_DIM = 128
