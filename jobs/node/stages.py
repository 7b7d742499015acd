"""Times each stage of an arm by itself: QKV, RoPE, attention, out, forward and backward.

A stage gets the same tensors as in a whole step, detached from the graph before it, and a random
gradient. Comparing the sum of the stages with the whole step shows the cost or gain of running
them together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from conf.choices import Statistic
from conf.schema import Benchmark, Point
from jobs.node.arm import Arm
from jobs.node.benchmark import Samples, take_samples
from jobs.node.clock import Clock
from jobs.node.figures import estimate, stage_timing
from jobs.node.output import print_progress
from jobs.record import DIRECTIONS, StageTiming
from mxfp8_attention.flops import STAGES
from mxfp8_attention.layer import AttentionPath

_WARMUP = 3
_BLOCKS = 5


@dataclass
class Stage:
    """One stage of one arm, ready to be timed.

    Attributes:
        name: qkv, rope, attention or out.
        path: The arm's path.
        run: Computes the stage from its inputs.
        inputs: Leaves that require a gradient.
        gradients: One per output.
    """

    name: str
    path: AttentionPath
    run: Callable[..., tuple[Tensor, ...]]
    inputs: tuple[Tensor, ...]
    gradients: tuple[Tensor, ...]

    def zero_grad(self) -> None:
        """Clear the gradients of the inputs and of every weight."""
        self.path.zero_grad()
        for leaf in self.inputs:
            leaf.grad = None

    def fprop(self) -> tuple[Tensor, ...]:
        """Run the stage forward, in the arm's own context."""
        with self.path.context():
            return self.run(*self.inputs)

    def bprop(self, outputs: tuple[Tensor, ...]) -> None:
        """Run the stage backward."""
        torch.autograd.backward(outputs, self.gradients)


def stages_of(path: AttentionPath) -> dict[str, Stage]:
    """Cut an arm into its stages, by name in the order in which they run."""
    runs: dict[str, Callable[..., tuple[Tensor, ...]]] = {
        "qkv": path.project,
        "rope": path.rope,
        "attention": lambda *qkv: (path.attend(*qkv),),
        "out": lambda attention: (path.output(attention),),
    }
    generator = torch.Generator(path.x_SBC.device).manual_seed(0)
    stages: dict[str, Stage] = {}
    inputs: tuple[Tensor, ...] = (path.x_SBC.detach(),)
    for name in STAGES:
        leaves = tuple(tensor.detach().requires_grad_() for tensor in inputs)
        with path.context():
            outputs = runs[name](*leaves)
        gradients = tuple(
            torch.randn(out.shape, generator=generator, device=out.device, dtype=out.dtype)
            for out in outputs
        )
        stages[name] = Stage(name, path, runs[name], leaves, gradients)
        inputs = tuple(out.detach() for out in outputs)
        del outputs
    return stages


def time_stages(arms: Mapping[str, Arm], point: Point, clock: Clock) -> list[StageTiming]:
    """Time the four stages of both arms in both directions, the arms interleaved."""
    method = Benchmark(
        name="stages",
        warmup_min_iterations=_WARMUP,
        warmup_max_iterations=_WARMUP,
        blocks=_BLOCKS,
        iterations_per_block=max(1, min(4, point.benchmark.iterations_per_block)),
        flush_l2=point.benchmark.flush_l2,
    )
    stages_by_arm = {name: stages_of(arm.path) for name, arm in arms.items()}
    samples: dict[str, Samples] = {}
    for stage in STAGES:
        pair = {name: stages.pop(stage) for name, stages in stages_by_arm.items()}
        samples[stage] = take_samples(pair, method, clock, lambda: False)
    print_progress("stages timed")
    return [
        stage_timing(
            arm,
            stage,
            direction,
            estimate(samples[stage].ms_BI(name, direction), Statistic.median),
            point,
        )
        for name, arm in arms.items()
        for direction in DIRECTIONS
        for stage in STAGES
    ]
