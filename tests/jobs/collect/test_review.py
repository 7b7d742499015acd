"""The review block: the facts reviewers ask for, short, and no markup but its own."""

from __future__ import annotations

import dataclasses

import pytest

from jobs.collect.review import MAX_CHARS, cell, compact, review_text
from jobs.perf import EMULATED_NOTE
from jobs.record import Cause, Outcome
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult, Quote
from tests.builders.records import point_config, record, untimed, with_notes
from tests.builders.runs import collected


def point(state: str = "PASSED", recipe: str = "mxfp8", gpu: str = "gb300") -> PointResult:
    left = record("p-1", point_config(recipe, gpu), Outcome[state])
    return collected(left, job_id="14_0", command=left.command)


def text_of(*points: PointResult) -> str:
    return review_text(Collection("s-1", list(points)))


def test_the_block_holds_environment_command_result_and_times() -> None:
    text = text_of(point())
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
    assert "`launch 3`<br>and 2 more, in points.csv |" in text_of(*many)


def test_two_versions_of_cudnn_are_both_shown() -> None:
    mixed = collected(record("p-1", point_config(), cudnn_torch="9.19.0"))
    assert "9.21.1 (Transformer Engine), 9.19.0 (torch)" in text_of(mixed)


def test_points_that_did_not_pass_are_listed_with_reasons() -> None:
    quote = Quote(["CUDA error: misaligned address"])
    left = record("p-1", point_config(), Outcome.ERROR, cause=Cause.crashed)
    text = text_of(collected(left, record=None, evidence=[quote]))
    assert "ERROR (crashed)" in text
    assert "misaligned address" in text


def test_no_speedup_is_claimed_from_emulation_or_noise() -> None:
    emulated = text_of(point(gpu="cpu"))
    assert "none claimed" in emulated
    assert EMULATED_NOTE in emulated
    noise = text_of(point(recipe="bf16"))
    assert "BF16 against itself" in noise
    assert "speedup" not in noise


@pytest.mark.parametrize("timed", [True, False])
def test_emulated_points_are_marked_timed_or_not(timed: bool) -> None:
    left = record("p-1", point_config(gpu="cpu"))
    text = text_of(collected(left if timed else untimed(left)))
    assert f"| Emulated | The point was {EMULATED_NOTE} |" in text
    assert ("[PERF]" in text) == timed
    assert "mulated" not in text_of(point())


@pytest.mark.parametrize("text", ["a|b", "<img src=x>", "@everyone", "`x`", "a\nb", "[x](y)"])
def test_a_cell_cannot_break_out(text: str) -> None:
    shown = cell(text)
    assert "\n" not in shown
    assert "@e" not in shown
    assert all(shown[i - 1] == "\\" for i, mark in enumerate(shown) if mark in "|<`[")


def test_text_with_fences_stays_inside_its_fence() -> None:
    text = text_of(collected(record("p-1", point_config(shape__name="```\n# own heading"))))
    start, end = text.index("````text\n"), text.rindex("\n````")
    assert start < text.index("# own heading") < text.index("[PERF]") < end


def test_a_thousand_points_fit_a_comment() -> None:
    assert len(text_of(*[point("FAILED")] * 500, *[point()] * 500)) <= MAX_CHARS + 200


def test_notes_of_a_benchmark_follow_its_times() -> None:
    text = text_of(collected(with_notes(record("p-1", point_config()), "not stable")))
    assert text.index("Bprop speedup") < text.index("  Note: not stable")
