"""An arm's step as two CUDA graphs, for shapes whose time is dominated by kernel launches."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from jobs.errors import JobError
from mxfp8_attention.layer import AttentionPath

_WARMUP = 3
# A replay runs the same kernels on the same data; only atomics may add in another order.
_MAX_REL_L2 = 1e-2


@dataclass(eq=False)
class GraphError(JobError):
    """A captured graph that does not compute what the arm computes.

    Attributes:
        tensor: The tensor that differs.
        rel_l2: Relative L2 difference; None if the graph did not compute the tensor.
    """

    tensor: str
    rel_l2: float | None

    def __str__(self) -> str:
        if self.rel_l2 is None:
            return f"the CUDA graph did not compute {self.tensor}"
        return (
            f"{self.tensor} of the replayed CUDA graph differs from the arm's own by a relative "
            f"L2 of {self.rel_l2:.3g}; set benchmark.cuda_graph=false"
        )


class GraphedPath:
    """Forward and backward of one arm, captured once and replayed.

    Args:
        path: The arm, on a CUDA device; it must not be used otherwise afterwards.

    Raises:
        GraphError: A replay does not compute what the arm computed before.
    """

    def __init__(self, path: AttentionPath) -> None:
        expected = path.step()
        stream: torch.cuda.Stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # lazy initialization must be over before the capture
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
        """Do nothing: a replay overwrites the gradients."""

    def fprop(self) -> Tensor:
        """Replay the forward pass."""
        self._forward.replay()
        return self._out

    def bprop(self, out_SBC: Tensor) -> None:
        """Replay the backward pass of the last forward pass."""
        self._backward.replay()

    def _check(self, path: AttentionPath, expected: dict[str, Tensor]) -> None:
        self.bprop(self.fprop())
        torch.cuda.synchronize()
        for name, tensor in {"out": self._out, "dx": path.x_SBC.grad}.items():
            if tensor is None:
                raise GraphError(name, None)
            reference = expected[name].float()
            rel_l2 = float((tensor.detach().float() - reference).norm() / reference.norm())
            if not rel_l2 <= _MAX_REL_L2:
                raise GraphError(name, rel_l2)
