"""The `[PERF]` lines: the layout that reviews know, and no more claimed than was measured."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.perf import EMULATED_NOTE, emulated_summary, format_speedup, perf_lines, recipe_label
from jobs.record import (
    ArmBenchmark,
    BenchmarkResult,
    Identity,
    Outcome,
    Record,
    Speedup,
    Timing,
)


def timing(median_ms: float, mean_ms: float | None = None) -> Timing:
    return Timing(
        samples_ms=[median_ms],
        median_ms=median_ms,
        mean_ms=median_ms if mean_ms is None else mean_ms,
        low_ms=median_ms,
        high_ms=median_ms,
        tokens_per_s=4096 / median_ms * 1e3,
    )


def speedup(claim: str, ratio: float = 1.53) -> Speedup:
    return Speedup(ratio=ratio, low=ratio - 0.01, high=ratio + 0.01, claim=claim)


def record(recipe: str = "mxfp8", claim: str = "speedup", **changed: Any) -> Record:  # noqa: ANN401
    emulated = claim == "emulated"
    arms = [
        ArmBenchmark(
            arm="recipe",
            precision=recipe,
            emulated=emulated,
            fprop=timing(4.718, 4.9),
            bprop=timing(10.0),
        ),
        ArmBenchmark(
            arm="bf16",
            precision="bf16",
            emulated=emulated,
            fprop=timing(7.219, 7.5),
            bprop=timing(15.0),
        ),
    ]
    fields = {
        "method": "interleaved",
        "statistic": "median",
        "confidence": 0.95,
        "arms": arms,
        "fprop_speedup": speedup(claim),
        "bprop_speedup": speedup(claim),
    } | changed
    return Record(
        identity=Identity(point_id="p-1"),
        config={"shape": {"batch": 1, "seq_len": 4096}, "recipe": {"name": recipe}},
        outcome=Outcome.PASSED,
        benchmark=BenchmarkResult.model_validate(fields),
    )


def test_both_arms_and_the_speedup_with_its_interval() -> None:
    assert perf_lines(record()) == [
        "[PERF] b=1 s=4096:",
        "  BF16 fprop:  7.219 ms  (567392 tok/s)",
        "  MXFP8 fprop: 4.718 ms  (868164 tok/s)",
        "  Fprop speedup: 1.53x  [1.520, 1.540]",
        "  BF16 bprop:  15.000 ms  (273067 tok/s)",
        "  MXFP8 bprop: 10.000 ms  (409600 tok/s)",
        "  Bprop speedup: 1.53x  [1.520, 1.540]",
    ]


def test_an_emulated_arm_says_so_and_claims_nothing() -> None:
    lines = perf_lines(record(claim="emulated"))
    assert lines[0] == "[PERF] b=1 s=4096: (emulated: checks this code, not hardware)"
    assert "  Fprop speedup: none claimed (emulated: checks this code, not hardware)" in lines
    assert not any("1.53" in line for line in lines)


def test_bf16_against_itself_is_noise_and_no_speedup() -> None:
    lines = perf_lines(record("bf16", "noise", fprop_speedup=speedup("noise", 0.998)))
    assert "  BF16 again fprop: 4.718 ms  (868164 tok/s)" in lines
    assert "  Fprop ratio: 0.998  [0.988, 1.008]  (noise: BF16 against itself)" in lines
    assert not any("speedup" in line for line in lines)


def test_the_mean_stands_where_the_method_asks_for_it() -> None:
    lines = perf_lines(record(statistic="mean"))
    assert any(line.startswith("  MXFP8 fprop: 4.900 ms") for line in lines)


def test_without_an_unthrottled_block_nothing_is_claimed() -> None:
    lines = perf_lines(record(fprop_speedup=None))
    assert "  Fprop speedup: none: no block ran unthrottled" in lines


def test_a_damaged_configuration_costs_its_words_alone() -> None:
    damaged = record().model_copy(update={"config": {"shape": 3, "recipe": []}})
    assert perf_lines(damaged)[0] == "[PERF] b=None s=None:"
    assert recipe_label(damaged) == "recipe"


def test_where_nothing_was_timed_there_is_no_line() -> None:
    assert perf_lines(record().model_copy(update={"benchmark": None})) == []


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (None, "-"),
        (speedup("speedup"), "1.53x"),
        (speedup("noise", 0.998), "0.998 noise"),
        (speedup("emulated"), "emulated"),
    ],
)
def test_a_claim_in_a_word(given: Speedup | None, word: str) -> None:
    assert format_speedup(given) == word


@pytest.mark.parametrize(
    ("emulated", "points", "who"),
    [
        (1, 1, "The point was"),
        (3, 3, "All 3 points were"),
        (1, 23, "1 of 23 points was"),
        (2, 23, "2 of 23 points were"),
    ],
)
def test_what_was_emulated_is_counted(emulated: int, points: int, who: str) -> None:
    assert emulated_summary(emulated, points) == f"{who} {EMULATED_NOTE}"
