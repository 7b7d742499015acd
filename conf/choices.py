"""The choices of every key that takes one of a few names.

Enums are used instead of `Literal`, which OmegaConf does not support; YAML and the command line
use the names.
"""

from enum import Enum


class Job(Enum):
    """What a point does: the whole attention path, or only a probe of the node."""

    attention = "attention"
    probe = "probe"


class Backend(Enum):
    """Implementation of the arms: Transformer Engine, or its emulation in PyTorch."""

    te = "te"
    emulated = "emulated"


class Projection(Enum):
    """Projection to Q, K and V: one Linear, or one LayerNormLinear for Q and one for KV."""

    fused = "fused"
    split = "split"


class AttnMask(Enum):
    """Attention mask."""

    causal = "causal"
    none = "none"


class RopeKernel(Enum):
    """RoPE implementation; `auto` chooses by the tensor's device."""

    auto = "auto"
    triton = "triton"
    eager = "eager"


class RopeTable(Enum):
    """RoPE frequencies: plain, or DeepSeek-V3's YaRN with its softmax scale."""

    plain = "plain"
    yarn = "yarn"


class QkvFormat(Enum):
    """Axis order of Q, K and V."""

    sbhd = "sbhd"
    bshd = "bshd"
    thd = "thd"


class RecipeName(Enum):
    """Quantization recipes of Transformer Engine that are compared with BF16."""

    mxfp8 = "mxfp8"
    bf16 = "bf16"
    fp8_current = "fp8_current"
    fp8_delayed = "fp8_delayed"
    fp8_block = "fp8_block"


class Fp8Format(Enum):
    """E4M3 everywhere, or hybrid: E4M3 forward and E5M2 for gradients."""

    e4m3 = "e4m3"
    hybrid = "hybrid"


class Weights(Enum):
    """Weights quantized in each step, or once and reused, as in a step of microbatches."""

    requantized = "requantized"
    cached = "cached"


class ToleranceName(Enum):
    """Tolerances, each with gates of its own kind."""

    calibrated = "calibrated"
    seed = "seed"
    none = "none"


class Order(Enum):
    """Arms interleaved A-B-B-A, or the recipe's arm first and then BF16's."""

    interleaved = "interleaved"
    sequential = "sequential"


class Statistic(Enum):
    """Statistic of an arm's samples."""

    median = "median"
    mean = "mean"


class Profiler(Enum):
    """Profiler of the untimed extra pass."""

    none = "none"
    nsys = "nsys"
    ncu = "ncu"


class Scheduler(Enum):
    """Scheduler of the jobs: this machine alone, or SLURM."""

    local = "local"
    slurm = "slurm"


class Share(Enum):
    """Who can read the ledger: the owner alone, or also the owner's group."""

    private = "private"
    group = "group"
