"""The type of every key of a point: what decides a result.

Dataclasses of the standard library alone. Units are part of the names; `None` means "not given".
`conf.site` has the keys that say where and how points run.
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

MISSING: Any = "???"  # OmegaConf's own mark for a value that must be given


@dataclass
class Gpu:
    """One GPU model.

    Attributes:
        name: The group choice, and what tables print.
        device: `cpu` or `cuda`.
        matches: Whole words one of which the driver's name of the GPU must contain.
        compute_capability: "major.minor", None on a CPU.
        peak_bf16_tflops: Dense BF16 peak.
        peak_fp8_tflops: Dense FP8 peak, None where there is none.
        peak_mxfp8_tflops: Dense MXFP8 peak, None where there is none.
        bandwidth_tb_per_s: Memory bandwidth.
        memory_gib: Memory of one GPU.
        backend: The backend used when `backend` is not given.
        request: What to ask the scheduler for, as `--gres` takes it; a cluster may map it.
        any: Accept whatever GPU the job lands on.
    """

    name: str = MISSING
    device: str = "cuda"
    matches: list[str] = field(default_factory=list)
    compute_capability: str | None = None
    peak_bf16_tflops: float | None = None
    peak_fp8_tflops: float | None = None
    peak_mxfp8_tflops: float | None = None
    bandwidth_tb_per_s: float | None = None
    memory_gib: float | None = None
    backend: Backend = Backend.te
    request: str | None = None
    any: bool = False


@dataclass
class Shape:
    """One layer's shape, layout and initialisation.

    Attributes:
        name: The group choice, and what tables print.
        batch: Sequences in the batch.
        seq_len: Tokens of each sequence.
        hidden: Width of the layer's input and output.
        num_heads: Attention heads.
        head_dim_nope: Width of a head's query and key without position.
        head_dim_rope: Width of the rotary part, one key for all heads.
        head_dim_v: Width of a head's value.
        projection: Fused QKV, or split Q and KV.
        attn_mask: The mask.
        rope_kernel: Which RoPE implementation.
        rope_table: Which frequencies.
        rope_base: Base of the frequencies.
        yarn_factor: YaRN's context extension factor.
        yarn_original_seq_len: YaRN's original context, tokens.
        yarn_beta_fast: YaRN's upper rotation bound.
        yarn_beta_slow: YaRN's lower rotation bound.
        init_std: Standard deviation of every weight.
        bias: Whether the linear layers have a bias.
        qkv_format: Axis order of Q, K and V.
        seed: Seed of inputs, weights and the upstream gradient.
    """

    name: str = MISSING
    batch: int = 1
    seq_len: int = MISSING
    hidden: int = MISSING
    num_heads: int = MISSING
    head_dim_nope: int = 128
    head_dim_rope: int = 64
    head_dim_v: int = 128
    projection: Projection = Projection.fused
    attn_mask: AttnMask = AttnMask.causal
    rope_kernel: RopeKernel = RopeKernel.auto
    rope_table: RopeTable = RopeTable.plain
    rope_base: float = 10000.0
    yarn_factor: float = 40.0
    yarn_original_seq_len: int = 4096
    yarn_beta_fast: float = 32.0
    yarn_beta_slow: float = 1.0
    init_std: float = 0.023
    bias: bool = True
    qkv_format: QkvFormat = QkvFormat.sbhd
    seed: int = 42

    @property
    def head_dim_qk(self) -> int:
        """Width of a head's query and key, rotary part included."""
        return self.head_dim_nope + self.head_dim_rope

    @property
    def tokens(self) -> int:
        """Tokens of one step."""
        return self.batch * self.seq_len


@dataclass
class Recipe:
    """The quantization of the compared arm; each recipe adds its own fields."""

    name: RecipeName = MISSING


@dataclass
class Bf16Recipe(Recipe):
    """BF16 against itself: what the harness's own noise is."""

    name: RecipeName = RecipeName.bf16


@dataclass
class MxFp8Recipe(Recipe):
    """MXFP8 block scaling: one E8M0 scale for 32 values.

    Attributes:
        fp8_dpa: Whether attention runs in MXFP8 too.
        format: Element format.
        weights: Quantized anew each step, or cached.
    """

    name: RecipeName = RecipeName.mxfp8
    fp8_dpa: bool = True
    format: Fp8Format = Fp8Format.e4m3
    weights: Weights = Weights.requantized


@dataclass
class Fp8CurrentRecipe(Recipe):
    """FP8 with one scale a tensor, from the tensor itself."""

    name: RecipeName = RecipeName.fp8_current
    fp8_dpa: bool = False
    format: Fp8Format = Fp8Format.hybrid
    weights: Weights = Weights.requantized


@dataclass
class Fp8DelayedRecipe(Recipe):
    """FP8 with one scale a tensor, from the history of its largest values.

    Attributes:
        fp8_dpa: Whether attention runs in FP8 too.
        format: Element format.
        weights: Quantized anew each step, or cached.
        amax_history_len: Steps of history.
        margin: Powers of two left free above the largest value.
    """

    name: RecipeName = RecipeName.fp8_delayed
    fp8_dpa: bool = False
    format: Fp8Format = Fp8Format.hybrid
    weights: Weights = Weights.requantized
    amax_history_len: int = 16
    margin: int = 0


@dataclass
class Fp8BlockRecipe(Recipe):
    """FP8, one FP32 scale for 128 values (activations) or 128x128 (weights); BF16 attention."""

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
    """The rule that decides that an arm is right; each adds its own fields."""

    name: ToleranceName = MISSING


@dataclass
class CalibratedTolerance(Tolerance):
    """Two-sided relative L2 against FP32, from what the emulation predicts.

    Attributes:
        upper_factor: Largest allowed measured / predicted error over the whole path, per tensor.
        lower_factor: Smallest allowed one: below it, FP8 did not run.
        worst_head_upper_factor: Largest allowed one for the worst head.
        worst_head_lower_factor: Smallest allowed one for the worst head.
        stage_upper_factor: Largest allowed one for one stage on the arm's own inputs.
        stage_lower_factor: Smallest allowed one there.
        seed_deviations: Standard deviations over seeds that each bound is widened by.
        bf16_rel_l2: Error up to which a tensor counts as BF16's own rounding.
    """

    name: ToleranceName = ToleranceName.calibrated
    upper_factor: float = 1.25
    lower_factor: float = 0.8
    worst_head_upper_factor: float = 1.5
    worst_head_lower_factor: float = 0.6
    stage_upper_factor: float = 1.15
    stage_lower_factor: float = 0.85
    seed_deviations: float = 4.0
    bf16_rel_l2: float = 0.02


@dataclass
class SeedTolerance(Tolerance):
    """Elementwise atol and rtol against the BF16 arm.

    Attributes:
        atol: Absolute part.
        rtol: Part relative to the BF16 arm's element.
        max_outside_share: Share of a tensor's elements that may lie outside.
    """

    name: ToleranceName = ToleranceName.seed
    atol: float = 0.5
    rtol: float = 0.05
    max_outside_share: float = 0.0


@dataclass
class NoTolerance(Tolerance):
    """Errors are reported; only NaN and infinity fail."""

    name: ToleranceName = ToleranceName.none


TOLERANCES: dict[ToleranceName, type[Tolerance]] = {
    ToleranceName.calibrated: CalibratedTolerance,
    ToleranceName.seed: SeedTolerance,
    ToleranceName.none: NoTolerance,
}


@dataclass
class Benchmark:
    """How fprop and bprop are timed.

    Attributes:
        name: The group choice, and what tables print.
        enabled: Whether anything is timed.
        order: Interleaved arms, or one after the other.
        statistic: What stands for an arm's samples.
        warmup_min_iterations: Iterations before the first sample.
        warmup_max_iterations: Where warm-up gives up waiting for a stable median.
        blocks: Timed blocks of each arm.
        iterations_per_block: Timed iterations in a block.
        settle_iterations: Untimed iterations at the start of a block: the other arm's heat and
            clocks fade there.
        budget_s: Seconds after which warm-up gets no more than a quarter and no further block
            starts, once five ran; a note says so. A slow machine answers with fewer blocks.
        flush_l2: Overwrite the L2 cache before each iteration, outside the events.
        stages: Time QKV, RoPE, attention and out by themselves too.
        confidence: Coverage of the intervals.
        bootstrap_resamples: Resamples behind the intervals.
        min_fprop_speedup: A lower one is FAILED; None: no gate.
        min_bprop_speedup: A lower one is FAILED; None: no gate.
        cuda_graph: Replay a captured CUDA graph instead of launching kernels.
        profile: An untimed extra pass under this profiler.
    """

    name: str = MISSING
    enabled: bool = True
    order: Order = Order.interleaved
    statistic: Statistic = Statistic.median
    warmup_min_iterations: int = 10
    warmup_max_iterations: int = 100
    blocks: int = 20
    iterations_per_block: int = 5
    settle_iterations: int = 1
    budget_s: float = 60.0
    flush_l2: bool = True
    stages: bool = True
    confidence: float = 0.95
    bootstrap_resamples: int = 2000
    min_fprop_speedup: float | None = None
    min_bprop_speedup: float | None = None
    cuda_graph: bool = False
    profile: Profiler = Profiler.none


@dataclass
class Point:
    """What decides a result: everything the node must know of one point."""

    job: Job = Job.attention
    gpu: Gpu = field(default_factory=Gpu)
    shape: Shape = field(default_factory=Shape)
    recipe: Recipe = field(default_factory=Recipe)
    backend: Backend = Backend.te
    tolerance: Tolerance = field(default_factory=Tolerance)
    benchmark: Benchmark = field(default_factory=Benchmark)
