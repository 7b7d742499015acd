"""The flat row of a point: every column, its type, and nothing invented."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.collect.points_table import COLUMNS, Value, asked_hash, median, row
from jobs.record import Outcome, Record, State
from jobs.status.point_result import PointResult
from tests.builders.records import point_config, record, untimed, with_notes
from tests.builders.runs import collected

ROOT = Path(__file__).parents[3]


def point(outcome: Outcome = Outcome.PASSED) -> PointResult:
    return collected(record("p-1", point_config(), outcome), job_id="14_0")


def row_of(left: Record) -> dict[str, Value]:
    return row(collected(left))


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_row_holds_every_column_in_its_type(outcome: Outcome) -> None:
    values = row(point(outcome))
    assert list(values) == list(COLUMNS)
    for name, value in values.items():
        assert value is None or type(value) is COLUMNS[name], name


def test_a_row_carries_what_the_record_says() -> None:
    expected = {
        "gpu_name": "NVIDIA GB300",
        "seq_len": 4096,
        "fprop_speedup_claim": "speedup",
        "sm_clock_mhz_during": 1920.0,
        "attention_backend_recipe": "fused FP8",
    }
    assert expected.items() <= row(point()).items()


def test_the_bf16_arms_own_error_stands_beside_the_recipes() -> None:
    left = record("p-1", point_config())
    assert left.validation is not None
    tensors = [error for error in left.validation.tensors if error.reference == "fp32"]
    errors = {(error.arm, error.tensor): error.rel_l2 for error in tensors}
    assert errors["recipe", "out"] != errors["bf16", "out"]
    values = row_of(left)
    assert values["out_rel_l2"] == errors["recipe", "out"]
    assert values["bf16_out_rel_l2"] == errors["bf16", "out"]
    assert values["bf16_dx_rel_l2"] == errors.get(("bf16", "dx"))


def test_a_point_without_a_record_has_no_figures() -> None:
    values = row(PointResult("p-1", "s-1", point_config(), State.PENDING))
    assert values["recipe"] == "mxfp8"
    assert all(value is None for name, value in values.items() if name.endswith("_ms"))
    assert values["emulated"] is None


def test_a_hostile_config_costs_its_own_cells_only() -> None:
    shape = {"seq_len": "many", "batch": 2**70, "name": ["x"]}
    config = point_config() | {"shape": shape, "gpu": 3}
    values = row(PointResult("p-1", "s-1", config, State.PENDING))
    assert (values["seq_len"], values["batch"], values["gpu"]) == (None, None, None)
    assert (values["shape"], values["recipe"]) == ('["x"]', "mxfp8")


def test_what_was_asked_is_hashed_whatever_the_order_of_its_keys() -> None:
    config = point_config()
    assert asked_hash(config) == asked_hash(dict(reversed(config.items())))
    assert asked_hash(config) != asked_hash(point_config(shape__seq_len=1))
    assert asked_hash({}) is None


def test_a_median_ignores_what_is_no_number() -> None:
    assert median([3.0, None, math.nan, 1.0]) == 2.0
    assert median([None]) is None


def test_importing_the_table_imports_neither_torch_nor_arrow() -> None:
    code = (
        "import sys, jobs.collect.gather, jobs.collect.table_files;"
        "print([m for m in ('torch', 'pyarrow', 'matplotlib', 'jinja2') if m in sys.modules])"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def test_no_ratio_of_emulated_arms_stands_where_it_could_be_taken_for_a_speedup() -> None:
    values = row_of(record("p-1", point_config(gpu="cpu")))
    assert (values["fprop_speedup_claim"], values["fprop_speedup"]) == ("emulated", None)
    assert values["emulated"] is True


@pytest.mark.parametrize(("gpu", "emulated"), [("cpu", True), ("gb300", False)])
def test_an_untimed_point_shows_if_it_was_emulated(gpu: str, emulated: bool) -> None:
    values = row_of(untimed(record("p-1", point_config(gpu=gpu))))
    assert values["emulated"] is emulated
    assert values["fprop_speedup_claim"] is None


def test_notes_of_a_benchmark_have_a_column() -> None:
    left = with_notes(record("p-1", point_config()), "not stable", "stopped")
    assert row_of(left)["benchmark_notes"] == "not stable; stopped"
    assert row(point())["benchmark_notes"] is None
