"""Views of sbhd, bshd and thd tensors as [s, b, h, d]."""

from __future__ import annotations

from torch import Tensor

QKV_FORMATS = ("sbhd", "bshd", "thd")


def to_sbhd(x: Tensor, qkv_format: str) -> Tensor:
    """View a tensor of the given format as [s, b, h, d]; thd becomes [t, 1, h, d]."""
    if qkv_format == "bshd":
        return x.transpose(0, 1)
    return x.unsqueeze(1) if qkv_format == "thd" else x


def from_sbhd(x_SBHD: Tensor, qkv_format: str) -> Tensor:
    """View [s, b, h, d] in the given format."""
    if qkv_format == "bshd":
        return x_SBHD.transpose(0, 1)
    return x_SBHD.squeeze(1) if qkv_format == "thd" else x_SBHD


def overlaps_itself(x: Tensor) -> bool:
    """Return True if two elements may share memory, as in the expanded gradient of a sum."""
    extent = 1  # of the axes so far, from the first element to past the last
    for stride, size in sorted(zip(x.stride(), x.shape, strict=True)):
        if size > 1:
            if stride < extent:
                return True
            extent += stride * (size - 1)
    return False
