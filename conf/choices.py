"""The choices of every configuration key that takes one of a few names.

Enums are used instead of `Literal`, which does not survive OmegaConf; a value is written in YAML
and on the command line by its name.
"""

from enum import Enum


class Job(Enum):
    """What a point does on its node."""

    attention = "attention"
    probe = "probe"


class Backend(Enum):
    """Which library computes the arms."""

    te = "te"
    emulated = "emulated"


class Projection(Enum):
    """How Q, K and V are projected: one Linear, or a LayerNormLinear for Q and one for KV."""

    fused = "fused"
    split = "split"


class AttnMask(Enum):
    """The attention mask."""

    causal = "causal"
    none = "none"


class RopeKernel(Enum):
    """Which RoPE runs; `auto` follows the device of the tensor."""

    auto = "auto"
    triton = "triton"
    eager = "eager"


class RopeTable(Enum):
    """Plain RoPE frequencies, or DeepSeek-V3's YaRN ones with their softmax scale."""

    plain = "plain"
    yarn = "yarn"


class QkvFormat(Enum):
    """Axis order of Q, K and V."""

    sbhd = "sbhd"
    bshd = "bshd"
    thd = "thd"


class RecipeName(Enum):
    """Transformer Engine's quantization recipes that are compared with BF16."""

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
    """Weights quantized anew in each step, or quantized once and reused (as a microbatch does)."""

    requantized = "requantized"
    cached = "cached"


class ToleranceName(Enum):
    """Which rule decides that an arm is right."""

    calibrated = "calibrated"
    seed = "seed"
    none = "none"


class Order(Enum):
    """Arms A-B-B-A interleaved, or all of the recipe's first and then all of BF16's."""

    interleaved = "interleaved"
    sequential = "sequential"


class Statistic(Enum):
    """The statistic that stands for an arm's samples."""

    median = "median"
    mean = "mean"


class Profiler(Enum):
    """The profiler of the untimed extra pass."""

    none = "none"
    nsys = "nsys"
    ncu = "ncu"


class Scheduler(Enum):
    """Who runs the jobs."""

    local = "local"
    slurm = "slurm"


class Share(Enum):
    """Who may read the ledger: its owner alone, or the owner's group too."""

    private = "private"
    group = "group"
