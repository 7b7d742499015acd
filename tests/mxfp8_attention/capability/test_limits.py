"""Every limit is what the library's sources say, and says where it is written."""

from __future__ import annotations

import pytest

from mxfp8_attention.capability import limits as capability_limits
from mxfp8_attention.capability.limits import (
    COMPUTE_CAPABILITIES,
    CUDNN_FOR_MXFP8_ATTENTION,
    ComputeCapabilities,
    Limit,
    Multiple,
)


@pytest.mark.parametrize(
    ("version", "refused"),
    [
        ((9, 19, 0), "must be 9.21.0 or later, got 9.19.0"),
        ((9, 21, 0), None),
        ((9, 22, 5), None),
        ((9, 23, 0), "broken releases 9.23.0, 9.23.1, got 9.23.0"),
        ((9, 23, 1), "broken releases"),
        ((9, 23, 2), None),
        ((10, 0, 0), None),
    ],
)
def test_cudnn_for_mxfp8_attention(version: tuple[int, int, int], refused: str | None) -> None:
    told = CUDNN_FOR_MXFP8_ATTENTION.refuses(version)
    assert (told is None) == (refused is None)
    assert (refused or "") in (told or "")


def test_every_limit_says_where_it_is_written() -> None:
    kinds = Limit | ComputeCapabilities | Multiple
    rules = [rule for rule in vars(capability_limits).values() if isinstance(rule, kinds)]
    rules += COMPUTE_CAPABILITIES.values()
    assert len(rules) >= 12
    assert all("Transformer Engine" in rule.source for rule in rules)
