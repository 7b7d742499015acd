"""Every choice of every group composes with every verb that takes it, and is valid."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from conf.choices import Backend, Job, RecipeName, Scheduler, ToleranceName
from conf.rules import problems
from conf.schema import RECIPES, TOLERANCES
from conf.verbs import Collect, Run
from tests.conf.compositions import POINT_VERBS, choices, composed, rows

GROUPS = choices()
# What a group's file says of itself; the choice and the name must be the same word.
BARE = {"job"}


def takes(verb: str) -> dict[str, list[str]]:
    """The groups that a verb's configuration has."""
    with_grid = verb in ("plan", "sweep")
    return {name: names for name, names in GROUPS.items() if name != "grid" or with_grid}


def test_the_groups_are_those_that_are_documented() -> None:
    assert {name: set(names) for name, names in GROUPS.items()} == {
        "job": {"attention", "probe"},
        "gpu": {"cpu", "h100", "h200", "b200", "gb200", "gb300"},
        "shape": {"tiny", "dsv3", "dsv3_model", "kimi_k2", "dsv2_lite", "hopper_fp8"},
        "recipe": {"mxfp8", "bf16", "fp8_current", "fp8_delayed", "fp8_block"},
        "tolerance": {"calibrated", "seed", "none"},
        "benchmark": {"default", "quick", "off", "seed"},
        "cluster": {"local", "slurm", "dlcluster"},
        "launch": {"default"},
        "grid": {"smoke", "seq_len", "models", "none"},
    }


@pytest.mark.parametrize("verb", POINT_VERBS)
def test_every_choice_composes_and_is_valid(verb: str) -> None:
    seen: set[str] = set()
    for overrides in rows(takes(verb)):
        config = composed(verb, *overrides)
        assert isinstance(config, Run)
        assert problems(config) == []
        for override in overrides:
            group, _, choice = override.partition("=")
            assert named(getattr(config, group)) == choice
            seen.add(override)
    assert seen == {f"{group}={name}" for group, names in takes(verb).items() for name in names}


def named(value: Any) -> str:  # noqa: ANN401 - a group's dataclass, or the enum of job
    """What a composed group says it is."""
    name = getattr(value, "name")  # noqa: B009 - an enum has it too
    return str(getattr(name, "name", name))


def test_every_recipe_and_tolerance_has_a_type_and_a_file() -> None:
    assert {name.name for name in RECIPES} == set(RecipeName.__members__) == set(GROUPS["recipe"])
    assert {name.name for name in TOLERANCES} == set(ToleranceName.__members__)
    assert set(ToleranceName.__members__) == set(GROUPS["tolerance"])


def test_a_choice_s_own_keys_are_those_of_its_type() -> None:
    for name, kind in RECIPES.items():
        assert type(composed("run", f"recipe={name.name}").recipe) is kind
    mxfp8 = composed("run").recipe
    assert dataclasses.asdict(mxfp8) == dataclasses.asdict(RECIPES[RecipeName.mxfp8]())
    assert mxfp8.fp8_dpa is True


def test_the_defaults_run_in_seconds_on_any_machine() -> None:
    config = composed("run")
    assert (config.gpu.name, config.shape.name) == ("cpu", "tiny")
    assert (config.recipe.name, config.tolerance.name) == (
        RecipeName.mxfp8,
        ToleranceName.calibrated,
    )
    assert config.cluster.scheduler is Scheduler.local
    assert config.backend is Backend.emulated


def test_only_a_cpu_emulates_by_default() -> None:
    backends = {gpu: composed("run", f"gpu={gpu}").backend for gpu in GROUPS["gpu"]}
    assert backends.pop("cpu") is Backend.emulated
    assert set(backends.values()) == {Backend.te}
    assert composed("run", "gpu=gb300", "backend=emulated").backend is Backend.emulated


@pytest.mark.parametrize("verb", POINT_VERBS)
def test_dlcluster_alone_means_gb300_dsv3_and_te(verb: str) -> None:
    config = composed(verb, "cluster=dlcluster")
    assert (config.gpu.name, config.shape.name, config.backend) == ("gb300", "dsv3", Backend.te)
    assert config.cluster.requests["gb300"].gres == "gpu:gb300:1"


@pytest.mark.parametrize(
    "words",
    [
        ("cluster=dlcluster", "gpu=b200", "shape=tiny", "backend=emulated"),
        ("backend=emulated", "shape=tiny", "gpu=b200", "cluster=dlcluster"),
    ],
    ids=["cluster first", "cluster last"],
)
def test_the_command_line_wins_over_a_cluster_s_choices(words: tuple[str, ...]) -> None:
    config = composed("sweep", *words)
    assert (config.gpu.name, config.shape.name) == ("b200", "tiny")
    assert config.backend is Backend.emulated


def test_doctor_is_a_probe_that_times_and_judges_nothing() -> None:
    config = composed("doctor")
    assert config.job is Job.probe
    assert not config.benchmark.enabled
    assert config.tolerance.name is ToleranceName.none


def test_collect_has_its_places_alone() -> None:
    config = composed("collect")
    assert config == Collect(runs_dir=None, results_dir=None)
