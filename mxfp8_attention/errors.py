"""How far one tensor is from another: as a whole, in its worst head, and element by element.

Sums are kept in FP64 over FP32 pieces of bounded size, so that weight gradients of a billion
elements neither overflow memory nor lose their small errors.
Axes: S tokens, B batch, C hidden, H heads, D width of a head.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from conf.choices import Projection
from conf.schema import Shape

# Bounds each FP32 temporary to 64 MiB.
_PIECE_ELEMENTS = 1 << 24


@dataclass(frozen=True)
class TensorErrors:
    """One tensor against a reference.

    Attributes:
        rel_l2: ||actual - reference|| / ||reference||; 0 for two zeros, infinite against zeros.
        worst_head_rel_l2: The largest such ratio of one head, None for a tensor without heads.
        worst_head: That head.
        max_abs: Largest |actual - reference|.
        rmse: Root of the mean square of actual - reference.
        cosine: Of the angle between the two; 1 for two zeros, 0 where only one is zero.
        nonfinite_count: NaN and infinite elements of `actual`.
        outside_share: Share of elements with |actual - reference| > atol + rtol |reference|, NaN
            among them; None where no atol and rtol were given.
    """

    rel_l2: float
    worst_head_rel_l2: float | None
    worst_head: int | None
    max_abs: float
    rmse: float
    cosine: float
    nonfinite_count: int
    outside_share: float | None


@dataclass
class _Sums:
    """What the pieces of a tensor add up to; per head where it is a vector."""

    error: Tensor
    reference: Tensor
    actual: float = 0.0
    product: float = 0.0
    max_abs: float = 0.0
    nonfinite: int = 0
    outside: int = 0


def head_views(name: str, tensor: Tensor, shape: Shape) -> tuple[list[Tensor], list[Tensor]]:
    """Part a tensor of `Path.step` by heads.

    Args:
        name: q, k, v, attention, out, dx, or d<weight>.
        tensor: It, as `step` returns it.
        shape: The layer.

    Returns:
        Views with the heads as their first axis, and what belongs to no head. Together they hold
        every element once.
    """
    heads = shape.num_heads
    qk, nope, v = shape.head_dim_qk, shape.head_dim_nope, shape.head_dim_v
    if name in ("q", "k", "v"):
        return [tensor.movedim(2, 0)], []
    if name == "attention":
        return [torch.unflatten(tensor, -1, (heads, v)).movedim(2, 0)], []
    if name == "dout_weight":
        return [torch.unflatten(tensor, -1, (heads, v)).movedim(1, 0)], []
    layer, _, kind = name.removeprefix("d").rpartition("_")
    if kind in ("weight", "bias") and layer in ("qkv", "q", "kv"):
        fused = shape.projection is Projection.fused
        widths = {"qkv": [qk, qk, v], "q": [qk], "kv": [nope + v]}[layer]
        parts = (
            list(
                tensor[: heads * sum(widths)].split_with_sizes([heads * width for width in widths])
            )
            if fused
            else []
        )
        if not fused:
            parts = [tensor[: heads * widths[0]]]
        shared = tensor[heads * sum(widths) :]
        by_head = [torch.unflatten(part, 0, (heads, -1)) for part in parts]
        return by_head, [shared] if len(shared) else []
    return [], [tensor]


def tensor_errors(
    name: str,
    actual: Tensor,
    reference: Tensor,
    shape: Shape,
    *,
    atol: float | None = None,
    rtol: float | None = None,
) -> TensorErrors:
    """Compare one tensor of `Path.step` with the same of another path.

    Args:
        name: The tensor's name there.
        actual: Any float dtype.
        reference: Same shape, any float dtype, may be on another device.
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
    bounds = None if atol is None or rtol is None else (atol, rtol)
    total = _new_sums(1, actual.device)
    heads = _new_sums(shape.num_heads, actual.device) if by_head else None
    for view, view_reference in zip(by_head, by_head_reference, strict=True):
        assert heads is not None
        _accumulate(heads, view, view_reference, bounds)
    for part, part_reference in zip(shared, shared_reference, strict=True):
        _accumulate(total, part.unsqueeze(0), part_reference.unsqueeze(0), bounds)
    worst_head = worst = None
    if heads is not None:
        ratios = _ratios(heads.error, heads.reference)
        # NaN is the worst that a head can be.
        worst_head = int(ratios.nan_to_num(nan=torch.inf, posinf=torch.inf).argmax())
        worst = float(ratios[worst_head])
        total = _joined(total, heads)
    count = max(actual.numel(), 1)
    error, norm = float(total.error.sum()), float(total.reference.sum())
    return TensorErrors(
        rel_l2=float(_ratios(total.error.sum(), total.reference.sum())),
        worst_head_rel_l2=worst,
        worst_head=worst_head,
        max_abs=total.max_abs,
        rmse=math.sqrt(error / count),
        cosine=_cosine(total.product, total.actual, norm),
        nonfinite_count=total.nonfinite,
        outside_share=None if bounds is None else total.outside / count,
    )


def step_errors(
    actual: Mapping[str, Tensor],
    reference: Mapping[str, Tensor],
    shape: Shape,
    *,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, TensorErrors]:
    """Compare everything that `Path.step` returns.

    Args:
        actual: One path's tensors.
        reference: Another's, of the same names.
        shape: The layer.
        atol: See `tensor_errors`.
        rtol: See `tensor_errors`.

    Returns:
        Errors by name, in the order of `reference`.

    Raises:
        ValueError: A tensor is missing, or differs in shape.
    """
    if set(actual) != set(reference):
        odd = ", ".join(sorted(set(actual) ^ set(reference)))
        raise ValueError(f"both paths must return the same tensors, got {odd} from one alone")
    return {
        name: tensor_errors(name, actual[name], expected, shape, atol=atol, rtol=rtol)
        for name, expected in reference.items()
    }


def _new_sums(heads: int, device: torch.device) -> _Sums:
    zeros = torch.zeros(heads, dtype=torch.float64, device=device)
    return _Sums(error=zeros, reference=zeros.clone())


def _accumulate(
    sums: _Sums, actual: Tensor, reference: Tensor, bounds: tuple[float, float] | None
) -> None:
    """Add a view whose first axis is that of the sums."""
    for a, r in _pieces(actual, reference):
        error = a - r
        sums.error += error.square().sum(dim=1, dtype=torch.float64)
        sums.reference += r.square().sum(dim=1, dtype=torch.float64)
        sums.actual += float(a.square().sum(dtype=torch.float64))
        sums.product += float((a * r).sum(dtype=torch.float64))
        magnitude = error.abs()
        largest = float(magnitude.amax())
        # Python's max() drops a NaN that comes second.
        sums.max_abs = largest if math.isnan(largest) else max(largest, sums.max_abs)
        sums.nonfinite += int((~a.isfinite()).sum())
        if bounds is not None:
            inside = magnitude <= bounds[0] + bounds[1] * r.abs()
            sums.outside += int((~inside).sum())


def _pieces(actual: Tensor, reference: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """FP32 [heads, elements] pieces of two views, cut along their second axis."""
    if actual.numel() == 0:
        return
    length = actual.shape[1]
    step = max(1, length * _PIECE_ELEMENTS // actual.numel())
    for start in range(0, length, step):
        width = min(step, length - start)
        piece = actual.narrow(1, start, width).to(torch.float32)
        expected = reference.narrow(1, start, width).to(piece.device, torch.float32)
        yield piece.flatten(1), expected.flatten(1)


def _joined(total: _Sums, heads: _Sums) -> _Sums:
    return _Sums(
        error=total.error + heads.error.sum(),
        reference=total.reference + heads.reference.sum(),
        actual=total.actual + heads.actual,
        product=total.product + heads.product,
        max_abs=(
            math.nan
            if math.isnan(total.max_abs + heads.max_abs)
            else max(total.max_abs, heads.max_abs)
        ),
        nonfinite=total.nonfinite + heads.nonfinite,
        outside=total.outside + heads.outside,
    )


def _ratios(error: Tensor, reference: Tensor) -> Tensor:
    """Square root of error / reference; 0 for two zeros."""
    ratio = (error / reference).sqrt()
    return torch.where((error == 0) & (reference == 0), 0.0, ratio)


def _cosine(product: float, actual: float, reference: float) -> float:
    if actual == 0 or reference == 0:
        return 1.0 if actual == reference else 0.0
    return product / math.sqrt(actual) / math.sqrt(reference)
