"""The stages of an arm compute together what its whole step computes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from conf.choices import Projection
from conf.schema import Bf16Recipe, MxFp8Recipe, Recipe
from jobs.node.stages import stages_of
from mxfp8_attention.case import make_case
from mxfp8_attention.flops import STAGES
from mxfp8_attention.paths import build_path
from tests.shapes import TINY


@pytest.mark.parametrize("projection", list(Projection))
@pytest.mark.parametrize("recipe", [Bf16Recipe(), MxFp8Recipe()])
def test_the_stages_in_a_row_are_the_forward_pass(recipe: Recipe, projection: Projection) -> None:
    path = build_path("emulated", recipe, make_case(replace(TINY, projection=projection), "cpu"))
    whole = path.fprop().detach()
    stages = stages_of(path)
    assert tuple(stages) == STAGES
    (last,) = stages["out"].fprop()
    assert torch.equal(last, whole)


def test_each_stage_gives_a_gradient_to_each_of_its_inputs() -> None:
    path = build_path("emulated", Bf16Recipe(), make_case(TINY, "cpu"))
    for stage in stages_of(path).values():
        stage.zero_grad()
        stage.bprop(stage.fprop())
        assert all(leaf.grad is not None for leaf in stage.inputs), stage.name
        stage.zero_grad()
        assert all(leaf.grad is None for leaf in stage.inputs), stage.name


def test_no_stage_reaches_into_another() -> None:
    path = build_path("emulated", Bf16Recipe(), make_case(TINY, "cpu"))
    stages = stages_of(path)
    for stage in stages.values():
        stage.zero_grad()
    stages["attention"].bprop(stages["attention"].fprop())
    assert all(leaf.grad is None for leaf in path.parameters().values())
    assert path.x_SBC.grad is None
