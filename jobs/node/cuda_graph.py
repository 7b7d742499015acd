"""An arm's step as two CUDA graphs, for shapes whose time is the launching of kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from jobs.errors import JobError
from mxfp8_attention.layer import AttentionPath

_WARMUP = 3
# Replaying runs the same kernels on the same data; only atomics may add in another order.
_ALLOWED_REL_L2 = 1e-2


class GraphError(JobError):
    """A captured graph does not compute what the arm computes."""


class GraphedPath:
    """Forward and backward of one arm, captured once and replayed.

    Args:
        path: The arm, on a CUDA device; it must not be used otherwise afterwards.

    Raises:
        GraphError: A replay does not give what the arm gave before.
    """

    def __init__(self, path: AttentionPath) -> None:
        expected = path.step()
        stream: torch.cuda.Stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # what is lazily made must exist before capturing
            for _ in range(_WARMUP):
                path.zero_grad()
                path.bprop(path.fprop())
        torch.cuda.current_stream().wait_stream(stream)
        path.zero_grad()
        self._forward, self._backward = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._forward, stream=stream):
            self._out = path.fprop()
        with torch.cuda.graph(self._backward, stream=stream, pool=self._forward.pool()):
            path.bprop(self._out)
        self._check(path, expected)

    def zero_grad(self) -> None:
        """Nothing: a replay overwrites the gradients."""

    def fprop(self) -> Tensor:
        """Replays the forward pass."""
        self._forward.replay()
        return self._out

    def bprop(self, out_SBC: Tensor) -> None:
        """Replays the backward pass of the last forward one."""
        self._backward.replay()

    def _check(self, path: AttentionPath, expected: dict[str, Tensor]) -> None:
        self.bprop(self.fprop())
        torch.cuda.synchronize()
        found = {"out": self._out, "dx": path.x_SBC.grad}
        for name, tensor in found.items():
            if tensor is None:
                raise GraphError(f"{name} must be computed by the CUDA graph, got none")
            want = expected[name].float()
            difference = float((tensor.detach().float() - want).norm() / want.norm())
            if not difference <= _ALLOWED_REL_L2:
                raise GraphError(
                    f"a replayed CUDA graph must give the arm's own {name}, got a relative "
                    f"L2 difference of {difference:.3g}; set benchmark.cuda_graph=false"
                )
