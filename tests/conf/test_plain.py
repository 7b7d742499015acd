"""Typed configurations survive JSON, and what JSON holds is checked on the way back."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from conf.plain import from_plain, to_plain
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
    ("changes", "sentence"),
    [
        ({"shape__nope": 1}, "shape.nope is not a key; known: attn_mask, batch"),
        ({"nope": 1}, "nope is not a key; known: backend"),
        ({"shape__seq_len": "128"}, "shape.seq_len must be of type int, got '128'"),
        ({"shape__seq_len": 128.0}, "shape.seq_len must be of type int, got 128.0"),
        ({"shape__seq_len": True}, "shape.seq_len must be of type int, got True"),
        ({"shape__seq_len": None}, "shape.seq_len must be of type int, got None"),
        ({"shape__init_std": True}, "shape.init_std must be of type float, got True"),
        ({"shape__init_std": 10**400}, "shape.init_std must be a finite number, got 1000"),
        ({"shape__bias": 1}, "shape.bias must be of type bool, got 1"),
        ({"shape__projection": "both"}, "shape.projection must be one of fused, split"),
        ({"shape": [1]}, "shape must be a mapping, got [1]"),
        ({"gpu__matches": "B200"}, "gpu.matches must be a list, got 'B200'"),
        ({"gpu__matches": [1]}, "gpu.matches[0] must be of type str, got 1"),
        ({"recipe__name": "fp4"}, "recipe.name must be one of mxfp8, bf16"),
        ({"recipe__name": "bf16"}, "recipe.format is not a key; known: name"),
        ({"recipe__name": ["mxfp8"]}, "recipe.name must be one of mxfp8"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_key(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}"):
        from_plain(Point, plain_point(**changes))
