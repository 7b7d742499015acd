"""A captured graph counts only if it computes what its arm computes (captures: test_gpu)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from jobs.node.cuda_graph import GraphedPath, GraphError


@pytest.fixture(autouse=True)
def _without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.synchronize", lambda: None)


def check(out: torch.Tensor, dx: torch.Tensor | None) -> None:
    """Check the results of graphs that replay nothing."""
    graphed: Any = object.__new__(GraphedPath)
    graphed._forward = graphed._backward = SimpleNamespace(replay=lambda: None)
    graphed._out = out
    path: Any = SimpleNamespace(x_SBC=SimpleNamespace(grad=dx))
    graphed._check(path, {"out": torch.ones(8), "dx": torch.full((8,), 2.0)})


def test_a_replay_may_differ_by_the_order_of_sums() -> None:
    check(torch.ones(8), torch.full((8,), 2.001))


@pytest.mark.parametrize("value", [0.0, 1.05, float("nan")])
def test_a_replay_with_another_result_is_an_error(value: float) -> None:
    with pytest.raises(GraphError) as error:
        check(torch.full((8,), value), torch.full((8,), 2.0))
    assert error.value.tensor == "out"
    assert error.value.rel_l2 is not None


def test_a_replay_without_a_gradient_is_an_error() -> None:
    with pytest.raises(GraphError) as error:
        check(torch.ones(8), None)
    assert (error.value.tensor, error.value.rel_l2) == ("dx", None)
