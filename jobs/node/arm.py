"""One arm of a comparison: its path, the attention kernel that ran, its first step."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from conf.choices import Backend
from conf.schema import Point, Recipe
from jobs.node.clock import Clock
from jobs.node.record_draft import RefusedError
from jobs.text import join_sentences
from mxfp8_attention.capability.attention_kernel import (
    Fallback,
    check_kernel,
    fallback,
    forget_kernel,
    last_kernel,
    query_kernel,
)
from mxfp8_attention.capability.checks import Check, Refusal
from mxfp8_attention.capability.libraries import REMEDY
from mxfp8_attention.case import Case
from mxfp8_attention.layer import AttentionPath

RECIPE, BASELINE = "recipe", "bf16"

PathBuilder = Callable[[str, Recipe, Case], AttentionPath]


@dataclass
class Arm:
    """One arm after its first step.

    Attributes:
        name: recipe or bf16.
        path: Its implementation.
        recipe: Its quantization.
        tensors: Results of the validated step by name; emptied after validation.
        kernel: The attention kernel that ran.
        fallback: The kernel that ran instead of the requested one.
        first_iteration_ms: Duration of the first step, library start-up and compilation included.
        peak_memory_gib: Peak of weights, activations and gradients of one step.
    """

    name: str
    path: AttentionPath
    recipe: Recipe
    tensors: dict[str, Tensor]
    kernel: str
    fallback: Fallback | None
    first_iteration_ms: float
    peak_memory_gib: float | None

    @classmethod
    def first_step(
        cls, name: str, recipe: Recipe, point: Point, case: Case, build: PathBuilder, clock: Clock
    ) -> Arm:
        """Build an arm and run the step that is validated, after the steps that settle scales."""
        path = build(point.backend.name, recipe, case)
        on_te = point.backend is Backend.te
        if on_te:
            forget_kernel()
        tensors: dict[str, Tensor] = {}

        def step() -> None:
            nonlocal tensors
            tensors = path.step()

        first_ms = clock.once_ms(step)
        for _ in range(getattr(path, "settling_steps", 0)):
            step()
        kernel, substitute = f"{path.name}, emulated in PyTorch", None
        if on_te:
            choice = last_kernel()
            kernel, substitute = str(choice), fallback(recipe, choice, os.environ)
        peak = _peak_memory_gib(path, clock) if path.x_SBC.is_cuda else None
        return cls(name, path, recipe, tensors, kernel, substitute, first_ms, peak)

    def weight_cache_check(self) -> Check | None:
        """Check that cached quantized weights are reused; None without a cache."""
        query = getattr(self.path, "weight_cache_is_reused", None)
        reused: bool | None = query() if query is not None else None
        if reused is None:
            return None
        reason = "with its weights emptied, a step computed " + (
            "the same: they came from the cache" if reused else "something else: no cache was used"
        )
        return Check("weight cache is reused", reused, reason)


def check_attention(
    point: Point, recipes: Mapping[str, Recipe], case: Case, checks: list[Check]
) -> None:
    """Query Transformer Engine for each arm's attention kernel, and extend `checks`.

    Raises:
        RefusedError: An arm has no kernel that could be compared. If two cuDNNs conflict on this
            machine, that is the reason.
    """
    if point.backend is not Backend.te:
        return
    conflict = next((c for c in checks if c.name == "cuDNN" and c.ok is False), None)
    for arm, recipe in recipes.items():
        check = check_kernel(arm, recipe, query_kernel(point.shape, recipe, case.softmax_scale))
        checks.append(check)
        if check.refusal is None:
            continue
        if conflict is not None:
            reason = join_sentences(check.reason, f"cuDNN: {conflict.reason}")
            check = Check(check.name, False, reason, REMEDY, refusal=Refusal.import_error)
        raise RefusedError(check)


def _peak_memory_gib(path: AttentionPath, clock: Clock) -> float:
    path.zero_grad()
    clock.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    path.bprop(path.fprop())
    clock.synchronize()
    growth = torch.cuda.max_memory_allocated() - before
    path.zero_grad()
    weights = sum(leaf.numel() * leaf.element_size() for leaf in path.parameters().values())
    return (growth + weights) / 2**30
