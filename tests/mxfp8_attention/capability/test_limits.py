"""Every limit is that of the library's sources, and names them."""

from __future__ import annotations

import pytest

from mxfp8_attention.capability import limits
from mxfp8_attention.capability.limits import (
    COMPUTE_CAPABILITIES,
    CUDNN_FOR_MXFP8_ATTENTION,
    ComputeCapabilities,
    Multiple,
    Unsupported,
    VersionLimit,
)


@pytest.mark.parametrize(
    ("version", "supported"),
    [
        ((9, 19, 0), False),
        ((9, 21, 0), True),
        ((9, 22, 5), True),
        ((9, 23, 0), False),
        ((9, 23, 1), False),
        ((9, 23, 2), True),
        ((10, 0, 0), True),
    ],
)
def test_cudnn_for_mxfp8_attention(version: tuple[int, int, int], supported: bool) -> None:
    refused = CUDNN_FOR_MXFP8_ATTENTION.refuses(version)
    assert (refused is None) is supported
    assert refused is None or refused.actual == ".".join(map(str, version))


def test_every_limit_names_its_source() -> None:
    kinds = VersionLimit | ComputeCapabilities | Multiple
    rules = [rule for rule in vars(limits).values() if isinstance(rule, kinds)]
    rules += COMPUTE_CAPABILITIES.values()
    assert len(rules) >= 12
    assert all("Transformer Engine" in rule.source for rule in rules)


def test_a_limit_is_one_sentence_and_a_quoted_one_the_library_s() -> None:
    ours = Unsupported("shape.hidden", "a multiple of 32", "33", "set shape.hidden=32")
    assert str(ours) == "shape.hidden must be a multiple of 32, got 33; set shape.hidden=32"
    assert str(Unsupported("compute capability", "10.0", "9.0", quote="No MXFP8.")) == "No MXFP8."
