"""The default seed of a shape is not an act of the stand-in, and no two acts are equal."""

from __future__ import annotations

from conf.schema import Shape
from tests.slurm_cluster import stand_in_node as node


def test_the_acts_are_distinct_and_exclude_the_default_seed() -> None:
    acts = [act for name, act in vars(node).items() if name.isupper() and isinstance(act, int)]
    assert len(set(acts)) == len(acts) > 20
    assert Shape().seed % 100 not in acts
