"""The points of a sweep: the grid's axes, the command line's, and their precedence."""

from __future__ import annotations

from itertools import product

import pytest

from tests.launcher import Launcher


def grid(**axes: str) -> list[dict[str, str]]:
    """The choices of a grid's points; `__` stands for a dot, the last axis varies fastest."""
    keys = [name.replace("__", ".") for name in axes]
    values = product(*(text.split(",") for text in axes.values()))
    return [dict(zip(keys, row, strict=True)) for row in values]


PROJECTIONS = grid(shape__projection="fused,split")
SMOKE = grid(recipe="bf16,mxfp8", shape__projection="fused,split")
LENGTHS = grid(shape__seq_len="128,256")


@pytest.mark.parametrize(
    ("words", "choices"),
    [
        ("sweep", SMOKE),
        ("--multirun", SMOKE),
        ("sweep grid=none", [{}]),
        # Axes without a grid replace the default one.
        *((f"{way} shape.seq_len=128,256", LENGTHS) for way in ("sweep", "--multirun", "run -m")),
        # A fixed value leaves it.
        ("sweep shape.seq_len=256", SMOKE),
        # The command line replaces an axis of a named grid, or adds one that varies fastest.
        ("sweep grid=smoke recipe=mxfp8", PROJECTIONS),
        ("--multirun grid=smoke recipe=mxfp8", PROJECTIONS),
        ("sweep grid=smoke recipe=mxfp8 shape.seq_len=128,256",
         grid(shape__projection="fused,split", shape__seq_len="128,256")),
        ("sweep recipe=mxfp8 recipe.fp8_dpa=true,false", grid(recipe__fp8_dpa="true,false")),
    ],
)  # fmt: skip
def test_choices_of_a_sweep(launcher: Launcher, words: str, choices: list[dict[str, str]]) -> None:
    launcher.output(*words.split(), launcher.python())
    assert [point.choices for point in launcher.ledger().plan()] == choices
    assert launcher.ledger().info().verb == "sweep"


@pytest.mark.parametrize(
    ("words", "group", "key", "values"),
    [
        ("grid=smoke recipe=mxfp8", "recipe", "name", ["mxfp8"] * 2),
        ("shape.seq_len=256", "shape", "seq_len", [256] * 4),
        ("shape.seq_len=range(128,512,128) recipe.fp8_dpa=true", "shape", "seq_len",
         [128, 256, 384]),
    ],
)  # fmt: skip
def test_the_values_of_a_sweep_s_points(
    launcher: Launcher, words: str, group: str, key: str, values: list[object]
) -> None:
    launcher.output("sweep", *words.split(), launcher.python())
    assert [point.config[group][key] for point in launcher.ledger().plan()] == values


@pytest.mark.parametrize("verb", ["plan", "sweep"])
@pytest.mark.parametrize(
    ("words", "added"),
    [
        (["shape.seq_len=256"], "recipe=bf16,mxfp8 shape.projection=fused,split"),
        (["recipe=mxfp8"], "shape.projection=fused,split"),
        ([], None),
        (["launch.retries=1"], None),
        (["shape.seq_len=256,384"], None),
        (["shape.seq_len=256", "grid=smoke"], None),
        (["shape.seq_len=256", "grid=none"], None),
    ],
)
def test_the_axes_that_the_default_grid_adds_to_a_named_point_are_printed_first(
    launcher: Launcher, verb: str, words: list[str], added: str | None
) -> None:
    first = launcher.output(verb, *words, launcher.python()).splitlines()[0]
    assert ("grid=none" in first) == (added is not None)
    assert added is None or f" {added};" in first


def test_a_plan_with_nothing_to_run_names_no_sweep(launcher: Launcher) -> None:
    text = launcher.output("plan", "grid=none", "shape.seq_len=100")
    assert "UNSUPPORTED: " in text
    assert "python launch.py sweep" not in text


def test_dlcluster_alone_chooses_gpu_shape_and_backend_of_every_point(launcher: Launcher) -> None:
    result = launcher("plan", "cluster=dlcluster", "recipe=bf16,mxfp8")
    assert result.code == 0, result.err
    assert "UNSUPPORTED" not in result.out
    assert not launcher.runs_dir.exists()


def test_plan_reports_unsupported_points_and_starts_nothing(launcher: Launcher) -> None:
    lines = launcher.output("plan", "gpu=h100,b200", "shape=dsv3").rstrip().splitlines()
    (row,) = (line for line in lines if "UNSUPPORTED: " in line)
    assert "gpu=h100" in row
    assert "python launch.py sweep gpu=h100,b200 shape=dsv3" in lines[-1]
    assert not launcher.runs_dir.exists()
