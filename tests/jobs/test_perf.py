"""The `[PERF]` lines: the layout that reviewers know, and no claim beyond the measurement."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.perf import (
    EMULATED_NOTE,
    emulated_summary,
    format_speedup,
    is_emulated,
    perf_lines,
    recipe_label,
)
from jobs.record import Identity, Outcome, Record, Speedup
from tests.builders.benchmarks import benchmark, speedup


def record(claim: str = "speedup", recipe: str = "mxfp8", **fields: Any) -> Record:  # noqa: ANN401
    return Record(
        identity=Identity(point_id="p-1"),
        config={"shape": {"batch": 1, "seq_len": 4096}, "recipe": {"name": recipe}},
        outcome=Outcome.PASSED,
        benchmark=benchmark(claim, recipe, **fields),
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


def test_an_emulated_arm_is_marked_and_claims_nothing() -> None:
    lines = perf_lines(record("emulated"))
    assert EMULATED_NOTE in lines[0]
    assert not any("1.53" in line for line in lines)


def test_bf16_against_itself_is_noise_and_no_speedup() -> None:
    lines = perf_lines(record("noise", "bf16", fprop_speedup=speedup("noise", 0.998)))
    assert "  BF16 again fprop: 4.718 ms  (868164 tok/s)" in lines
    assert "  Fprop ratio: 0.998  [0.988, 1.008]  (noise: BF16 against itself)" in lines
    assert not any("speedup" in line for line in lines)


def test_the_statistic_of_the_method_is_printed() -> None:
    lines = perf_lines(record(statistic="mean"))
    assert any(line.startswith("  MXFP8 fprop: 4.900 ms") for line in lines)


def test_without_a_clean_block_nothing_is_claimed() -> None:
    (line,) = [one for one in perf_lines(record(fprop_speedup=None)) if "Fprop" in one]
    assert line.startswith("  Fprop speedup: none")


def test_a_damaged_configuration_costs_its_labels_only() -> None:
    damaged = record().model_copy(update={"config": {"shape": 3, "recipe": []}})
    assert perf_lines(damaged)[0] == "[PERF] b=None s=None:"
    assert recipe_label(damaged) == "recipe"


def test_without_times_there_is_no_line() -> None:
    assert perf_lines(record().model_copy(update={"benchmark": None})) == []


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (None, "-"),
        (speedup("speedup"), "1.53x"),
        (speedup("noise", 0.998), "0.998 noise"),
        (speedup("emulated"), "emulated"),
    ],
)
def test_a_speedup_as_text(given: Speedup | None, text: str) -> None:
    assert format_speedup(given) == text


@pytest.mark.parametrize(
    ("config", "outcome", "emulated"),
    [
        ({"backend": "emulated", "job": "attention"}, Outcome.FAILED, True),
        ({"backend": "emulated", "job": "attention"}, Outcome.UNSUPPORTED, False),
        ({"backend": "emulated", "job": "probe"}, Outcome.PASSED, False),
        ({"backend": "te", "job": "attention"}, Outcome.PASSED, False),
    ],
)
def test_a_point_that_ran_emulated_is_recognized(
    config: dict[str, str], outcome: Outcome, emulated: bool
) -> None:
    given = record().model_copy(update={"config": config, "outcome": outcome})
    assert is_emulated(given) is emulated


@pytest.mark.parametrize(
    ("emulated", "points", "subject"),
    [
        (1, 1, "The point was"),
        (3, 3, "All 3 points were"),
        (1, 23, "1 of 23 points was"),
        (2, 23, "2 of 23 points were"),
    ],
)
def test_emulated_points_are_counted(emulated: int, points: int, subject: str) -> None:
    assert emulated_summary(emulated, points) == f"{subject} {EMULATED_NOTE}"
