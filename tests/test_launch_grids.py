"""The points of a sweep: the grid's axes, the command line's, and their precedence."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.fake_node import install
from tests.launcher import Launcher

SMOKE = [
    {"recipe": recipe, "shape.projection": projection}
    for recipe, projection in itertools.product(("bf16", "mxfp8"), ("fused", "split"))
]


@pytest.fixture
def swept(launcher: Launcher, tmp_path: Path) -> Swept:
    """Runs sweeps on a node that passes everything."""
    return Swept(launcher, install(tmp_path))


class Swept:
    """The choices of a sweep's points, read from its ledger."""

    def __init__(self, launcher: Launcher, python: Path) -> None:
        self.launcher = launcher
        self.python = python

    def __call__(self, *words: str) -> list[dict[str, str]]:
        result = self.launcher(*words, f"cluster.python={self.python}")
        assert (result.code, result.err) == (0, "")
        return [point.choices for point in self.launcher.ledger().plan()]


def test_bare_sweep_runs_the_smoke_grid(swept: Swept) -> None:
    assert swept("sweep") == SMOKE


def test_multirun_is_sweep(swept: Swept) -> None:
    assert swept("--multirun") == SMOKE
    assert swept.launcher.ledger().info().verb == "sweep"


@pytest.mark.parametrize("way", [["sweep"], ["--multirun"], ["run", "-m"]], ids=" ".join)
def test_axes_without_a_grid_drop_the_default_grid(swept: Swept, way: list[str]) -> None:
    assert swept(*way, "shape.seq_len=128,256") == [
        {"shape.seq_len": "128"},
        {"shape.seq_len": "256"},
    ]


@pytest.mark.parametrize("way", ["sweep", "--multirun"])
def test_the_command_line_replaces_a_named_grid_s_axis(swept: Swept, way: str) -> None:
    assert swept(way, "grid=smoke", "recipe=mxfp8") == [
        {"shape.projection": "fused"},
        {"shape.projection": "split"},
    ]
    recipes = [point.config["recipe"]["name"] for point in swept.launcher.ledger().plan()]
    assert recipes == ["mxfp8", "mxfp8"]


def test_the_command_line_s_axis_joins_a_named_grid_s_and_varies_fastest(swept: Swept) -> None:
    seen = swept("sweep", "grid=smoke", "recipe=mxfp8", "shape.seq_len=128,256")
    assert [tuple(choice.values()) for choice in seen] == [
        ("fused", "128"),
        ("fused", "256"),
        ("split", "128"),
        ("split", "256"),
    ]


def test_a_fixed_value_of_no_axis_leaves_the_default_grid(swept: Swept) -> None:
    assert swept("sweep", "shape.seq_len=256") == SMOKE
    assert {point.config["shape"]["seq_len"] for point in swept.launcher.ledger().plan()} == {256}


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
    result = launcher(verb, *words, launcher.python())
    assert (result.code, result.err) == (0, "")
    first = result.out.splitlines()[0]
    assert ("grid=none" in first) == (added is not None)
    assert added is None or f" {added};" in first


def test_a_plan_with_nothing_to_run_names_no_sweep(launcher: Launcher) -> None:
    result = launcher("plan", "grid=none", "shape.seq_len=100")
    assert result.code == 0
    assert "UNSUPPORTED: " in result.out
    assert "python launch.py sweep" not in result.out


def test_grid_none_is_one_point(swept: Swept) -> None:
    assert swept("sweep", "grid=none") == [{}]


def test_a_range_lists_its_values_as_numbers(swept: Swept) -> None:
    swept("sweep", "shape.seq_len=range(128,512,128)", "recipe.fp8_dpa=true")
    points = swept.launcher.ledger().plan()
    assert [point.config["shape"]["seq_len"] for point in points] == [128, 256, 384]


def test_a_key_of_the_swept_recipe_may_be_swept_with_it(swept: Swept) -> None:
    assert swept("sweep", "recipe=mxfp8", "recipe.fp8_dpa=true,false") == [
        {"recipe.fp8_dpa": "true"},
        {"recipe.fp8_dpa": "false"},
    ]


def test_dlcluster_alone_chooses_gpu_shape_and_backend_of_every_point(launcher: Launcher) -> None:
    result = launcher("plan", "cluster=dlcluster", "recipe=bf16,mxfp8")
    assert result.code == 0, result.err
    assert "UNSUPPORTED" not in result.out
    assert not launcher.runs_dir.exists()


def test_plan_reports_unsupported_points_and_starts_nothing(launcher: Launcher) -> None:
    result = launcher("plan", "gpu=h100,b200", "shape=dsv3")
    assert result.code == 0
    (row,) = (line for line in result.out.splitlines() if "UNSUPPORTED: " in line)
    assert "gpu=h100" in row
    last = result.out.rstrip().splitlines()[-1]
    assert "python launch.py sweep gpu=h100,b200 shape=dsv3" in last
    assert not launcher.runs_dir.exists()
