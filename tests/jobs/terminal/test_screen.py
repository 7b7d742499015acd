"""What a user sees: foreign words are harmless, and nothing is claimed falsely."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import pytest

from jobs.record import Cause, Evidence, Outcome, Record
from jobs.sweeps.planned_point import PlannedPoint
from jobs.terminal import screen
from jobs.verbs.submit import show_points
from tests.builders.records import asked, record

Shown = Callable[[Record], str]


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Shown:
    """A record as a pipe gets it."""

    def show(given: Record) -> str:
        screen.show_record(given, screen.console())
        return capsys.readouterr().out

    return show


def row(text: str, *words: str) -> str:
    """The one line that begins with some words."""
    (found,) = (line for line in text.splitlines() if line.split()[: len(words)] == list(words))
    return found


def test_a_record_shows_availability_accuracy_time_and_outcome(shown: Shown) -> None:
    text = shown(record("p-1", asked(), reason="within tolerance calibrated"))
    first = text.splitlines()[0]
    for words in (
        "job 14", "host n1", "GPU NVIDIA GB300", "compute capability 10.3", "driver 580.82.07",
        "CUDA 13.0", "torch 2.11.0", "Transformer Engine 2.20.2", "commit 8153ff3c0f",
    ):  # fmt: skip
        assert words in first
    assert row(text, "MXFP8", "available", "yes")
    assert "Accuracy: relative L2 (tolerance=calibrated, prediction stored)" in text
    assert row(text, "dx").split()[-1] == "ok"
    assert "Time (median, 95% interval; interleaved A-B-B-A, CUDA events, L2 flushed)" in text
    assert "57.0%" in row(text, "MXFP8", "fprop")
    assert "[PERF] b=1 s=4096:" in text
    assert text.rstrip().splitlines()[-1] == "PASSED  within tolerance calibrated"


def test_a_missed_gate_is_marked_and_told(shown: Shown) -> None:
    text = shown(record("p-1", asked(), Outcome.FAILED, reason="dx"))
    assert row(text, "dx").split()[-1] == "MISSED"
    assert row(text, "q").split()[-1] == "ok"
    assert "\nFAILED  dx\n  - dx: rel_l2 must be at most its gate\n" in text


def test_an_emulated_arm_says_so_wherever_it_is_shown(shown: Shown) -> None:
    text = shown(record("p-1", asked(gpu="cpu", shape="tiny")))
    assert row(text, "MXFP8", "(emulated)", "fprop")
    assert row(text, "BF16", "(emulated)", "bprop")
    assert "Fprop speedup: none claimed (emulated: checks this code, not hardware)" in text


def test_an_error_shows_its_cause_and_its_last_lines(shown: Shown) -> None:
    lines = [f"line {number}" for number in range(20)]
    given = record(
        "p-1", asked(), Outcome.ERROR, cause=Cause.crashed, reason="SIGKILL", lines=lines
    )
    text = shown(given)
    assert "\nERROR (crashed)  SIGKILL\n" in text
    assert [line for line in text.splitlines() if line.startswith("  | ")] == [
        f"  | line {number}" for number in range(12, 20)
    ]


def test_words_from_elsewhere_cannot_steer_the_terminal_or_the_layout(shown: Shown) -> None:
    evil = "\x1b[31mred\x1b[0m [bold]x[/bold] [/] \x07\x1b]0;title\x07 :smile: a\tb"
    given = record("p-1", asked(), Outcome.ERROR, cause=Cause.exception, reason=evil, lines=[evil])
    given = given.model_copy(
        update={
            "evidence": [Evidence(lines=[evil])],
            "capability": given.capability.model_copy(
                update={
                    "checks": [
                        given.capability.checks[0].model_copy(
                            update={"reason": evil, "remedy": "[/nope]"}
                        )
                    ]
                }
            ),
        }
    )
    text = shown(given)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert text.count("red [bold]x[/bold] [/]") == 3
    assert ":smile:" in text
    assert "[/nope]" in text


def test_a_pipe_gets_no_colour_and_whole_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "")
    long = "python launch.py " + "x" * 300
    screen.console().print(long, soft_wrap=True)
    screen.console().print(screen.styled("FAILED"))
    assert capsys.readouterr().out == f"{long}\nFAILED\n"


def test_a_terminal_gets_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen.console().print(screen.styled("FAILED"))
    assert terminal.getvalue() == "\x1b[1;31mFAILED\x1b[0m\n"


def test_points_are_one_table_with_what_may_be_claimed(capsys: pytest.CaptureFixture[str]) -> None:
    def planned(index: int, **choices: str) -> PlannedPoint:
        return PlannedPoint(point_id=f"p-{index}", index=index, config=asked(), choices=choices)

    rows = [
        (planned(0, recipe="mxfp8"), record("p-0", asked(), reason="fine [a,b]")),
        (planned(1, recipe="bf16"), record("p-1", asked("bf16"))),
        (planned(2), record("p-2", asked(), Outcome.UNSUPPORTED, reason="first\nsecond")),
    ]
    show_points(rows, screen.console())
    text = capsys.readouterr().out
    assert row(text, "p-0").split()[1:3] == ["recipe=mxfp8", "PASSED"]
    assert "x" in row(text, "p-0").split()[3]
    assert row(text, "p-0").rstrip().endswith("fine [a,b]")
    assert row(text, "p-1").split()[4] == "noise"
    assert row(text, "p-2").split()[1:] == [
        "gpu=gb300", "shape=dsv3", "recipe=mxfp8", "UNSUPPORTED", "first",
    ]  # fmt: skip


def test_a_long_reason_is_cut_at_its_first_line() -> None:
    assert screen.short("a\nb") == "a"
    assert screen.short("") == ""
    assert screen.short("x" * 200) == "x" * 99 + "…"


def test_of_slurms_variables_those_on_gpus_cpus_memory_and_node_are_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    variables = dict.fromkeys(
        ("NVTE_DEBUG", "SLURM_JOB_GPUS", "SLURM_CPUS_PER_TASK", "SLURM_MEM_PER_NODE",
         "SLURM_JOB_NODELIST", "SLURM_SUBMIT_DIR", "SLURM_TOPOLOGY_ADDR", "SLURM_JOB_UID"), "1"
    )  # fmt: skip
    screen.show_variables(record("p-1", asked(), variables=variables), screen.console())
    assert capsys.readouterr().out.split() == [
        "NVTE_DEBUG=1", "SLURM_CPUS_PER_TASK=1", "SLURM_JOB_GPUS=1", "SLURM_JOB_NODELIST=1",
        "SLURM_MEM_PER_NODE=1",
    ]  # fmt: skip
