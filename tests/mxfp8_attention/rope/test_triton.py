"""The fused RoPE kernels match the eager definition, interpreted on a CPU and on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from tests.mxfp8_attention.rope.triton_interpreter import Interpreter

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")

HEADS = [f"{heads} heads" for heads in (1, 3, 5, 12, 96, 100, 128)]
WIDTHS = [
    f"widths {widths} {dtype}"
    for widths in ("128 64 128", "10 6 12", "100 20 36", "2 2 2", "64 96 64")
    for dtype in ("bfloat16", "float16", "float32", "float64")
]
CASES = [
    "formats and positions",
    "any tile gives the same",
    "nothing else is written",
    "autograd tracks a change in place",
    *HEADS,
    *WIDTHS,
]


@pytest.fixture(scope="module")
def interpreter() -> Iterator[Interpreter]:
    process = Interpreter()
    yield process
    process.close()


@needs_triton
@pytest.mark.xdist_group("triton interpreter")
@pytest.mark.parametrize("case", CASES)
def test_interpreted_kernels(case: str, interpreter: Interpreter) -> None:
    failure = interpreter.failure_of(case)
    assert failure is None, failure


@needs_triton
@pytest.mark.xdist_group("triton interpreter")
def test_the_interpreter_reports_what_fails(interpreter: Interpreter) -> None:
    failure = interpreter.failure_of("no such case")
    assert failure is not None
    assert "KeyError: 'no such case'" in failure


@needs_triton
@pytest.mark.parametrize("arch", [90, 100])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_kernels_compile_for_another_gpu(
    arch: int, dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    compiler = import_module("tests.mxfp8_attention.rope.triton_compiler")
    for launches in compiler.launches_of((128, 64, 128), dtype):
        assert compiler.compile_for(arch, launches) >= 2


@needs_triton
@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES)
def test_kernels_on_a_gpu(case: str) -> None:
    import_module("tests.mxfp8_attention.rope.rope_kernel_cases").CASES[case]("cuda")


@needs_triton
@pytest.mark.gpu
def test_repeated_runs_are_bit_equal() -> None:
    from tools.gpu.rope import checks as rope_checks
    from tools.gpu.rope.cases import Shape

    rope_checks.check_repeats(Shape(256, 1, 128), repeats=100)
