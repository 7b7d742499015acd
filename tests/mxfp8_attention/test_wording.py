"""The sentences of mxfp8_attention's errors: the argument, its constraint, its value, a remedy."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from conf.schema import Fp8CurrentRecipe
from mxfp8_attention.case import make_case
from mxfp8_attention.emulation.mxfp8 import quantize
from mxfp8_attention.paths import build_path
from mxfp8_attention.rope import mla_rope_q, rope_tables
from mxfp8_attention.rope.operators import resolve_kernel
from tests.shapes import tiny

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: quantize(torch.zeros(32, 33), -1),
            "x must have a multiple of 32 values along axis 1 for MXFP8, got 33 in shape (32, 33)",
        ),
        (
            lambda: build_path("emulated", Fp8CurrentRecipe(), make_case(tiny(), CPU)),
            "recipe must be mxfp8 or bf16 with backend=emulated, got fp8_current; set backend=te",
        ),
        (
            lambda: resolve_kernel("triton", CPU),
            "rope_kernel must be eager for a tensor on cpu, got triton; "
            "set rope_kernel=eager (or TRITON_INTERPRET=1 to interpret the kernels)",
        ),
        (
            lambda: mla_rope_q(torch.zeros(5, 2, 3, 10), rope_tables(4, 6), rope_dim=6),
            "positions must lie within the 4 of the tables, got 5 tokens from 0; "
            "make longer tables",
        ),
    ],
)
def test_an_error_is_one_sentence(
    call: Callable[[], object], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr("mxfp8_attention.rope.operators.find_spec", lambda name: object())
    with pytest.raises(ValueError, match="must") as error:
        call()
    assert str(error.value) == sentence
