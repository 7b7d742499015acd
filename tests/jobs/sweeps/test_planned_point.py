"""A point's id depends on what decides its result, and its typed configuration is read back."""

from __future__ import annotations

import copy
import dataclasses
from enum import Enum
from operator import attrgetter

import pytest

from conf.plain import to_plain
from conf.schema import Bf16Recipe, Point
from conf.site import Cluster, Container, Launch, Request
from conf.verbs import Run
from jobs.errors import LedgerError
from jobs.sweeps.plan import POINT_FIELDS
from jobs.sweeps.planned_point import PlannedPoint, point_id
from jobs.sweeps.source import Source
from tests.jobs.sweeps.configs import SOURCE, plan_of, with_value

# Keys of the site that decide a result.
COUNTED = {"python", "setup", "env", "container.image"}


def keys(value: object, prefix: str = "") -> list[str]:
    """The dotted name of every key below a dataclass."""
    names = []
    for field in dataclasses.fields(value):  # type: ignore[arg-type] # only dataclasses come here
        name = f"{prefix}{field.name}"
        below = getattr(value, field.name)
        names += keys(below, f"{name}.") if dataclasses.is_dataclass(below) else [name]
    return names


def other_value(value: object) -> object:
    """Another valid value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, Enum):
        members = list(type(value))
        return members[(members.index(value) + 1) % len(members)]
    if isinstance(value, int | float):
        return value * 2 + 2
    if isinstance(value, list):
        return [*value, "/a:/b"]
    if isinstance(value, dict):
        return {**value, "X": "1"}
    return f"{value or ''}1"


def id_of(config: Run) -> str:
    """The id of a point without any check of its values."""
    plain = to_plain(config)
    return point_id({name: plain[name] for name in POINT_FIELDS}, config.cluster, SOURCE)


def id_with_change(config: Run, key: str) -> str:
    return id_of(with_value(config, key, other_value(attrgetter(key)(config))))


def test_an_id_has_twelve_digits_and_is_reproducible(config: Run) -> None:
    first = id_of(config)
    assert first.startswith("p-")
    assert len(first) == 14
    assert int(first[2:], 16) >= 0
    assert id_of(copy.deepcopy(config)) == first


def test_every_key_of_a_point_counts(config: Run) -> None:
    own = {field.name for field in dataclasses.fields(Point)}
    names = [name for name in keys(config) if name.partition(".")[0] in own]
    assert len(names) > 50
    assert (
        len({id_of(config), *(id_with_change(config, name) for name in names)}) == len(names) + 1
    )


def test_of_the_site_only_what_decides_a_result_counts(config: Run) -> None:
    names = [f"cluster.{key}" for key in keys(Cluster())]
    names += [f"launch.{key}" for key in keys(Launch())]
    counted = {name for name in names if id_with_change(config, name) != id_of(config)}
    assert counted == {f"cluster.{name}" for name in COUNTED}


def test_the_interpreter_of_a_container_counts(config: Run) -> None:
    containers = [Container(image="i.sqsh", python=name) for name in ("python3", "/opt/python")]
    ids = {id_of(with_value(config, "cluster.container", one)) for one in containers}
    assert len(ids) == 2


@pytest.mark.parametrize("key", ["runs_dir", "results_dir", "wait", "allow_unsupported"])
def test_folders_and_options_of_the_verb_do_not_count(config: Run, key: str) -> None:
    assert id_with_change(config, key) == id_of(config)


def test_commit_and_changes_count(config: Run) -> None:
    sources = [
        SOURCE,
        Source(commit="decaf"),
        Source(commit="c0ffee"),
        Source(commit="c0ffee", dirty_hash="d2"),
    ]
    points = [plan_of(config, source=source).points[0] for source in sources]
    assert len({point.point_id for point in points}) == 4


def test_types_are_read_back(config: Run) -> None:
    config.cluster.requests = {"gb300": Request(gres="gpu:4")}
    config.recipe = Bf16Recipe()
    (point,) = plan_of(config).points
    back = PlannedPoint.model_validate_json(point.model_dump_json())
    assert back.typed_config() == Point(
        **{field.name: getattr(config, field.name) for field in dataclasses.fields(Point)}
    )
    assert back.typed_site() == (config.cluster, config.launch)


def test_a_damaged_plan_is_an_error_with_its_point_and_key(config: Run) -> None:
    (point,) = plan_of(config).points
    damaged = point.model_copy(update={"config": point.config | {"shape": {"seq_len": "x"}}})
    with pytest.raises(LedgerError) as refused:
        damaged.typed_config()
    assert f"{point.point_id}: config.shape.seq_len" in refused.value.problem
    with pytest.raises(LedgerError) as refused:
        point.model_copy(update={"site": {}}).typed_site()
    assert "site.cluster" in refused.value.problem


def test_a_label_shows_the_axes_or_the_main_settings(config: Run) -> None:
    (point,) = plan_of(config).points
    assert point.label == "gpu=cpu shape=tiny recipe=mxfp8"
    assert point.model_copy(update={"choices": {"shape.seed": "7"}}).label == "shape.seed=7"
    assert point.model_copy(update={"config": {}}).label == point.point_id
