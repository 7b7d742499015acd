"""One record on the console: nothing is claimed that was not measured."""

from __future__ import annotations

import pytest

from jobs.record import Cause, Evidence, Outcome, Record
from jobs.sweeps.planned_point import PlannedPoint
from jobs.terminal.records import print_record, print_variables, speedup_cells
from jobs.verbs.submit import show_points
from tests.builders.records import point_config, record
from tests.builders.terminal import pipe, printed, table_rows, terminal


def shown(given: Record) -> str:
    out = pipe()
    print_record(given, out)
    return printed(out)


def test_a_record_shows_availability_accuracy_time_and_outcome() -> None:
    text = shown(record("p-1", point_config(), reason="within tolerance calibrated"))
    first = text.splitlines()[0]
    for fact in ("14", "n1", "NVIDIA GB300", "10.3", "580.82.07", "13.0", "2.20.2", "8153ff3c0f"):
        assert fact in first
    assert table_rows(text, "check")[0]["answer"] == "yes"
    assert {row["tensor"]: row[""] for row in table_rows(text, "tensor")}["dx"] == "ok"
    times = {(row["arm"], row["direction"]): row for row in table_rows(text, "arm")}
    assert times["MXFP8", "fprop"]["of peak"] == "57.0%"
    assert "[PERF] b=1 s=4096:" in text
    assert text.splitlines()[-1].split() == ["PASSED", "within", "tolerance", "calibrated"]


def test_a_missed_gate_is_marked() -> None:
    text = shown(record("p-1", point_config(), Outcome.FAILED, reason="dx"))
    marks = {row["tensor"]: row[""] for row in table_rows(text, "tensor")}
    assert (marks["dx"], marks["q"]) == ("MISSED", "ok")
    assert text.splitlines()[-2:] == ["FAILED  dx", "  - dx: rel_l2 must be at most its gate"]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_gate_is_never_broken(width: int) -> None:
    out = terminal(width)
    print_record(record("p-1", point_config(), Outcome.FAILED, reason="dx"), out)
    assert "0.000% outside <= 23.750%" in printed(out)


def test_emulated_arms_are_marked_and_claim_no_speedup() -> None:
    emulated = record("p-1", point_config(gpu="cpu", shape="tiny"))
    arms = {row["arm"] for row in table_rows(shown(emulated), "arm")}
    assert arms == {"MXFP8 (emulated)", "BF16 (emulated)"}
    assert speedup_cells(emulated) == ("emulated", "emulated")


def test_an_error_shows_its_cause_and_its_last_lines() -> None:
    lines = [f"line {number}" for number in range(20)]
    error = record(
        "p-1", point_config(), Outcome.ERROR, cause=Cause.crashed, reason="SIGKILL", lines=lines
    )
    text = shown(error)
    assert "\nERROR (crashed)  SIGKILL\n" in text
    assert [line for line in text.splitlines() if line.startswith("  | ")] == [
        f"  | line {number}" for number in range(12, 20)
    ]


def test_foreign_text_cannot_change_the_layout() -> None:
    evil = "\x1b[31mred\x1b[0m [bold]x[/bold] [/] \x07\x1b]0;title\x07 :smile: a\tb"
    error = record(
        "p-1", point_config(), Outcome.ERROR, cause=Cause.exception, reason=evil, lines=[evil]
    )
    (check, *_) = error.capability.checks
    checks = [check.model_copy(update={"reason": evil, "remedy": "[/nope]"})]
    capability = error.capability.model_copy(update={"checks": checks})
    evidence = [Evidence(lines=[evil])]
    text = shown(error.model_copy(update={"evidence": evidence, "capability": capability}))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\t" not in text
    assert text.count("red [bold]x[/bold] [/]") == 3
    assert "[/nope]" in text


def test_points_are_one_table_with_their_speedups() -> None:
    def planned(index: int, **choices: str) -> PlannedPoint:
        return PlannedPoint(
            point_id=f"p-{index}", index=index, config=point_config(), choices=choices
        )

    unsupported = record("p-2", point_config(), Outcome.UNSUPPORTED, reason="first\nsecond")
    out = pipe()
    show_points(
        [
            (planned(0, recipe="mxfp8"), record("p-0", point_config(), reason="fine [a,b]")),
            (planned(1, recipe="bf16"), record("p-1", point_config("bf16"))),
            (planned(2), unsupported),
        ],
        out,
    )
    rows = {row["point"]: row for row in table_rows(printed(out))}
    assert rows["p-0"]["fprop"].endswith("x")
    assert (rows["p-0"]["what"], rows["p-0"]["reason"]) == ("recipe=mxfp8", "fine [a,b]")
    assert rows["p-1"]["fprop"].endswith("noise")
    assert (rows["p-2"]["outcome"], rows["p-2"]["reason"]) == ("UNSUPPORTED", "first")


def test_of_slurms_variables_those_about_resources_are_shown() -> None:
    variables = dict.fromkeys(
        ("NVTE_DEBUG", "SLURM_JOB_GPUS", "SLURM_CPUS_PER_TASK", "SLURM_MEM_PER_NODE",
         "SLURM_JOB_NODELIST", "SLURM_SUBMIT_DIR", "SLURM_TOPOLOGY_ADDR", "SLURM_JOB_UID"), "1"
    )  # fmt: skip
    out = pipe()
    print_variables(record("p-1", point_config(), variables=variables), out)
    assert printed(out).split() == [
        "NVTE_DEBUG=1", "SLURM_CPUS_PER_TASK=1", "SLURM_JOB_GPUS=1", "SLURM_JOB_NODELIST=1",
        "SLURM_MEM_PER_NODE=1",
    ]  # fmt: skip
