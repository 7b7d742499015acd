"""Errors of one tensor against another: of the whole, of its worst head, and element by element.

Sums are FP64 over FP32 pieces of bounded size, so that weight gradients of a billion elements
neither exhaust memory nor lose their small errors.
Axes: S tokens, B batch, C hidden, H heads, D width of a head.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from conf.schema import Shape

# Bounds each temporary, at most FP64, to 64 MiB.
_PIECE_ELEMENTS = 1 << 23

# atol and rtol of the elementwise rule.
_Rule = tuple[float, float]


@dataclass(frozen=True)
class TensorErrors:
    """Errors of one tensor against a reference.

    Attributes:
        rel_l2: ||actual - reference|| / ||reference||; 0 for two zeros, infinite against zeros.
        worst_head_rel_l2: Largest such ratio of one head, None for a tensor without heads.
        worst_head: Index of that head; the number of heads stands for the shared rotary key if it
            has rows of its own (split layout).
        max_abs: Largest |actual - reference|.
        rmse: Root of the mean square of actual - reference.
        cosine: Cosine of the angle between the two; 1 for two zeros, 0 if only one is zero.
        nonfinite_count: Number of NaN and infinite elements of `actual`.
        outside_share: Share of elements with |actual - reference| > atol + rtol |reference|,
            including NaN; None without atol and rtol.
        reference_is_zero: True if every element of the reference is zero.
    """

    rel_l2: float
    worst_head_rel_l2: float | None
    worst_head: int | None
    max_abs: float
    rmse: float
    cosine: float
    nonfinite_count: int
    outside_share: float | None
    reference_is_zero: bool = False


def head_views(name: str, tensor: Tensor, shape: Shape) -> tuple[list[Tensor], list[Tensor]]:
    """Split a tensor of a step into its heads and the rest; each element is in one view.

    Args:
        name: Its name in `AttentionPath.step` or `stage_errors`; a gradient's starts with d.
        tensor: The tensor.
        shape: The layer.

    Returns:
        Views with the heads as their first axis, and views that belong to no head: a whole tensor
        without heads, or the part of the shared rotary key.
    """
    heads, qk, v = shape.num_heads, shape.head_dim_qk, shape.head_dim_v
    own_name = name.removeprefix("d")
    if own_name in ("q", "k", "v"):
        return [tensor.movedim(2, 0)], []
    if own_name in ("attention", "out_weight"):
        return [torch.unflatten(tensor, -1, (heads, v)).movedim(-2, 0)], []
    # The projections' outputs have their columns by head, weights and biases their rows.
    layer = own_name.removesuffix("_proj").removesuffix("_weight").removesuffix("_bias")
    axis = 0 if own_name.endswith(("_weight", "_bias")) else -1
    widths = {"qkv": (qk, qk, v), "q": (qk,), "kv": (shape.head_dim_nope + v,)}.get(layer)
    if widths is None:
        return [], [tensor]
    sizes = [heads * width for width in widths]
    shared_size = tensor.shape[axis] - sum(sizes)
    *parts, shared = tensor.split_with_sizes([*sizes, shared_size], dim=axis)
    views = [torch.unflatten(part, axis, (heads, -1)) for part in parts]
    by_head = [view.movedim(0 if axis == 0 else -2, 0) for view in views]
    return by_head, [shared] if shared_size else []


@torch.no_grad()
def tensor_errors(
    name: str,
    actual: Tensor,
    reference: Tensor,
    shape: Shape,
    *,
    atol: float | None = None,
    rtol: float | None = None,
) -> TensorErrors:
    """Compare one tensor of `AttentionPath.step` with that of another path.

    Args:
        name: The tensor's name there.
        actual: Any float dtype.
        reference: Same shape; any float dtype and device.
        shape: The layer.
        atol: Absolute part of the elementwise rule, None to leave it out.
        rtol: Relative part.

    Returns:
        Its errors.

    Raises:
        ValueError: The two differ in shape.
    """
    if actual.shape != reference.shape:
        raise ValueError(
            f"{name} must have its reference's shape {tuple(reference.shape)}, "
            f"got {tuple(actual.shape)}"
        )
    by_head, shared = head_views(name, actual, shape)
    by_head_reference, shared_reference = head_views(name, reference, shape)
    rule = None if atol is None or rtol is None else (atol, rtol)
    sums = _Sums.zeros(1 if shared else 0, actual.device)
    for part, part_reference in zip(shared, shared_reference, strict=True):
        sums.add(part.unsqueeze(0), part_reference.unsqueeze(0), rule)
    worst_head = worst = None
    if by_head:
        heads = _Sums.zeros(shape.num_heads, actual.device)
        for view, view_reference in zip(by_head, by_head_reference, strict=True):
            heads.add(view, view_reference, rule)
        sums = heads.followed_by(sums)
        ratios = _ratios(sums.error, sums.reference)
        # NaN counts as the worst head.
        worst_head = int(ratios.nan_to_num(nan=torch.inf, posinf=torch.inf).argmax())
        worst = float(ratios[worst_head])
    count = max(actual.numel(), 1)
    error, norm = sums.error.sum(), sums.reference.sum()
    return TensorErrors(
        rel_l2=float(_ratios(error, norm)),
        worst_head_rel_l2=worst,
        worst_head=worst_head,
        max_abs=sums.max_abs,
        rmse=math.sqrt(float(error) / count),
        cosine=_cosine(sums.product, sums.actual, float(norm)),
        nonfinite_count=sums.nonfinite,
        outside_share=None if rule is None else sums.outside / count,
        reference_is_zero=float(norm) == 0,
    )


def step_errors(
    actual: Mapping[str, Tensor],
    reference: Mapping[str, Tensor],
    shape: Shape,
    *,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, TensorErrors]:
    """Compare everything that `AttentionPath.step` returns with that of another path.

    Args:
        actual: Tensors of one path by name.
        reference: Tensors of the other, with the same names.
        shape: The layer.
        atol: As for `tensor_errors`.
        rtol: As for `tensor_errors`.

    Returns:
        Errors by name, in the order of `reference`.

    Raises:
        ValueError: A tensor is missing, or differs in shape.
    """
    if set(actual) != set(reference):
        unmatched = ", ".join(sorted(set(actual) ^ set(reference)))
        raise ValueError(f"both paths must return the same tensors, got unmatched {unmatched}")
    return {
        name: tensor_errors(name, actual[name], expected, shape, atol=atol, rtol=rtol)
        for name, expected in reference.items()
    }


@dataclass
class _Sums:
    """Sums over the pieces of a tensor; error and reference are FP64, one for each head."""

    error: Tensor
    reference: Tensor
    actual: float = 0.0
    product: float = 0.0
    max_abs: float = 0.0
    nonfinite: int = 0
    outside: int = 0

    @classmethod
    def zeros(cls, heads: int, device: torch.device) -> _Sums:
        zeros = torch.zeros(heads, dtype=torch.float64, device=device)
        return cls(error=zeros, reference=zeros.clone())

    def add(self, actual: Tensor, reference: Tensor, rule: _Rule | None) -> None:
        """Add a view whose first axis is the heads."""
        for a, r in _pieces(actual, reference):
            error = a - r
            self.error += _squares(error)
            self.reference += _squares(r)
            self.actual += float(_squares(a).sum())
            self.product += float(a.to(torch.float64).mul_(r).sum())
            magnitude = error.abs()
            self.max_abs = _larger(self.max_abs, float(magnitude.amax()))
            self.nonfinite += int((~a.isfinite()).sum())
            if rule is not None:
                inside = magnitude <= rule[0] + rule[1] * r.abs()
                self.outside += int((~inside).sum())

    def followed_by(self, shared: _Sums) -> _Sums:
        """Append the sums of the part that all heads share as one more head."""
        return _Sums(
            error=torch.cat((self.error, shared.error)),
            reference=torch.cat((self.reference, shared.reference)),
            actual=self.actual + shared.actual,
            product=self.product + shared.product,
            max_abs=_larger(self.max_abs, shared.max_abs),
            nonfinite=self.nonfinite + shared.nonfinite,
            outside=self.outside + shared.outside,
        )


def _squares(piece: Tensor) -> Tensor:
    """Return each row's sum of squares, in FP64: FP32 squares below 1e-23 vanish."""
    norms: Tensor = torch.linalg.vector_norm(piece, dim=1, dtype=torch.float64)
    return norms.square()


def _pieces(actual: Tensor, reference: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Cut two views along their second axis into FP32 [heads, elements] pieces."""
    if actual.numel() == 0:
        return
    length = actual.shape[1]
    step = max(1, length * _PIECE_ELEMENTS // actual.numel())
    for start in range(0, length, step):
        width = min(step, length - start)
        piece = actual.narrow(1, start, width).to(torch.float32)
        expected = reference.narrow(1, start, width).to(piece.device, torch.float32)
        yield piece.flatten(1), expected.flatten(1)


def _larger(a: float, b: float) -> float:
    """Return the larger of two, NaN if either is NaN; max() drops a NaN that comes second."""
    return math.nan if math.isnan(a + b) else max(a, b)


def _ratios(error: Tensor, reference: Tensor) -> Tensor:
    """Return the square root of error / reference; 0 for two zeros."""
    ratio = (error / reference).sqrt()
    return torch.where((error == 0) & (reference == 0), 0.0, ratio)


def _cosine(product: float, actual: float, reference: float) -> float:
    if actual == 0 or reference == 0:
        return 1.0 if actual == reference else 0.0
    return product / math.sqrt(actual) / math.sqrt(reference)
