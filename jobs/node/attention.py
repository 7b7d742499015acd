"""The attention job: both arms are run, judged against FP32 and each other, and timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from conf.choices import Profiler
from conf.schema import Bf16Recipe, Point
from jobs.node.arms import Arm, PathBuilder, ask_attention, first_step, weight_cache_check
from jobs.node.benchmark import BASELINE, RECIPE, Steppable, collect
from jobs.node.clock import Clock, clock_for
from jobs.node.cuda_graph import GraphedPath
from jobs.node.draft import Draft
from jobs.node.figures import benchmark_result, claim, missed_speedups
from jobs.node.outcome import End
from jobs.node.profiling import profile
from jobs.node.stages import time_stages
from jobs.node.telemetry import Telemetry
from jobs.node.validate import expectation, validate
from jobs.perf import EMULATED_NOTE
from jobs.record import BenchmarkResult, Outcome
from mxfp8_attention.accuracy.stages import stage_errors
from mxfp8_attention.case import make_case

Say = Callable[[str], None]


@dataclass(frozen=True)
class Tools:
    """What the job works with.

    Attributes:
        build: Makes an arm.
        clock: Times calls.
        telemetry: Watches the GPU.
        say: Tells progress.
    """

    build: PathBuilder
    clock: Clock
    telemetry: Telemetry
    say: Say


def run_attention(
    draft: Draft, attempt_dir: Path, build: PathBuilder, telemetry: Telemetry, say: Say
) -> End:
    """Validates and benchmarks one point.

    Args:
        draft: The record so far; filled in.
        attempt_dir: Where a profiler's files go.
        build: Makes an arm.
        telemetry: Watches the GPU.
        say: Tells progress.

    Returns:
        PASSED, or FAILED with every gate that was missed.
    """
    point = draft.point_file.point
    tools = Tools(build, clock_for(point.gpu.device), telemetry, say)
    arms, failures = _validate(draft, point, tools)
    if point.benchmark.enabled:
        draft.benchmark = _benchmark(draft, point, arms, tools)
        failures += missed_speedups(draft.benchmark, point)
    arms.clear()
    if point.benchmark.profile is not Profiler.none:
        profile(draft, attempt_dir, say)
    if failures:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        return End(Outcome.FAILED, failures[0] + more)
    return End(Outcome.PASSED, _passed(draft, point))


def _validate(draft: Draft, point: Point, tools: Tools) -> tuple[dict[str, Arm], list[str]]:
    case = make_case(point.shape, point.gpu.device)
    recipes = {RECIPE: point.recipe, BASELINE: Bf16Recipe()}
    ask_attention(point, recipes, case, draft.checks)
    prediction = expectation(point, tools.say)  # before the arms: it needs their memory
    tools.clock.release_memory()
    arms: dict[str, Arm] = {}
    for name, recipe in recipes.items():
        arm = first_step(name, recipe, point, case, tools.build, tools.clock)
        arms[name] = arm
        draft.attention_backend[name] = arm.kernel
        tools.say(f"arm {name} ({arm.path.name}): first step {arm.first_iteration_ms:.0f} ms")
    reference = tools.build("reference", point.recipe, case).step()
    tools.say("FP32 reference computed")
    judged_by_stage = arms.items() if prediction is not None else ()
    stages = {name: stage_errors(arm.path) for name, arm in judged_by_stage}
    draft.validation = validate(
        point, arms[RECIPE].tensors, arms[BASELINE].tensors, reference, prediction, stages
    )
    failures = [str(arm.fallback) for arm in arms.values() if arm.fallback is not None]
    failures += draft.validation.failures
    cache = weight_cache_check(arms[RECIPE])
    if cache is not None:
        draft.checks.append(cache)
        if cache.ok is False:
            failures.append(f"recipe.weights=cached, but {cache.reason}")
    for arm in arms.values():
        arm.tensors = {}
    del reference
    tools.clock.release_memory()
    return arms, failures


def _benchmark(draft: Draft, point: Point, arms: dict[str, Arm], tools: Tools) -> BenchmarkResult:
    def watch() -> bool:
        seen = tools.telemetry.samples("during")
        draft.telemetry += seen
        return any(sample.throttled for sample in seen)

    method = point.benchmark
    notes: list[str] = []
    # Stages first: a captured graph owns its arm.
    stages = time_stages(arms, point, tools.clock, tools.say) if method.stages else []
    timed: dict[str, Steppable] = {name: arm.path for name, arm in arms.items()}
    if method.cuda_graph and point.gpu.device == "cuda":
        timed = {name: GraphedPath(arm.path) for name, arm in arms.items()}
        notes.append("timed as replayed CUDA graphs; stages and first iteration were launched")
    elif method.cuda_graph:
        notes.append("benchmark.cuda_graph has no effect on a CPU")
    if tools.telemetry.missing:
        notes.append(f"throttling could not be watched: {tools.telemetry.missing}")
    collection = collect(timed, method, tools.clock, watch, progress=tools.say)
    return benchmark_result(arms, collection, point, stages, notes)


def _passed(draft: Draft, point: Point) -> str:
    judged = draft.validation is not None and draft.validation.passed is not None
    words = f"within tolerance {point.tolerance.name.name}" if judged else "nothing was gated"
    if claim(point) == "emulated":
        words += f"; {EMULATED_NOTE}"
    return words
