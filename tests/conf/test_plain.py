"""Typed configurations survive JSON, and what JSON holds is checked on the way back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conf.plain import from_plain, to_plain
from conf.problem import ProblemError
from conf.schema import Bf16Recipe, MxFp8Recipe, Point, SeedTolerance
from conf.verbs import Sweep
from tests.conf.compositions import choices, composed, rows


def plain_point(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON is any of its types
    """A valid point as JSON, with keys changed: `shape__seq_len=1`."""
    plain: dict[str, Any] = to_plain(Point(recipe=MxFp8Recipe(), tolerance=SeedTolerance()))
    plain["shape"].update(name="tiny", seq_len=128, hidden=256, num_heads=4)
    for path, value in changes.items():
        *parents, leaf = path.split("__")
        target = plain
        for parent in parents:
            target = target[parent]
        target[leaf] = value
    return plain


@pytest.mark.parametrize("overrides", list(rows(choices())), ids=lambda row: row[3])
def test_every_configuration_survives_json(overrides: list[str]) -> None:
    config = composed("sweep", *overrides)
    assert from_plain(Sweep, json.loads(json.dumps(to_plain(config)))) == config


def test_a_recipe_comes_back_as_its_own_type() -> None:
    point = from_plain(Point, plain_point(recipe={"name": "bf16"}))
    assert type(point.recipe) is Bf16Recipe
    assert type(point.tolerance) is SeedTolerance


def test_an_integer_is_a_number() -> None:
    point = from_plain(Point, plain_point(tolerance__atol=1))
    assert isinstance(point.tolerance.atol, float)


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("shape.nope", {"shape__nope": 1}),
        ("nope", {"nope": 1}),
        ("shape.seq_len", {"shape__seq_len": "128"}),
        ("shape.seq_len", {"shape__seq_len": 128.0}),
        ("shape.seq_len", {"shape__seq_len": True}),
        ("shape.seq_len", {"shape__seq_len": None}),
        ("shape.init_std", {"shape__init_std": True}),
        ("shape.init_std", {"shape__init_std": 10**400}),
        ("shape.bias", {"shape__bias": 1}),
        ("shape.projection", {"shape__projection": "both"}),
        ("shape", {"shape": [1]}),
        ("gpu.matches", {"gpu__matches": "B200"}),
        ("gpu.matches[0]", {"gpu__matches": [1]}),
        ("recipe.name", {"recipe__name": "fp4"}),
        ("recipe.format", {"recipe__name": "bf16"}),
        ("recipe.name", {"recipe__name": ["mxfp8"]}),
    ],
    ids=str,
)
def test_data_of_the_wrong_type_is_a_problem_of_its_key(key: str, changes: dict[str, Any]) -> None:
    with pytest.raises(ProblemError) as refused:
        from_plain(Point, plain_point(**changes))
    assert refused.value.problem.key == key
