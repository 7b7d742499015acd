"""A captured graph counts only if it computes what its arm computes (captures: test_gpu)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from jobs.node.cuda_graph import GraphedPath, GraphError


@pytest.fixture(autouse=True)
def _no_gpu_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.synchronize", lambda: None)


def checked(out: torch.Tensor, dx: torch.Tensor | None) -> None:
    """What capturing checks at its end, with graphs that replay nothing."""
    replaying: Any = object.__new__(GraphedPath)
    replaying._forward = replaying._backward = SimpleNamespace(replay=lambda: None)
    replaying._out = out
    path: Any = SimpleNamespace(x_SBC=SimpleNamespace(grad=dx))
    replaying._check(path, {"out": torch.ones(8), "dx": torch.full((8,), 2.0)})


def test_a_replay_that_agrees_up_to_the_order_of_sums_counts() -> None:
    checked(torch.ones(8), torch.full((8,), 2.001))


@pytest.mark.parametrize("value", [0.0, 1.05, float("nan")])
def test_a_replay_that_gives_something_else_is_an_error_with_the_way_out(value: float) -> None:
    with pytest.raises(GraphError, match=r"arm.s own out, .*set benchmark.cuda_graph=false"):
        checked(torch.full((8,), value), torch.full((8,), 2.0))


def test_a_replay_without_a_gradient_is_an_error() -> None:
    with pytest.raises(GraphError, match="dx must be computed by the CUDA graph, got none"):
        checked(torch.ones(8), None)
