"""The page and its plots are made from records alone, whatever those say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conf.choices import Backend
from conf.plain import from_plain, to_plain
from conf.schema import Bf16Recipe, Fp8CurrentRecipe, MxFp8Recipe, Point, Recipe
from jobs.record import (
    ArmBenchmark,
    BenchmarkResult,
    Capability,
    Check,
    Environment,
    Identity,
    Outcome,
    Probe,
    Record,
    Speedup,
    StageTiming,
    TensorError,
    Timing,
    Validation,
)
from tests.jobs.node.points import H200, point
from tests.shapes import DSV3
from tools.gpu.page import RESULTS, page
from tools.gpu.plots import draw_all
from tools.gpu.points import WANTED, compose
from tools.gpu.records import read_records
from tools.gpu.results import POINTS, environment_of
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


def timing(ms: float) -> Timing:
    return Timing(
        samples_ms=[ms],
        median_ms=ms,
        mean_ms=ms,
        low_ms=ms,
        high_ms=ms,
        tokens_per_s=4096e3 / ms,
        tflops=600.0,
        share_of_peak=0.6,
        share_of_roofline=0.5,
    )


def benchmark(claim: str, emulated: bool) -> BenchmarkResult:
    arms = [
        ArmBenchmark(
            arm=arm,
            precision=arm,
            emulated=emulated,
            fprop=timing(ms),
            bprop=timing(2 * ms),
            first_iteration_ms=900.0,
            peak_memory_gib=12.5,
        )
        for arm, ms in (("recipe", 11.9), ("bf16", 16.6))
    ]
    ratio = Speedup(ratio=1.395, low=1.39, high=1.4, claim=claim)
    return BenchmarkResult(
        method="default",
        statistic="median",
        confidence=0.95,
        arms=arms,
        fprop_speedup=ratio,
        bprop_speedup=ratio,
        stages=[
            StageTiming(arm=arm, stage=stage, direction=direction, median_ms=1.5)
            for arm in ("recipe", "bf16")
            for direction in ("fprop", "bprop")
            for stage in ("qkv", "rope", "attention", "out")
        ],
    )


def validation() -> Validation:
    return Validation(
        tolerance="calibrated",
        passed=True,
        tensors=[
            TensorError(
                tensor=tensor,
                reference="fp32",
                arm=arm,
                rel_l2=error,
                max_abs=1.0,
                rmse=0.1,
                cosine=1.0,
                nonfinite_count=0,
            )
            for tensor in ("q", "k", "out", "dx")
            for arm, error in (("recipe", 0.038), ("bf16", 0.0017))
        ],
    )


def entry(name: str, made: Point, **changed: Any) -> dict[str, Any]:  # noqa: ANN401 - Record's
    record = Record(
        identity=Identity(point_id="p-1"),
        config=to_plain(made),
        environment=Environment(
            gpu_name="NVIDIA H200",
            gpu_memory_gib=139.8,
            driver="580.159",
            torch="2.11.0",
            cuda="13.0",
            triton="3.6.0",
            transformer_engine="2.20.2",
            cudnn_torch="9.19.0",
            cudnn_transformer_engine="9.19.0",
            commit="c0ffee",
        ),
        capability=Capability(checks=[Check(name="cuDNN", ok=True, reason="both 9.19.0")]),
        outcome=Outcome.PASSED,
    ).model_copy(update=changed)
    return {"name": name, "record": json.loads(record.model_dump_json())}


@pytest.fixture
def records(tmp_path: Path) -> Path:
    def made(recipe: Recipe, backend: Backend = Backend.te, seq_len: int = 4096) -> Point:
        shape = replace(DSV3, seq_len=seq_len)
        return point(gpu=H200, shape=shape, recipe=recipe, backend=backend)

    def done(claim: str, emulated: bool = False) -> dict[str, Any]:
        return {"benchmark": benchmark(claim, emulated), "validation": validation()}

    entries = [
        entry("dsv3 bf16", made(Bf16Recipe()), **done("noise")),
        entry("dsv3 fp8_current", made(Fp8CurrentRecipe()), **done("speedup")),
        entry(
            "dsv3 mxfp8",
            made(MxFp8Recipe()),
            outcome=Outcome.UNSUPPORTED,
            reason="Device compute capability 10.0 or higher required for MXFP8 execution.",
        ),
        entry(
            "probe",
            made(Bf16Recipe()),
            probe=Probe(copy_gb_per_s=4250, bf16_matmul_tflops=790, power_limit_watt=700),
        ),
        entry("dsv3 bf16, eager RoPE", made(Bf16Recipe()), **done("noise")),
        entry(
            "dsv3 mxfp8, emulated",
            made(MxFp8Recipe(), Backend.emulated),
            **done("emulated", emulated=True),
        ),
        *(
            entry(
                f"dsv3 s={seq_len} fp8_current",
                made(Fp8CurrentRecipe(), seq_len=seq_len),
                **done("speedup"),
            )
            for seq_len in (1024, 8192)
        ),
    ]
    path = tmp_path / "h200.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in entries))
    return path


def test_every_point_is_on_the_page_with_its_own_words(records: Path) -> None:
    text = page(read_records(records), None)
    assert "required for MXFP8 execution." in text
    assert "1.395 [1.390, 1.400] (noise)" in text
    assert "3.80e-02 / 1.7e-03" in text, "BF16's own error stands beside the recipe's"
    assert "copy 4250 GB/s" in text
    assert "not yet run on such a GPU" in text


def test_no_speedup_is_claimed_from_an_emulated_arm(records: Path) -> None:
    text = page(read_records(records), None)
    (line,) = [
        line
        for line in text.splitlines()
        if line.startswith("| dsv3 mxfp8, emulated |") and "hardware" in line
    ]
    assert "checks this code, not hardware" in line
    assert "| 3.80e-02 / 1.7e-03 |" in line, "BF16's own error stands beside the recipe's"
    assert "| 12.5 |" in line, "the memory of the emulation at this shape is told"
    assert "dsv3 mxfp8, emulated" not in text[text.index("## Models") :].split("## Two")[0]


def test_the_harness_is_shown_with_its_difference(records: Path) -> None:
    one = {"bare_ms": 16.6, "harness_ms": 16.7, "harness_flushed_ms": 16.8, "difference": 0.006}
    measured = {
        "configuration": [["Linear", 1, 2]],
        "transformer_engine_test": [["Linear", 1, 2]],
        "samples": 100,
        "fprop": one,
        "bprop": one,
    }
    assert "+0.60%" in page(read_records(records), measured)


def test_the_last_record_of_a_point_counts(records: Path) -> None:
    again = json.loads(records.read_text().splitlines()[0])
    again["record"]["outcome"] = "FAILED"
    with records.open("a") as handle:
        handle.write(json.dumps(again) + "\n")
    assert read_records(records)["dsv3 bf16"].record.outcome is Outcome.FAILED


def test_what_a_library_says_of_cudnn_ends_once_and_is_told_once(records: Path) -> None:
    one = json.loads(records.read_text().splitlines()[0])
    one |= {"name": "dsv2_lite bf16, cuDNN as found"}
    check = {"name": "cuDNN", "ok": False, "reason": "two of them.", "remedy": "take one"}
    one["record"]["capability"]["checks"] = [check]
    one["record"] |= {"outcome": "ERROR", "reason": "cuDNN: two of them.; take one"}
    with records.open("a") as handle:
        handle.write(json.dumps(one) + "\n")
    text = page(read_records(records), None)
    told = "two of them. Remedy: take one. | ERROR: cuDNN, as said beside |"
    assert f"| dsv2_lite bf16, cuDNN as found | {told}" in text


def test_a_bar_in_a_reason_does_not_break_the_table() -> None:
    assert table(("a",), [("x | y",)]).splitlines()[-1] == "| x / y |"


def test_the_committed_points_are_what_the_configuration_composes_today() -> None:
    entries = json.loads(POINTS.read_text())
    assert [entry["name"] for entry in entries] == [wanted.name for wanted in WANTED]
    for entry, wanted in zip(entries, WANTED, strict=True):
        assert to_plain(from_plain(Point, entry["point"])) == entry["point"]
        assert entry["command"].endswith(" ".join(wanted.overrides))
    # One of them all the way through Hydra; all of them would take half a minute.
    assert compose(WANTED[0])["point"] == entries[0]["point"]


def test_leaving_cudnn_as_found_takes_back_what_was_set() -> None:
    home = "/site/nvidia/cudnn"
    variables = {"CUDNN_HOME": home, "LD_LIBRARY_PATH": f"{home}/lib:/usr/local/cuda/lib64"}
    found = environment_of("as_found", variables)
    assert "CUDNN_HOME" not in found
    assert found["LD_LIBRARY_PATH"] == "/usr/local/cuda/lib64"
    kept = environment_of("bundled", variables)
    assert kept["LD_LIBRARY_PATH"] == variables["LD_LIBRARY_PATH"]


def test_the_same_records_give_the_same_plots(records: Path, tmp_path: Path) -> None:
    drawn = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        draw_all(read_records(records), folder)
        drawn.append({path.name: path.read_bytes() for path in sorted(folder.iterdir())})
    assert drawn[0] == drawn[1]
    assert set(drawn[0]) == {"h200_speedup.svg", "h200_seq_len.svg", "h200_stages.svg"}


def test_what_differs_between_records_is_counted(records: Path) -> None:
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    lines[0]["record"]["environment"]["commit"] = "beef"
    lines[1]["record"]["probe"] = {"bf16_matmul_tflops": 803.2, "copy_gb_per_s": 4285.0}
    lines[3]["record"]["config"]["job"] = "probe"
    lines[4]["record"]["probe"] = {"bf16_matmul_tflops": 761.0, "copy_gb_per_s": 4285.3}
    records.write_text("".join(json.dumps(line) + "\n" for line in lines))
    text = page(read_records(records), None)
    assert "| Source | beef (1 record); c0ffee (7 records) |" in text
    told = "copy 4285 GB/s, BF16 matrix product 761 to 803 TFLOP/s (2 records)"
    assert f"| Fingerprint of others | {told} |" in text


def test_rope_is_told_apart_from_its_kernels(records: Path) -> None:
    triton = json.loads(records.read_text().splitlines()[4]) | {"name": "dsv3 bf16, triton RoPE"}
    with records.open("a") as handle:
        handle.write(json.dumps(triton) + "\n")
    text = page(read_records(records), None, KERNELS)
    assert "has 0.393 ms for RoPE forward and backward" in text
    assert "took 3.000 ms" in text
    assert "at short lengths" not in text, "both lengths have the same time here"


def test_the_kernels_are_shown_with_their_floor_and_what_is_left(records: Path) -> None:
    text = page(read_records(records), None, KERNELS)
    assert "| q_fprop | 0.3930 | 1500 | 0.920 |" in text
    assert "| fused, q out of place | 0.393 | 1500 | 0.361 | 0.032 | 0.920 |" in text
    assert "| s=512 b=4 h=16 | 0.770 | k_bprop | 0.990 | q_fprop |" in text
    assert "0.54 s with a warm compile cache" in text


def test_a_split_projection_shows_the_errors_of_both_weights(records: Path) -> None:
    one = json.loads(records.read_text().splitlines()[0]) | {"name": "dsv3 split bf16"}
    one["record"]["config"]["shape"]["projection"] = "split"
    errors = one["record"]["validation"]["tensors"]
    for name in ("dq_weight", "dkv_weight"):
        errors += [error | {"tensor": name} for error in errors if error["tensor"] == "dx"]
    records.write_text(json.dumps(one) + "\n")
    text = page(read_records(records), None)
    told = "dq_weight 3.80e-02 / 1.7e-03, dkv_weight 3.80e-02 / 1.7e-03"
    assert f"| {told} |" in text


def test_the_committed_page_is_what_its_command_makes() -> None:
    names = ("harness", "rope", "checks")
    beside = [json.loads((RESULTS / f"h200_{name}.json").read_text()) for name in names]
    made = page(read_records(RESULTS / "h200.jsonl"), *beside)
    assert made == (RESULTS / "h200.md").read_text()
