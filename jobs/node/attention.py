"""The attention job: both arms are run, validated against FP32 and each other, and timed."""

from __future__ import annotations

from pathlib import Path

from conf.choices import Profiler
from conf.schema import Bf16Recipe
from jobs.node.arm import BASELINE, RECIPE, Arm, PathBuilder, check_attention
from jobs.node.benchmark import Steppable, take_samples
from jobs.node.clock import clock_for
from jobs.node.cuda_graph import GraphedPath
from jobs.node.figures import benchmark_result, claim, missed_speedups
from jobs.node.output import print_progress
from jobs.node.profiling import profile
from jobs.node.record_draft import Ending, RecordDraft
from jobs.node.stages import time_stages
from jobs.node.telemetry import Telemetry
from jobs.node.validate import expected_errors, validate
from jobs.perf import EMULATED_NOTE
from jobs.record import BenchmarkResult, Outcome
from mxfp8_attention.accuracy.stages import stage_errors
from mxfp8_attention.case import make_case


def run_attention(
    draft: RecordDraft, attempt_dir: Path, build: PathBuilder, telemetry: Telemetry
) -> Ending:
    """Validate and benchmark one point, and fill in its record."""
    job = _AttentionJob(draft, build, telemetry)
    failures = job.validate()
    if job.point.benchmark.enabled:
        draft.benchmark = job.benchmark()
        failures += missed_speedups(draft.benchmark, job.point)
    job.arms.clear()
    if job.point.benchmark.profile is not Profiler.none:
        profile(draft, attempt_dir)
    if failures:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        return Ending(Outcome.FAILED, failures[0] + more)
    return Ending(Outcome.PASSED, job.summary())


class _AttentionJob:
    def __init__(self, draft: RecordDraft, build: PathBuilder, telemetry: Telemetry) -> None:
        self.draft = draft
        self.point = draft.point_file.point
        self.build = build
        self.telemetry = telemetry
        self.clock = clock_for(self.point.gpu.device)
        self.arms: dict[str, Arm] = {}

    def validate(self) -> list[str]:
        """Run both arms and the FP32 reference; return the failures."""
        draft, point = self.draft, self.point
        case = make_case(point.shape, point.gpu.device)
        recipes = {RECIPE: point.recipe, BASELINE: Bf16Recipe()}
        check_attention(point, recipes, case, draft.checks)
        prediction = expected_errors(point)  # before the arms: it needs their memory
        self.clock.release_memory()
        for name, recipe in recipes.items():
            arm = Arm.first_step(name, recipe, point, case, self.build, self.clock)
            self.arms[name] = arm
            draft.attention_backend[name] = arm.kernel
            print_progress(
                f"arm {name} ({arm.path.name}): first step {arm.first_iteration_ms:.0f} ms"
            )
        reference = self.build("reference", point.recipe, case).step()
        print_progress("FP32 reference computed")
        gated_by_stage = self.arms.items() if prediction is not None else ()
        stages = {name: stage_errors(arm.path) for name, arm in gated_by_stage}
        recipe_tensors, bf16_tensors = (self.arms[name].tensors for name in (RECIPE, BASELINE))
        draft.validation = validate(
            point, recipe_tensors, bf16_tensors, reference, prediction, stages
        )
        failures = [str(arm.fallback) for arm in self.arms.values() if arm.fallback is not None]
        failures += draft.validation.failures
        cache = self.arms[RECIPE].weight_cache_check()
        if cache is not None:
            draft.checks.append(cache)
            if cache.ok is False:
                failures.append(f"recipe.weights=cached, but {cache.reason}")
        for arm in self.arms.values():
            arm.tensors = {}
        del reference, recipe_tensors, bf16_tensors
        self.clock.release_memory()
        return failures

    def benchmark(self) -> BenchmarkResult:
        """Time both arms."""
        method = self.point.benchmark
        notes: list[str] = []
        # Stages first: a captured graph owns its arm.
        stages = time_stages(self.arms, self.point, self.clock) if method.stages else []
        timed: dict[str, Steppable] = {name: arm.path for name, arm in self.arms.items()}
        if method.cuda_graph and self.point.gpu.device == "cuda":
            timed = {name: GraphedPath(arm.path) for name, arm in self.arms.items()}
            notes.append("timed as replayed CUDA graphs; stages and first iteration were launched")
        elif method.cuda_graph:
            notes.append("benchmark.cuda_graph has no effect on a CPU")
        if self.telemetry.missing:
            notes.append(f"throttling could not be monitored: {self.telemetry.missing}")
        samples = take_samples(
            timed, method, self.clock, self._is_throttled, progress=print_progress
        )
        return benchmark_result(self.arms, samples, self.point, stages, notes)

    def summary(self) -> str:
        """Return the reason of a PASSED point."""
        validation = self.draft.validation
        gated = validation is not None and validation.passed is not None
        tolerance = self.point.tolerance.name.name
        text = f"within tolerance {tolerance}" if gated else "nothing was gated"
        return f"{text}; {EMULATED_NOTE}" if claim(self.point) == "emulated" else text

    def _is_throttled(self) -> bool:
        readings = self.telemetry.samples("during")
        self.draft.telemetry += readings
        return any(reading.throttled for reading in readings)
