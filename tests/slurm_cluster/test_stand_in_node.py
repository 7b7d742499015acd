"""A point that asks the stand-in for nothing in particular passes."""

from __future__ import annotations

from conf.schema import Shape
from tests.slurm_cluster import stand_in_node as node


def test_the_default_seed_is_no_act_and_no_act_comes_twice() -> None:
    acts = [act for name, act in vars(node).items() if name.isupper() and isinstance(act, int)]
    assert len(acts) > 20
    assert len(set(acts)) == len(acts)
    assert Shape().seed % 100 not in acts
