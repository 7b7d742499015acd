"""One arm of a comparison: built, asked which attention kernel it will run, stepped once."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from conf.choices import Backend
from conf.schema import Point, Recipe
from jobs.node.clock import Clock
from jobs.node.outcome import RefusedError
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

PathBuilder = Callable[[str, Recipe, Case], AttentionPath]


@dataclass
class Arm:
    """One arm after its first step.

    Attributes:
        name: recipe or bf16.
        path: What computes it.
        recipe: Its quantization.
        tensors: What its validated step gave, by name; emptied once judged.
        kernel: The attention that ran.
        fallback: What ran instead of what was asked for, None where nothing did.
        first_iteration_ms: Its first step, library start-up and compilation included.
        peak_memory_gib: Weights, activations and gradients of one step at their peak.
    """

    name: str
    path: AttentionPath
    recipe: Recipe
    tensors: dict[str, Tensor]
    kernel: str
    fallback: Fallback | None
    first_iteration_ms: float
    peak_memory_gib: float | None


def ask_attention(
    point: Point, recipes: Mapping[str, Recipe], case: Case, checks: list[Check]
) -> None:
    """Asks Transformer Engine for each arm's attention kernel, before anything runs.

    Args:
        point: Shape and backend.
        recipes: By arm.
        case: Its softmax scale.
        checks: Answers are added to them.

    Raises:
        RefusedError: An arm has no kernel that a comparison could use. Where two cuDNNs disagree
            on this machine, that is the reason that is given.
    """
    if point.backend is not Backend.te:
        return
    two_cudnns = next((c for c in checks if c.name == "cuDNN" and c.ok is False), None)
    for arm, recipe in recipes.items():
        check = check_kernel(arm, recipe, query_kernel(point.shape, recipe, case.softmax_scale))
        checks.append(check)
        if check.refusal is None:
            continue
        if two_cudnns is not None:
            reason = join_sentences(check.reason, f"cuDNN: {two_cudnns.reason}")
            check = Check(check.name, False, reason, REMEDY, refusal=Refusal.import_error)
        raise RefusedError(check)


def first_step(
    name: str, recipe: Recipe, point: Point, case: Case, build: PathBuilder, clock: Clock
) -> Arm:
    """Builds an arm and runs the step that is validated.

    Args:
        name: recipe or bf16.
        recipe: The arm's quantization.
        point: Its backend.
        case: What to run on.
        build: Makes the path.
        clock: Times the first step.

    Returns:
        The arm, with the tensors of its first settled step.
    """
    path = build(point.backend.name, recipe, case)
    on_te = point.backend is Backend.te
    if on_te:
        forget_kernel()
    kept: list[dict[str, Tensor]] = []

    def step() -> None:
        kept[:] = [path.step()]

    first_ms = clock.once_ms(step)
    for _ in range(getattr(path, "settling_steps", 0)):
        step()
    kernel, substitute = f"{path.name}, emulated in PyTorch", None
    if on_te:
        ran = last_kernel()
        kernel, substitute = str(ran), fallback(recipe, ran, os.environ)
    peak = _peak_memory_gib(path, clock) if path.x_SBC.is_cuda else None
    return Arm(name, path, recipe, kept[0], kernel, substitute, first_ms, peak)


def weight_cache_check(arm: Arm) -> Check | None:
    """Whether an arm that was asked to cache its quantized weights does.

    Args:
        arm: The recipe's.

    Returns:
        A check; None where no cache was asked for, or the backend has none.
    """
    ask = getattr(arm.path, "weight_cache_is_reused", None)
    reused: bool | None = ask() if ask is not None else None
    if reused is None:
        return None
    shown = "with its weights emptied, a step computed " + (
        "the same: they came from the cache" if reused else "something else: no cache was used"
    )
    return Check("weight cache is reused", reused, shown)


def _peak_memory_gib(path: AttentionPath, clock: Clock) -> float:
    path.zero_grad()
    clock.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    path.bprop(path.fprop())
    clock.synchronize()
    grown = torch.cuda.max_memory_allocated() - before
    path.zero_grad()
    weights = sum(leaf.numel() * leaf.element_size() for leaf in path.parameters().values())
    return (grown + weights) / 2**30
