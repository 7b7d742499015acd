"""The page and its plots are made from records alone, whatever those contain."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conf.choices import Backend
from conf.plain import from_plain, to_plain
from conf.schema import Bf16Recipe, Fp8CurrentRecipe, MxFp8Recipe, Point, Recipe
from jobs.perf import EMULATED_NOTE
from jobs.record import (
    Capability,
    Check,
    Environment,
    Identity,
    Outcome,
    Probe,
    Record,
    TensorError,
    Validation,
)
from tests.builders.benchmarks import benchmark
from tests.jobs.node.points import H200, point
from tests.shapes import DSV3
from tools.gpu.page import RESULTS, page
from tools.gpu.plots import draw_all
from tools.gpu.points import POINTS, compose
from tools.gpu.records import read_records
from tools.gpu.results import POINTS as POINTS_FILE
from tools.gpu.results import environment_of
from tools.gpu.tables import table

_ROW = {"ms": 0.393, "floor_bytes": 1.5e9, "share": 0.92}
_OF_COPIES = {"q_fprop": {"share_of_equal_copy": 0.99}, "k_bprop": {"share_of_equal_copy": 0.77}}
KERNELS = {
    "copy": {"long": 4.28},
    "first_call": {"empty_cache_s": 2.4, "warm_cache_s": 0.54},
    "kernels": {"q_fprop": _ROW},
    "totals": {"fused, q out of place": _ROW | {"floor_ms": 0.361, "left_ms": 0.032}},
    "other_shapes": {"s=512 b=4 h=16": _OF_COPIES},
}
Edit = Callable[[list[dict[str, Any]]], None]


def validation() -> Validation:
    figures = {"max_abs": 1.0, "rmse": 0.1, "cosine": 1.0, "nonfinite_count": 0}
    return Validation(
        tolerance="calibrated",
        passed=True,
        tensors=[
            TensorError.model_validate(
                {"tensor": tensor, "reference": "fp32", "arm": arm, "rel_l2": error, **figures}
            )
            for tensor in ("q", "k", "out", "dx")
            for arm, error in (("recipe", 0.038), ("bf16", 0.0017))
        ],
    )


def line(
    name: str,
    recipe: Recipe,
    claim: str | None = None,
    *,
    seq_len: int = 4096,
    **fields: Any,  # noqa: ANN401 - Record's fields
) -> dict[str, Any]:
    """One line of `records.jsonl`, timed if the ratio of its arms claims something."""
    backend = Backend.emulated if claim == "emulated" else Backend.te
    shape = replace(DSV3, seq_len=seq_len)
    if claim:
        fields |= {"benchmark": benchmark(claim), "validation": validation()}
    record = Record(
        identity=Identity(point_id="p-1"),
        config=to_plain(point(gpu=H200, shape=shape, recipe=recipe, backend=backend)),
        environment=Environment(
            gpu_name="NVIDIA H200",
            gpu_memory_gib=139.8,
            cudnn_torch="9.19.0",
            cudnn_transformer_engine="9.19.0",
            commit="c0ffee",
        ),
        capability=Capability(checks=[Check(name="cuDNN", ok=True, reason="both 9.19.0")]),
        outcome=Outcome.PASSED,
    ).model_copy(update=fields)
    return {"name": name, "record": json.loads(record.model_dump_json())}


@pytest.fixture
def records(tmp_path: Path) -> Path:
    lines = [
        line("dsv3 bf16", Bf16Recipe(), "noise"),
        line("dsv3 fp8_current", Fp8CurrentRecipe(), "speedup"),
        line("dsv3 mxfp8", MxFp8Recipe(), outcome=Outcome.UNSUPPORTED, reason="needs Blackwell"),
        line(
            "probe",
            Bf16Recipe(),
            probe=Probe(copy_gb_per_s=4250, bf16_matmul_tflops=790, power_limit_watt=700),
        ),
        line("dsv3 bf16, eager RoPE", Bf16Recipe(), "noise"),
        line("dsv3 mxfp8, emulated", MxFp8Recipe(), "emulated"),
        *(
            line(f"dsv3 s={length} fp8_current", Fp8CurrentRecipe(), "speedup", seq_len=length)
            for length in (1024, 8192)
        ),
    ]
    path = tmp_path / "h200.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path


@pytest.fixture
def page_of(records: Path) -> Callable[..., str]:
    """Return the page of the records after an edit of their lines."""

    def make(edit: Edit = lambda lines: None, **parts: Any) -> str:  # noqa: ANN401 - page's
        lines = [json.loads(text) for text in records.read_text().splitlines()]
        edit(lines)
        records.write_text("".join(json.dumps(one) + "\n" for one in lines))
        return page(read_records(records), parts.get("harness"), parts.get("kernels"))

    return make


def cells(text: str, start: str, header: str = "") -> list[str]:
    """Return the cells of a row, the first one after a header."""
    text = text[text.index(header) :]
    row = next(row for row in text.splitlines() if row.startswith(f"| {start} |"))
    return [cell.strip() for cell in row.strip("| ").split(" | ")]


def test_every_point_is_on_the_page(page_of: Callable[..., str]) -> None:
    text = page_of()
    recipes = "## Recipes"
    assert cells(text, "dsv3 mxfp8", recipes)[1] == "UNSUPPORTED"
    assert cells(text, "dsv3 mxfp8", recipes)[-1] == "needs Blackwell"
    assert cells(text, "dsv3 bf16", recipes)[3] == "1.530 [1.520, 1.540] (noise)"
    assert cells(text, "dsv3 bf16", "## Errors")[2] == "3.80e-02 / 1.7e-03"
    assert "copy 4250 GB/s" in text
    assert "not yet run on such a GPU" in text


def test_no_speedup_is_claimed_from_an_emulated_arm(page_of: Callable[..., str]) -> None:
    text = page_of()
    row = cells(text, "dsv3 mxfp8, emulated", "## RoPE eager")
    assert row[-2:] == ["12.5", EMULATED_NOTE]
    assert row[1] == "3.80e-02 / 1.7e-03"
    assert "dsv3 mxfp8, emulated" not in text[text.index("## Models") :].split("## Two")[0]


def test_the_harness_is_shown_with_its_difference(page_of: Callable[..., str]) -> None:
    one = {"bare_ms": 16.6, "harness_ms": 16.7, "harness_flushed_ms": 16.8, "difference": 0.006}
    modules = [["Linear", 1, 2]]
    harness = {"configuration": modules, "transformer_engine_test": modules, "samples": 100}
    text = page_of(harness=harness | {"fprop": one, "bprop": one})
    assert cells(text, "fprop") == ["fprop", "16.600", "16.700", "+0.60%", "16.800"]


def test_the_last_record_of_a_point_counts(records: Path) -> None:
    again = json.loads(records.read_text().splitlines()[0])
    again["record"]["outcome"] = "FAILED"
    with records.open("a") as handle:
        handle.write(json.dumps(again) + "\n")
    assert read_records(records)["dsv3 bf16"].record.outcome is Outcome.FAILED


def test_an_error_of_cudnn_is_quoted_once(page_of: Callable[..., str]) -> None:
    name = "dsv2_lite bf16, cuDNN as found"

    def conflict(lines: list[dict[str, Any]]) -> None:
        lines[0] |= {"name": name}
        check = {"name": "cuDNN", "ok": False, "reason": "two of them.", "remedy": "take one"}
        lines[0]["record"]["capability"]["checks"] = [check]
        lines[0]["record"] |= {"outcome": "ERROR", "reason": "cuDNN: two of them.; take one"}

    _, answer, outcome = cells(page_of(conflict), name, "## Two")
    assert answer == "two of them. Remedy: take one."
    assert outcome.startswith("ERROR")
    assert "two of them" not in outcome


def test_a_bar_in_a_cell_does_not_break_the_table() -> None:
    assert table(("a",), [("x | y",)]).splitlines()[-1] == "| x / y |"


def test_the_committed_points_are_those_that_the_configuration_composes() -> None:
    entries = json.loads(POINTS_FILE.read_text())
    assert [entry["name"] for entry in entries] == [one.name for one in POINTS]
    for entry, one in zip(entries, POINTS, strict=True):
        assert to_plain(from_plain(Point, entry["point"])) == entry["point"]
        assert entry["command"].endswith(one.overrides)
    # One of them all the way through Hydra; all of them would take half a minute.
    assert compose(POINTS[0]) == entries[0]


def test_cudnn_as_found_reverts_the_environment() -> None:
    home = "/site/nvidia/cudnn"
    variables = {"CUDNN_HOME": home, "LD_LIBRARY_PATH": f"{home}/lib:/usr/local/cuda/lib64"}
    reverted = environment_of("as_found", variables)
    assert "CUDNN_HOME" not in reverted
    assert reverted["LD_LIBRARY_PATH"] == "/usr/local/cuda/lib64"
    kept = environment_of("bundled", variables)
    assert kept["LD_LIBRARY_PATH"] == variables["LD_LIBRARY_PATH"]


def test_the_same_records_give_the_same_plots(records: Path, tmp_path: Path) -> None:
    plots = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        draw_all(read_records(records), folder)
        plots.append({path.name: path.read_bytes() for path in sorted(folder.iterdir())})
    assert plots[0] == plots[1]
    assert set(plots[0]) == {"h200_speedup.svg", "h200_seq_len.svg", "h200_stages.svg"}


def test_facts_that_differ_between_records_have_counts(page_of: Callable[..., str]) -> None:
    def change(lines: list[dict[str, Any]]) -> None:
        lines[0]["record"]["environment"]["commit"] = "beef"
        lines[1]["record"]["probe"] = {"bf16_matmul_tflops": 803.2, "copy_gb_per_s": 4285.0}
        lines[3]["record"]["config"]["job"] = "probe"
        lines[4]["record"]["probe"] = {"bf16_matmul_tflops": 761.0, "copy_gb_per_s": 4285.3}

    text = page_of(change)
    assert cells(text, "Source")[1] == "beef (1 record); c0ffee (7 records)"
    figures = "copy 4285 GB/s, BF16 matrix product 761 to 803 TFLOP/s (2 records)"
    assert cells(text, "Fingerprint of others")[1] == figures


def test_rope_as_a_stage_is_distinguished_from_its_kernels(page_of: Callable[..., str]) -> None:
    def add_triton(lines: list[dict[str, Any]]) -> None:
        lines.append(lines[4] | {"name": "dsv3 bf16, triton RoPE"})

    text = page_of(add_triton, kernels=KERNELS)
    assert "took 3.000 ms as a stage" in text
    assert "0.393 ms in `h200_rope.json`" in text
    assert "at short lengths" not in text, "both lengths have the same time here"


def test_the_kernels_are_shown_with_their_floors(page_of: Callable[..., str]) -> None:
    text = page_of(kernels=KERNELS)
    assert cells(text, "q_fprop")[1:] == ["0.3930", "1500", "0.920"]
    totals = ["0.393", "1500", "0.361", "0.032", "0.920"]
    assert cells(text, "fused, q out of place")[1:] == totals
    assert cells(text, "s=512 b=4 h=16")[1:] == ["0.770", "k_bprop", "0.990", "q_fprop"]
    assert "0.54 s with a warm" in text


def test_a_split_projection_has_errors_of_both_weights(page_of: Callable[..., str]) -> None:
    def split(lines: list[dict[str, Any]]) -> None:
        del lines[1:]
        lines[0]["record"]["config"]["shape"]["projection"] = "split"
        errors = lines[0]["record"]["validation"]["tensors"]
        for name in ("dq_weight", "dkv_weight"):
            errors += [error | {"tensor": name} for error in errors if error["tensor"] == "dx"]

    row = cells(page_of(split), "dsv3 bf16", "## Errors")
    assert row[8] == "dq_weight 3.80e-02 / 1.7e-03, dkv_weight 3.80e-02 / 1.7e-03"


def test_the_committed_page_is_current() -> None:
    names = ("harness", "rope", "checks")
    inputs = [json.loads((RESULTS / f"h200_{name}.json").read_text()) for name in names]
    text = page(read_records(RESULTS / "h200.jsonl"), *inputs)
    assert text == (RESULTS / "h200.md").read_text(), "run: python -m tools.gpu.page"
