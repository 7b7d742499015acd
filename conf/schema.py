"""The keys of a point: everything that decides a result.

Dataclasses of the standard library alone. Units are part of the names; None means "not given".
`conf.site` holds the keys that decide where and how points run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from conf.choices import (
    AttnMask,
    Backend,
    Fp8Format,
    Job,
    Order,
    Profiler,
    Projection,
    QkvFormat,
    RecipeName,
    RopeKernel,
    RopeTable,
    Statistic,
    ToleranceName,
    Weights,
)

MISSING: Any = "???"  # OmegaConf's mark for a value that must be given


@dataclass
class Gpu:
    """One GPU model."""

    name: str = MISSING  # choice of the group, shown in tables
    device: str = "cuda"  # cpu or cuda
    matches: list[str] = field(default_factory=list)  # words, one of which the driver's name has
    compute_capability: str | None = None  # "major.minor"; None on a CPU
    peak_bf16_tflops: float | None = None  # dense peaks; None if the GPU lacks the format
    peak_fp8_tflops: float | None = None
    peak_mxfp8_tflops: float | None = None
    bandwidth_tb_per_s: float | None = None
    memory_gib: float | None = None
    backend: Backend = Backend.te  # default of the key `backend` on this GPU
    request: str | None = None  # sbatch's --gres; cluster.requests may replace it
    any: bool = False  # accept whatever GPU the job gets


@dataclass
class Shape:
    """Shape, layout and initialization of one attention layer."""

    name: str = MISSING  # choice of the group, shown in tables
    batch: int = 1  # sequences
    seq_len: int = MISSING  # tokens in each sequence
    hidden: int = MISSING  # width of the layer's input and output
    num_heads: int = MISSING
    head_dim_nope: int = 128  # width of query and key in each head, without the rotary part
    head_dim_rope: int = 64  # width of the rotary part; all heads share one rotary key
    head_dim_v: int = 128
    projection: Projection = Projection.fused
    attn_mask: AttnMask = AttnMask.causal
    rope_kernel: RopeKernel = RopeKernel.auto
    rope_table: RopeTable = RopeTable.plain
    rope_base: float = 10000.0
    yarn_factor: float = 40.0  # context extension; this and the next three are DeepSeek-V3's
    yarn_original_seq_len: int = 4096  # tokens
    yarn_beta_fast: float = 32.0  # upper bound of rotations
    yarn_beta_slow: float = 1.0  # lower bound of rotations
    init_std: float = 0.023  # standard deviation of every weight
    bias: bool = True  # linear layers have a bias
    qkv_format: QkvFormat = QkvFormat.sbhd
    seed: int = 42  # of inputs, weights and the upstream gradient

    @property
    def head_dim_qk(self) -> int:
        """Width of query and key in each head, with the rotary part."""
        return self.head_dim_nope + self.head_dim_rope

    @property
    def tokens(self) -> int:
        """Tokens of one step."""
        return self.batch * self.seq_len


@dataclass
class Recipe:
    """Quantization of the recipe's arm; each recipe adds its own keys."""

    name: RecipeName = MISSING


@dataclass
class Bf16Recipe(Recipe):
    """BF16 compared with itself, which measures the noise of the harness."""

    name: RecipeName = RecipeName.bf16


@dataclass
class MxFp8Recipe(Recipe):
    """MXFP8 block scaling: one E8M0 scale for each 32 values."""

    name: RecipeName = RecipeName.mxfp8
    fp8_dpa: bool = True  # run attention in MXFP8 too
    format: Fp8Format = Fp8Format.e4m3
    weights: Weights = Weights.requantized


@dataclass
class Fp8CurrentRecipe(Recipe):
    """FP8 with one scale for each tensor, computed from the tensor itself."""

    name: RecipeName = RecipeName.fp8_current
    fp8_dpa: bool = False
    format: Fp8Format = Fp8Format.hybrid
    weights: Weights = Weights.requantized


@dataclass
class Fp8DelayedRecipe(Recipe):
    """FP8 with one scale for each tensor, computed from its largest values in earlier steps."""

    name: RecipeName = RecipeName.fp8_delayed
    fp8_dpa: bool = False
    format: Fp8Format = Fp8Format.hybrid
    weights: Weights = Weights.requantized
    amax_history_len: int = 16  # steps
    margin: int = 0  # powers of two kept free above the largest value


@dataclass
class Fp8BlockRecipe(Recipe):
    """FP8, one FP32 scale for each 128 activations or 128x128 weights; attention in BF16."""

    name: RecipeName = RecipeName.fp8_block
    format: Fp8Format = Fp8Format.e4m3
    weights: Weights = Weights.requantized


RECIPES: dict[RecipeName, type[Recipe]] = {
    RecipeName.bf16: Bf16Recipe,
    RecipeName.mxfp8: MxFp8Recipe,
    RecipeName.fp8_current: Fp8CurrentRecipe,
    RecipeName.fp8_delayed: Fp8DelayedRecipe,
    RecipeName.fp8_block: Fp8BlockRecipe,
}


@dataclass
class Tolerance:
    """The gates of a point's errors; each tolerance adds its own keys."""

    name: ToleranceName = MISSING


@dataclass
class CalibratedTolerance(Tolerance):
    """Two-sided gate on the relative L2 error against FP32.

    Each factor bounds measured / predicted error, where the prediction comes from the emulation.
    An error below the lower bound means that FP8 was not used.
    """

    name: ToleranceName = ToleranceName.calibrated
    upper_factor: float = 1.25  # each tensor over the whole path
    lower_factor: float = 0.8
    worst_head_upper_factor: float = 1.5  # the worst head of each tensor
    worst_head_lower_factor: float = 0.6
    stage_upper_factor: float = 1.15  # one stage on the arm's own inputs
    stage_lower_factor: float = 0.85
    seed_deviations: float = 4.0  # widening of each bound, in standard deviations over seeds
    bf16_rel_l2: float = 0.02  # errors up to this one are BF16's own rounding


@dataclass
class SeedTolerance(Tolerance):
    """Elementwise gate on the difference from the BF16 arm: atol + rtol * |bf16|."""

    name: ToleranceName = ToleranceName.seed
    atol: float = 0.5
    rtol: float = 0.05
    max_outside_share: float = 0.0  # share of a tensor's elements that may miss the gate


@dataclass
class NoTolerance(Tolerance):
    """No gate: errors are reported, and only NaN and infinity fail."""

    name: ToleranceName = ToleranceName.none


TOLERANCES: dict[ToleranceName, type[Tolerance]] = {
    ToleranceName.calibrated: CalibratedTolerance,
    ToleranceName.seed: SeedTolerance,
    ToleranceName.none: NoTolerance,
}


@dataclass
class Benchmark:
    """How fprop and bprop are timed."""

    name: str = MISSING  # choice of the group, shown in tables
    enabled: bool = True
    order: Order = Order.interleaved
    statistic: Statistic = Statistic.median
    warmup_min_iterations: int = 10
    warmup_max_iterations: int = 100  # limit of the wait for a stable median
    blocks: int = 20  # timed blocks of each arm
    iterations_per_block: int = 5
    settle_iterations: int = 1  # untimed at the start of a block: the other arm's heat fades
    # After this time no further block starts, once five have run, and the record has a note;
    # warm-up gets at most a quarter of it.
    budget_s: float = 60.0
    flush_l2: bool = True  # overwrite the L2 cache before each iteration, outside the events
    stages: bool = True  # time QKV, RoPE, attention and out separately, too
    confidence: float = 0.95  # coverage of the intervals
    bootstrap_resamples: int = 2000
    min_fprop_speedup: float | None = None  # gate: a lower speedup is FAILED
    min_bprop_speedup: float | None = None
    cuda_graph: bool = False  # replay a captured CUDA graph instead of launching kernels
    profile: Profiler = Profiler.none  # profiler of an extra, untimed pass


@dataclass
class Point:
    """Everything that decides a result."""

    job: Job = Job.attention
    gpu: Gpu = field(default_factory=Gpu)
    shape: Shape = field(default_factory=Shape)
    recipe: Recipe = field(default_factory=Recipe)
    backend: Backend = Backend.te
    tolerance: Tolerance = field(default_factory=Tolerance)
    benchmark: Benchmark = field(default_factory=Benchmark)
