"""The review block: the facts reviewers ask for, short, and no markup but its own."""

from __future__ import annotations

import dataclasses

import pytest

from jobs.collect.review import MAX_CHARS, cell, compact, review_text
from jobs.perf import EMULATED_NOTE
from jobs.record import Cause, Outcome, State
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult, Quote
from tests.builders.records import point_config, record, untimed, with_notes


def point(state: str = "PASSED", recipe: str = "mxfp8", gpu: str = "gb300") -> PointResult:
    config = point_config(recipe, gpu)
    left = record("p-1", config, Outcome[state])
    return PointResult(
        "p-1", "s-1", config, State(state), record=left, job_id="14_0", command=left.command
    )


def test_the_block_holds_environment_command_result_and_times() -> None:
    text = review_text(Collection("s-1", [point()]))
    assert "### s-1: 1 PASSED of 1 planned" in text
    for line in (
        "| Job | 14_0 |",
        "| GPU | NVIDIA GB300 |",
        "| CUDA capability | 10.3 |",
        "| cuDNN | 9.21.1 |",
        "| MXFP8 available | yes |",
        "| Command | `python launch.py sweep grid=seq_len gpu=gb300` |",
        "| Result | 1 PASSED |",
    ):
        assert line in text
    assert "mxfp8 dsv3 b=1 s=4096 gb300\n[PERF] b=1 s=4096:" in text


def test_tasks_of_an_array_are_one_word() -> None:
    assert compact(["14_0", "14_2", "14_1", "14_7", "21", "9_3", "14_1"]) == [
        "14_[0-2,7]",
        "21",
        "9_3",
    ]
    huge = "14_" + "9" * 5000
    assert compact([huge, "local-3_x"]) == [huge, "local-3_x"]


def test_omitted_commands_are_counted() -> None:
    many = [dataclasses.replace(point(), command=f"launch {number}") for number in range(6)]
    text = review_text(Collection("s-1", many))
    assert "`launch 3`<br>and 2 more, in points.csv |" in text


def test_two_versions_of_cudnn_are_both_shown() -> None:
    config = point_config()
    left = record("p-1", config, cudnn_torch="9.19.0")
    mixed = PointResult("p-1", "s-1", config, State.PASSED, record=left)
    text = review_text(Collection("s-1", [mixed]))
    assert "9.21.1 (Transformer Engine), 9.19.0 (torch)" in text


def test_points_that_did_not_pass_are_listed_with_reasons() -> None:
    config = point_config()
    quote = Quote(["CUDA error: misaligned address"])
    died = PointResult("p-1", "s", config, State.ERROR, cause=Cause.crashed, evidence=[quote])
    text = review_text(Collection("s", [died]))
    assert "ERROR (crashed)" in text
    assert "misaligned address" in text


def test_no_speedup_is_claimed_from_emulation_or_noise() -> None:
    emulated = review_text(Collection("s-1", [point(gpu="cpu")]))
    assert "none claimed" in emulated
    assert EMULATED_NOTE in emulated
    noise = review_text(Collection("s-1", [point(recipe="bf16")]))
    assert "BF16 against itself" in noise
    assert "speedup" not in noise


@pytest.mark.parametrize("timed", [True, False])
def test_emulated_points_are_marked_timed_or_not(timed: bool) -> None:
    made = point(gpu="cpu")
    assert made.record is not None
    made = made if timed else dataclasses.replace(made, record=untimed(made.record))
    text = review_text(Collection("s-1", [made]))
    assert f"| Emulated | The point was {EMULATED_NOTE} |" in text
    assert ("[PERF]" in text) == timed
    assert "mulated" not in review_text(Collection("s-1", [point()]))


@pytest.mark.parametrize("text", ["a|b", "<img src=x>", "@everyone", "`x`", "a\nb", "[x](y)"])
def test_a_cell_cannot_break_out(text: str) -> None:
    shown = cell(text)
    assert "\n" not in shown
    assert "@e" not in shown
    assert all(shown[i - 1] == "\\" for i, mark in enumerate(shown) if mark in "|<`[")


def test_text_with_fences_stays_inside_its_fence() -> None:
    config = point_config(shape__name="```\n# own heading")
    left = record("p-1", config)
    fenced = PointResult("p-1", "s-1", config, State.PASSED, record=left)
    text = review_text(Collection("s-1", [fenced]))
    start, end = text.index("````text\n"), text.rindex("\n````")
    assert start < text.index("# own heading") < text.index("[PERF]") < end


def test_a_thousand_points_fit_a_comment() -> None:
    points = [point("FAILED") for _ in range(500)] + [point() for _ in range(500)]
    assert len(review_text(Collection("s-1", points))) <= MAX_CHARS + 200


def test_notes_of_a_benchmark_follow_its_times() -> None:
    config = point_config()
    left = with_notes(record("p-1", config), "times not stable after 40 warm-up iterations")
    noted = PointResult("p-1", "s-1", config, State.PASSED, record=left)
    text = review_text(Collection("s-1", [noted]))
    assert text.index("Bprop speedup") < text.index("  Note: times not stable after 40 warm-up")
