"""Every point is checked before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from conf.problem import Problem
from conf.schema import Fp8CurrentRecipe
from conf.verbs import Run
from jobs.errors import DuplicatePoint, InvalidConfig
from jobs.sweeps import plan
from jobs.sweeps.plan import make_plan
from jobs.sweeps.request import PointRequest
from tests.jobs.sweeps.configs import SOURCE, plan_of, with_value


def problem_keys(*configs: Run) -> list[tuple[str, object]]:
    with pytest.raises(InvalidConfig) as refused:
        plan_of(*configs)
    problems = refused.value.problems
    return [(one.key, one.value) for one in problems if isinstance(one, Problem)]


def test_every_problem_of_every_point_is_reported_once(config: Run) -> None:
    wrong = with_value(config, "shape.num_heads", -1)
    worse = with_value(wrong, "shape.batch", -1)
    assert problem_keys(config, wrong, worse) == [("shape.num_heads", -1), ("shape.batch", -1)]


def test_a_sweep_has_one_cluster(config: Run) -> None:
    ((key, _),) = problem_keys(config, with_value(config, "cluster.name", "ours"))
    assert key == "cluster"


def test_a_colon_in_the_checkout_is_refused(config: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = Path("/home/me/a:b")
    monkeypatch.setattr(plan, "CHECKOUT", checkout)
    assert problem_keys(config) == [("the checkout", checkout)]


def test_two_choices_of_the_same_point_are_refused(config: Run) -> None:
    requests = [PointRequest(config, {"shape.seq_len": value}) for value in ("128", "0128")]
    with pytest.raises(DuplicatePoint) as refused:
        make_plan(requests, SOURCE)
    labels = ("shape.seq_len=128", "shape.seq_len=0128")
    assert (refused.value.first, refused.value.second) == labels
    assert refused.value.same_site


def test_a_site_does_not_make_another_point(config: Run) -> None:
    configs = [with_value(config, "launch.retries", value) for value in (1, 2)]
    with pytest.raises(DuplicatePoint) as refused:
        plan_of(*configs)
    assert not refused.value.same_site


def test_points_that_no_node_can_run_are_planned_with_the_reason(config: Run) -> None:
    planned = plan_of(config, with_value(config, "recipe", Fp8CurrentRecipe()))
    assert [point.index for point in planned.points] == [0, 1]
    assert planned.runnable == planned.points[:1]
    (point,) = planned.unsupported
    assert point.unsupported is not None
    assert "recipe" in point.unsupported
