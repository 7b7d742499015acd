"""The flat row of a point: every column, its type, and nothing invented."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from jobs.collect.points_table import COLUMNS, asked_hash, median, row
from jobs.record import Outcome, State
from jobs.status.point_result import PointResult
from tests.builders.records import point_config, record, untimed, with_notes


def point(outcome: Outcome = Outcome.PASSED) -> PointResult:
    config = point_config()
    left = record("p-1", config, outcome)
    return PointResult("p-1", "s-1", config, State(outcome), record=left, job_id="14_0")


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_row_holds_every_column_in_its_type(outcome: Outcome) -> None:
    values = row(point(outcome))
    assert list(values) == list(COLUMNS)
    for name, value in values.items():
        assert value is None or type(value) is COLUMNS[name], name


def test_a_row_carries_what_the_record_says() -> None:
    values = row(point())
    assert values["gpu_name"] == "NVIDIA GB300"
    assert values["seq_len"] == 4096
    assert values["fprop_speedup_claim"] == "speedup"
    assert values["sm_clock_mhz_during"] == 1920.0
    assert values["attention_backend_recipe"] == "fused FP8"


def test_the_bf16_arms_own_error_stands_beside_the_recipes() -> None:
    made = point()
    assert made.record is not None
    assert made.record.validation is not None
    errors = {
        (error.arm, error.tensor): error.rel_l2
        for error in made.record.validation.tensors
        if error.reference == "fp32"
    }
    values = row(made)
    assert errors["recipe", "out"] != errors["bf16", "out"]
    assert values["out_rel_l2"] == errors["recipe", "out"]
    assert values["bf16_out_rel_l2"] == errors["bf16", "out"]
    assert values["bf16_dx_rel_l2"] == errors.get(("bf16", "dx"))


def test_a_point_without_a_record_has_no_figures() -> None:
    values = row(PointResult("p-1", "s-1", point_config(), State.PENDING))
    assert values["recipe"] == "mxfp8"
    assert all(value is None for name, value in values.items() if name.endswith("_ms"))
    assert values["emulated"] is None


def test_a_hostile_config_costs_its_own_cells_only() -> None:
    config = point_config() | {
        "shape": {"seq_len": "many", "batch": 2**70, "name": ["x"]},
        "gpu": 3,
    }
    values = row(PointResult("p-1", "s-1", config, State.PENDING))
    assert (values["seq_len"], values["batch"], values["gpu"]) == (None, None, None)
    assert values["shape"] == '["x"]'
    assert values["recipe"] == "mxfp8"


def test_what_was_asked_is_hashed_whatever_the_order_of_its_keys() -> None:
    config = point_config()
    assert asked_hash(config) == asked_hash(dict(reversed(config.items())))
    assert asked_hash(config) != asked_hash(point_config(shape__seq_len=1))
    assert asked_hash({}) is None


def test_a_median_ignores_what_is_no_number() -> None:
    assert median([3.0, None, math.nan, 1.0]) == 2.0
    assert median([None]) is None


def test_importing_the_table_imports_neither_torch_nor_arrow() -> None:
    import subprocess
    import sys

    code = (
        "import sys, jobs.collect.gather, jobs.collect.table_files;"
        "print([m for m in ('torch', 'pyarrow', 'matplotlib', 'jinja2') if m in sys.modules])"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True
    )
    assert done.stdout.strip() == "[]"


def test_no_ratio_of_emulated_arms_stands_where_it_could_be_taken_for_a_speedup() -> None:
    config = point_config(gpu="cpu")
    left = record("p-1", config)
    values = row(PointResult("p-1", "s-1", config, State.PASSED, record=left))
    assert values["fprop_speedup_claim"] == "emulated"
    assert values["fprop_speedup"] is None
    assert values["emulated"] is True


@pytest.mark.parametrize(("gpu", "emulated"), [("cpu", True), ("gb300", False)])
def test_an_untimed_point_shows_if_it_was_emulated(gpu: str, emulated: bool) -> None:
    config = point_config(gpu=gpu)
    left = untimed(record("p-1", config))
    values = row(PointResult("p-1", "s-1", config, State.PASSED, record=left))
    assert values["emulated"] is emulated
    assert values["fprop_speedup_claim"] is None


def test_notes_of_a_benchmark_have_a_column() -> None:
    words = ("times not stable after 40 warm-up iterations", "stopped")
    left = with_notes(record("p-1", point_config()), *words)
    noted = PointResult("p-1", "s-1", point_config(), State.PASSED, record=left)
    notes = "times not stable after 40 warm-up iterations; stopped"
    assert row(noted)["benchmark_notes"] == notes
    assert row(point())["benchmark_notes"] is None
