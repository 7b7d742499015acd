"""The calibration command reads shapes, stores predictions and refuses wrong input."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from conf.choices import Projection
from conf.plain import from_plain
from conf.schema import Fp8DelayedRecipe, MxFp8Recipe, Shape
from mxfp8_attention.accuracy.store import load_prediction, load_predictions
from tools.calibrate import (
    SHAPES,
    main,
    read_shape,
    recipes_for,
    shipped_shapes,
    variants,
    with_overrides,
)


@pytest.mark.parametrize("path", sorted(SHAPES.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_shapes_file_is_read_as_a_yaml_library_reads_it(path: Path) -> None:
    assert read_shape(path) == from_plain(Shape, OmegaConf.to_container(OmegaConf.load(path)))


def test_a_file_that_is_no_plain_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\ndefaults:\n  - other\n")
    with pytest.raises(ValueError, match=r"mine\.yaml.*'defaults:'"):
        read_shape(path)


def test_both_projections_and_both_initialisations_are_computed() -> None:
    result = [(v.projection, v.init_std) for v in variants(shipped_shapes()["dsv3"])]
    assert result == [(p, std) for p in Projection for std in (0.023, 1 / 128)]


def test_what_is_set_is_not_varied() -> None:
    shape = replace(shipped_shapes()["tiny"], projection=Projection.split, init_std=0.5)
    assert list(variants(shape, {"projection", "init_std"})) == [shape]
    assert {v.init_std for v in variants(shape, {"projection"})} == {0.023, 0.0625}
    assert {v.projection for v in variants(shape, {"projection"})} == {Projection.split}


def test_fp8_attention_is_calibrated_only_where_hopper_takes_it() -> None:
    shapes = shipped_shapes()
    on_fp8 = Fp8DelayedRecipe(fp8_dpa=True)
    assert on_fp8 in recipes_for(shapes["hopper_fp8"])
    assert on_fp8 not in recipes_for(shapes["dsv3"])
    assert recipes_for(shapes["dsv3"], ["fp8_delayed"]) == recipes_for(
        shapes["dsv3"], ["fp8_current"]
    )
    assert recipes_for(shapes["dsv3"], ["mxfp8"]) == [MxFp8Recipe(), MxFp8Recipe(fp8_dpa=False)]


def test_keys_of_a_shape_can_be_replaced_and_wrong_ones_are_refused() -> None:
    shape = with_overrides(
        shipped_shapes()["tiny"], ["seq_len=256", "shape.attn_mask=none", "bias=false"]
    )
    assert (shape.seq_len, shape.attn_mask.name, shape.bias) == (256, "none", False)
    with pytest.raises(ValueError, match=r"seqlen=1.*name, batch"):
        with_overrides(shape, ["seqlen=1"])
    with pytest.raises(ValueError, match="seq_len must be of type int, got 'long'"):
        with_overrides(shape, ["seq_len=long"])


def test_the_command_stores_what_it_computed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "predictions.json"
    words = ["--shape", "tiny", "--set", "projection=fused", "init_std=0.05", "--seeds", "2"]
    assert main([*words, "--recipe", "mxfp8", "--output", str(store)]) == 0
    shape = with_overrides(shipped_shapes()["tiny"], ["init_std=0.05"])
    result = load_prediction(shape, MxFp8Recipe(), store)
    assert result is not None
    assert result.seeds == [43, 44]
    assert len(list(load_predictions(store))) == 2
    lines = capsys.readouterr().out.splitlines()
    assert "tiny fused init_std=0.05" in lines[0]
    assert "seed 43: 2 recipes" in lines[1]
    assert lines[-1].endswith(str(store))


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "pass --all, or --shape with one of dsv2_lite, dsv3, "),
        (["--shape", "dsv4"], "unknown shape dsv4; shapes: dsv2_lite, dsv3, "),
        (["--all", "--seeds", "0"], "--seeds must be at least 1, got 0"),
        (["--shape", "tiny", "--set", "heads=3"], "--set heads=3: not key=value "),
        (["--shape", "tiny", "--set", "hidden=-1"], "shape.hidden must be at least 1, got -1"),
        (["--shape", "tiny", "--set", "init_std=nan"], "shape.init_std must be a finite number"),
        (["--shape", "tiny", "--set", "init_std=0"], "shape.init_std must be greater than 0"),
        (["--shape", "tiny", "--set", "qkv_format=thd"], "shape.qkv_format must be sbhd, got thd"),
        (
            ["--shape", "tiny", "--set", "rope_kernel=triton"],
            "shape.rope_kernel must be auto or eager without a CUDA GPU, got ",
        ),
        (
            ["--shape", "tiny", "--set", "seq_len=100"],
            "shape.seq_len must be a multiple of 128 for MXFP8 attention, got 100; --recipe",
        ),
        (["--shape", "tiny", "--device", "cuda"], "--device cuda: no CUDA GPU here"),
    ],
)
def test_a_wrong_command_is_one_line_and_exit_code_2(
    words: list[str],
    line: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith(line)
    assert error.count("\n") == 1
