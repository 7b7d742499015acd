"""Points of a sweep: composed once for each choice of groups, typed, and never mixed up."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl

from jobs.errors import (
    ConfigFileError,
    InvalidConfig,
    InvalidValue,
    InvalidWord,
    JobError,
    MissingValue,
    UnknownName,
)
from jobs.sweeps.request import PointRequest
from jobs.verbs.table import Verb
from tests.launcher import Launcher


class Compositions:
    """Number of Hydra's compositions in a sweep, and the points that they made."""

    def __init__(self) -> None:
        self.count = 0
        self.requests: list[PointRequest] = []


@pytest.fixture
def sweep(monkeypatch: pytest.MonkeyPatch) -> Compositions:
    """The compositions of the next sweep, which is composed and not run."""
    sweep = Compositions()
    compose = ConfigLoaderImpl.load_sweep_config

    def count(*args: Any) -> Any:  # noqa: ANN401 - as Hydra has it
        sweep.count += 1
        return compose(*args)

    def keep(requests: list[PointRequest], _: object) -> int:
        sweep.requests = requests
        return 0

    monkeypatch.setattr(ConfigLoaderImpl, "load_sweep_config", count)
    monkeypatch.setattr(Verb, "load", lambda _: keep)
    return sweep


def test_plain_keys_cost_no_composition(launcher: Launcher, sweep: Compositions) -> None:
    lengths = ",".join(str(128 * number) for number in range(1, 51))
    assert launcher("sweep", f"shape.seq_len={lengths}", "shape.bias=true,false").code == 0
    assert len(sweep.requests) == 100
    assert sweep.count == 1


def test_each_choice_of_groups_is_composed_once(launcher: Launcher, sweep: Compositions) -> None:
    axes = ("shape=tiny,dsv3", "recipe=bf16,mxfp8", "shape.seq_len=128,256,512")
    assert launcher("sweep", *axes).code == 0
    assert len(sweep.requests) == 12
    assert sweep.count == 4


def test_the_last_axis_varies_fastest(launcher: Launcher, sweep: Compositions) -> None:
    axes = ("shape.seq_len=128,256", "shape=tiny,dsv3", "benchmark.blocks=1,2")
    assert launcher("sweep", *axes).code == 0
    expected = itertools.product((128, 256), ("tiny", "dsv3"), (1, 2))
    for request, (seq_len, shape, blocks) in zip(sweep.requests, expected, strict=True):
        config = request.config
        swept = config.shape.seq_len, config.shape.name, config.benchmark.blocks
        assert swept == (seq_len, shape, blocks)
        assert config.shape.hidden == {"tiny": 256, "dsv3": 16384}[shape]
        assert list(request.choices.values()) == [str(seq_len), shape, str(blocks)]
    assert len({id(request.config.shape) for request in sweep.requests}) == 8


def test_a_plain_key_wins_over_its_group(launcher: Launcher, sweep: Compositions) -> None:
    assert launcher("sweep", "shape.seq_len=256", "shape=tiny,dsv3").code == 0
    assert [request.config.shape.seq_len for request in sweep.requests] == [256, 256]


def test_an_interpolation_follows_each_point(launcher: Launcher, sweep: Compositions) -> None:
    assert launcher("sweep", "gpu=cpu,b200", "shape.seq_len=128,256").code == 0
    assert [request.config.backend.name for request in sweep.requests] == ["emulated"] * 2 + [
        "te"
    ] * 2


def test_an_added_key_is_named_without_its_plus(launcher: Launcher, sweep: Compositions) -> None:
    assert launcher("sweep", "+cluster.env.A=1,2").code == 0
    assert [request.config.cluster.env for request in sweep.requests] == [{"A": "1"}, {"A": "2"}]
    assert [request.choices for request in sweep.requests] == [
        {"cluster.env.A": "1"},
        {"cluster.env.A": "2"},
    ]


def test_values_are_shown_as_they_would_be_typed(launcher: Launcher, sweep: Compositions) -> None:
    words = ("shape.bias=true", "benchmark.min_fprop_speedup=null,1.1", "cluster.partition='a,b'")
    assert launcher("sweep", *words).code == 0
    assert [request.choices for request in sweep.requests] == [
        {"benchmark.min_fprop_speedup": "null"},
        {"benchmark.min_fprop_speedup": "1.1"},
    ]
    assert {request.config.cluster.partition for request in sweep.requests} == {"a,b"}


@pytest.mark.parametrize(
    ("axes", "error", "key"),
    [
        ("shape.seq_len: [128, 0]", InvalidConfig, None),
        ("shape.seq_len: [128, abc]", InvalidValue, "shape.seq_len"),
        ("shape: [tiny, tinny]", UnknownName, None),
        ("recipe: [mxfp8, mxfp8]", InvalidWord, None),
        ("shape.nope: [1]", UnknownName, None),
        ("recipe: mxfp8", ConfigFileError, None),
        ("recipe: []", MissingValue, "recipe"),
        ("wait: [true, false]", InvalidValue, "wait"),
        ("recipe: [null]", InvalidValue, "recipe"),
    ],
)
def test_a_grid_s_axes_are_checked_like_typed_ones(
    launcher: Launcher,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    axes: str,
    error: type[JobError],
    key: str | None,
) -> None:
    monkeypatch.setenv("MXFP8_CONFIG_DIR", str(tmp_path))
    (tmp_path / "grid").mkdir()
    (tmp_path / "grid" / "own.yaml").write_text(f"axes:\n  {axes}\n")
    refused = launcher.error("sweep", "grid=own")
    assert type(refused) is error
    assert getattr(refused, "key", None) == key
    assert not launcher.runs_dir.exists()
