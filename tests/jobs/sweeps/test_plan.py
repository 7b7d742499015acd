"""Points are checked before anything starts, and named by what decides their result alone."""

from __future__ import annotations

import copy
import dataclasses
import errno
import json
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from conf.choices import Backend, RecipeName
from conf.plain import from_plain, to_plain
from conf.problem import Problem
from conf.schema import Bf16Recipe, Fp8CurrentRecipe, Point
from conf.site import Cluster, Container, Launch, Request
from conf.verbs import Places, Run
from jobs.errors import DuplicatePoint, InvalidConfig, InvalidValue, LedgerError
from jobs.sweeps import new_sweep, plan
from jobs.sweeps.folders import results_dir, runs_dir
from jobs.sweeps.ledger import Ledger
from jobs.sweeps.new_sweep import software, write_ledger
from jobs.sweeps.plan import POINT_FIELDS, make_plan
from jobs.sweeps.planned_point import PlannedPoint, point_id
from jobs.sweeps.request import PointRequest
from jobs.sweeps.source import CHECKOUT, Source
from tests.conf.compositions import composed

SOURCE = Source(commit="c0ffee", dirty=True, dirty_hash="d1")
# What decides a result, of all that says where a point runs.
COUNTED = {"python", "setup", "env", "container.image"}


@pytest.fixture
def config() -> Run:
    """The default run, of which a test may change what it likes."""
    made: Run = copy.deepcopy(composed("run"))
    return made


def planned_id(config: Run, source: Source = SOURCE) -> str:
    return make_plan([PointRequest(config, {})], source).points[0].point_id


def leaves(value: object, path: str = "") -> list[str]:
    """The dotted name of every key below a dataclass."""
    found = []
    for field in dataclasses.fields(value):  # type: ignore[arg-type] # only dataclasses come here
        name = f"{path}{field.name}"
        below = getattr(value, field.name)
        found += leaves(below, f"{name}.") if dataclasses.is_dataclass(below) else [name]
    return found


def changed(value: object) -> object:
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


def with_changed(config: Run, path: str, value: Any = None) -> Run:  # noqa: ANN401 - any field
    """A copy with one key set, or changed."""
    made = copy.deepcopy(config)
    *parents, leaf = path.split(".")
    target: Any = made
    for parent in parents:
        target = getattr(target, parent)
    setattr(target, leaf, changed(getattr(target, leaf)) if value is None else value)
    return made


def test_a_point_is_named_by_twelve_digits_and_always_the_same(config: Run) -> None:
    first = planned_id(config)
    assert first.startswith("p-")
    assert len(first) == 14
    assert int(first[2:], 16) >= 0
    assert planned_id(copy.deepcopy(config)) == first


def plain_id(config: Run) -> str:
    """The name of a point whose values no rule has seen."""
    plain = to_plain(config)
    return point_id({name: plain[name] for name in POINT_FIELDS}, config.cluster, SOURCE)


def test_every_key_of_a_point_counts(config: Run) -> None:
    own = {field.name for field in dataclasses.fields(Point)}
    names = [name for name in leaves(config) if name.partition(".")[0] in own]
    assert len(names) > 50
    ids = {name: plain_id(with_changed(config, name)) for name in names}
    assert len({plain_id(config), *ids.values()}) == len(names) + 1


def test_of_where_it_runs_only_what_decides_a_result_counts(config: Run) -> None:
    same = plain_id(config)
    fields = [
        *(f"cluster.{n}" for n in leaves(Cluster())),
        *(f"launch.{n}" for n in leaves(Launch())),
    ]
    differing = {name for name in fields if plain_id(with_changed(config, name)) != same}
    assert differing == {f"cluster.{name}" for name in COUNTED}


def test_in_a_container_its_own_interpreter_counts(config: Run) -> None:
    inside = [Container(image="i.sqsh", python=name) for name in ("python3", "/opt/python")]
    ids = {plain_id(with_changed(config, "cluster.container", one)) for one in inside}
    assert len(ids) == 2


def test_folders_and_flags_of_the_verb_do_not_count(config: Run) -> None:
    same = plain_id(config)
    for name in ("runs_dir", "results_dir", "wait", "allow_unsupported"):
        assert plain_id(with_changed(config, name)) == same


def test_commit_and_dirty_tree_count(config: Run) -> None:
    sources = [
        SOURCE,
        Source(commit="decaf"),
        Source(commit="c0ffee"),
        Source(commit="c0ffee", dirty_hash="d2"),
    ]
    assert len({planned_id(config, source) for source in sources}) == 4


def test_every_problem_of_every_point_is_told_once(config: Run) -> None:
    wrong = with_changed(config, "shape.num_heads", -1)
    worse = with_changed(wrong, "shape.batch", -1)
    with pytest.raises(InvalidConfig) as refused:
        make_plan(
            [PointRequest(config, {}), PointRequest(wrong, {}), PointRequest(worse, {})], SOURCE
        )
    assert refused.value.problems == [
        Problem(key, "be at least 1", -1) for key in ("shape.num_heads", "shape.batch")
    ]


def test_two_choices_that_make_one_point_are_told(config: Run) -> None:
    requests = [PointRequest(config, {"shape.seq_len": value}) for value in ("128", "0128")]
    with pytest.raises(DuplicatePoint) as refused:
        make_plan(requests, SOURCE)
    assert (refused.value.first, refused.value.second) == (
        "shape.seq_len=128",
        "shape.seq_len=0128",
    )
    assert refused.value.same_site


def test_where_a_point_runs_does_not_make_another_point(config: Run) -> None:
    requests = [
        PointRequest(with_changed(config, "launch.retries", value), {"launch.retries": str(value)})
        for value in (1, 2)
    ]
    with pytest.raises(DuplicatePoint) as refused:
        make_plan(requests, SOURCE)
    assert not refused.value.same_site


def test_a_sweep_has_one_cluster(config: Run) -> None:
    other = with_changed(config, "cluster.name", "ours")
    with pytest.raises(InvalidConfig) as refused:
        make_plan([PointRequest(config, {}), PointRequest(other, {})], SOURCE)
    (problem,) = refused.value.problems
    assert isinstance(problem, Problem)
    assert problem.key == "cluster"


def test_a_damaged_plan_is_told_with_its_point_and_key(config: Run) -> None:
    (point,) = make_plan([PointRequest(config, {})], SOURCE).points
    wide = point.model_copy(update={"config": point.config | {"shape": {"seq_len": "x"}}})
    with pytest.raises(LedgerError, match=rf"{point.point_id}: config.shape.seq_len"):
        wide.typed_config()
    with pytest.raises(LedgerError, match=r"site.cluster must be a mapping, got null"):
        point.model_copy(update={"site": {}}).typed_site()


def test_a_checkout_that_no_import_path_can_name_is_told(
    config: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "CHECKOUT", Path("/home/me/a:b"))
    with pytest.raises(InvalidConfig, match="/home/me/a:b"):
        make_plan([PointRequest(config, {})], Source())


def test_what_no_node_will_take_is_planned_and_told(config: Run) -> None:
    refused = with_changed(config, "recipe", Fp8CurrentRecipe())
    made = make_plan([PointRequest(config, {}), PointRequest(refused, {})], SOURCE)
    assert [point.index for point in made.points] == [0, 1]
    assert made.runnable == made.points[:1]
    (told,) = made.unsupported
    assert told.unsupported is not None
    assert "recipe must be bf16 or mxfp8 with backend=emulated" in told.unsupported


def test_a_plan_holds_the_typed_point_and_its_site(config: Run) -> None:
    config.cluster.requests = {"gb300": Request(gres="gpu:4")}
    config.recipe = Bf16Recipe()
    (point,) = make_plan([PointRequest(config, {})], SOURCE).points
    back = PlannedPoint.model_validate_json(point.model_dump_json())
    assert back.typed_config() == Point(
        **{field.name: getattr(config, field.name) for field in dataclasses.fields(Point)}
    )
    assert back.typed_site() == (config.cluster, config.launch)


def test_the_ledger_holds_all_that_a_node_needs_before_anything_starts(
    config: Run, tmp_path: Path
) -> None:
    made = make_plan([PointRequest(config, {})], SOURCE)
    ledger = Ledger.create(tmp_path)
    write_ledger(made, ledger, verb="run", command="python launch.py")
    (point,) = ledger.plan()
    given = json.loads(ledger.point_file(point.point_id).read_text())
    assert given["point_id"] == point.point_id
    assert given["sweep_id"] == ledger.sweep_id
    assert (given["commit"], given["dirty"], given["dirty_hash"]) == ("c0ffee", True, "d1")
    assert given["command"] == "python launch.py"
    typed = from_plain(Point, given["point"])
    assert (typed.backend, typed.recipe.name) == (Backend.emulated, RecipeName.mxfp8)
    info = ledger.info()
    assert (info.verb, info.cluster, info.scheduler, info.points) == ("run", "local", "local", 1)
    assert info.source == SOURCE
    assert {"python", "torch", "hydra-core", "submitit", "pydantic"} <= set(software())
    assert ledger.jobs() == []


def test_of_a_ledger_that_cannot_be_written_nothing_stays(
    config: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Path] = []

    def full(path: Path, _text: str) -> None:
        written.append(path)
        path.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(new_sweep, "write_atomic", full)
    made = make_plan([PointRequest(config, {})], SOURCE)
    ledger = Ledger.create(tmp_path)
    with pytest.raises(LedgerError) as caught:
        write_ledger(made, ledger, verb="run", command="python launch.py")
    assert (caught.value.path, caught.value.remedy) == (tmp_path, "nothing was started")
    assert written
    assert list(tmp_path.iterdir()) == []


def test_of_a_plan_whose_writing_is_interrupted_nothing_stays(
    config: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(path: Path, _text: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(new_sweep, "write_atomic", interrupt)
    made = make_plan([PointRequest(config, {})], SOURCE)
    with pytest.raises(KeyboardInterrupt):
        write_ledger(made, Ledger.create(tmp_path), verb="run", command="python launch.py")
    assert list(tmp_path.iterdir()) == []


def test_places_are_in_the_checkout_unless_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert runs_dir(Places()) == CHECKOUT / "runs"
    assert results_dir(Places()) == CHECKOUT / "results"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    named = Places(runs_dir="here", results_dir="~/there")
    assert runs_dir(named) == tmp_path / "here"
    assert results_dir(named) == Path("/home/me/there")
    with pytest.raises(InvalidValue) as refused:
        runs_dir(Places(runs_dir=" "))
    assert refused.value.key == "runs_dir"
