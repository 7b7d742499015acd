"""PyTorch accepts the RoPE operators, torch.compile traces them, no kernel falls back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from mxfp8_attention.rope import mla_rope_k, mla_rope_kv, mla_rope_q, rope_tables
from mxfp8_attention.rope import operators as rope_ops
from mxfp8_attention.rope.operators import resolve_kernel

TABLES = rope_tables(5, 6)


def _data(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("positions", [None, torch.tensor([4, 0, 1, 3, 2])])
@pytest.mark.parametrize("batch_first", [False, True])
def test_pytorch_accepts_the_operators(batch_first: bool, positions: Tensor | None) -> None:
    where = (TABLES.cos, TABLES.sin, positions)
    head, rest = (5, 2, 3), (batch_first, 4, "eager")
    for operator, arguments in (
        (rope_ops.rope_q, (_data(*head, 10), *where, batch_first, False, "eager")),
        (rope_ops.rope_k_fused, (_data(*head, 10), *where, batch_first, "eager")),
        (rope_ops.rope_k_fused_backward, (_data(*head, 10), *where, batch_first, "eager")),
        (rope_ops.rope_kv_split, (_data(*head, 9), _data(5, 2, 1, 6), *where, *rest)),
        (rope_ops.rope_kv_split_backward, (_data(*head, 10), _data(*head, 5), *where, *rest)),
    ):
        torch.library.opcheck(operator, arguments)
    in_place = (torch.randn(*head, 10), *where, False, "eager")
    torch.library.opcheck(rope_ops.rope_q_, in_place)


def _q(x: Tensor) -> Tensor:
    return mla_rope_q(x, TABLES, rope_dim=6)


def _q_in_place(x: Tensor) -> Tensor:
    return mla_rope_q(x * 2, TABLES, rope_dim=6, inplace=True)


def _k_batch_first(x: Tensor) -> Tensor:
    return mla_rope_k(x.transpose(0, 1), TABLES, rope_dim=6, qkv_format="bshd")


def _kv_packed(x: Tensor) -> Tensor:
    kv, k_pe = x[:, 0, :, :9], x[:, 1, :1, 4:]
    lengths = torch.tensor([0, 3, 5])
    k, v = mla_rope_kv(kv, k_pe, TABLES, nope_dim=4, qkv_format="thd", cu_seqlens=lengths)
    return torch.cat((k, v), dim=-1)


# torch 2.13's dynamo itself instantiates the autograd.Function that it traces.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("rope", [_q, _q_in_place, _k_batch_first, _kv_packed])
def test_compiled_calls_equal_eager_ones(rope: Callable[[Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 2, 3, 10, requires_grad=True)
    want = rope(x)
    grad = torch.randn(want.shape)
    (want_grad,) = torch.autograd.grad(want, x, grad)
    got = torch.compile(rope, backend="aot_eager", fullgraph=True)(x)
    (got_grad,) = torch.autograd.grad(got, x, grad)
    assert torch.equal(got, want)
    assert torch.equal(got_grad, want_grad)


def test_auto_follows_the_device() -> None:
    assert resolve_kernel("auto", torch.device("cpu")) == "eager"
    assert resolve_kernel("auto", torch.device("cuda")) == "triton"
    assert resolve_kernel("eager", torch.device("cuda")) == "eager"
    assert resolve_kernel("triton", torch.device("cuda")) == "triton"


@pytest.mark.parametrize("kernel", ["auto", "triton"])
def test_a_gpu_without_triton_is_an_error(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rope_ops, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"^rope_kernel=triton"):
        resolve_kernel(kernel, torch.device("cuda"))
    assert resolve_kernel("eager", torch.device("cuda")) == "eager"
    assert resolve_kernel("auto", torch.device("cpu")) == "eager"


def test_triton_on_a_cpu_tensor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ValueError, match=r"^rope_kernel"):
        mla_rope_q(torch.zeros(5, 2, 3, 10), TABLES, rope_dim=6, kernel="triton")


def test_a_first_call_imports_neither_the_compiler_nor_triton() -> None:
    # torch._dynamo takes seconds: a first training step must not wait for it.
    script = (
        "import sys, torch\n"
        "from mxfp8_attention.rope import mla_rope_q, rope_tables\n"
        "q = torch.zeros(5, 2, 3, 10, requires_grad=True)\n"
        "out = mla_rope_q(q, rope_tables(5, 6), rope_dim=6)\n"
        "torch.autograd.grad(out.sum(), q)\n"
        "print(*sorted({'torch._dynamo', 'triton'} & set(sys.modules)))\n"
    )
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (child.returncode, child.stdout.strip()) == (0, ""), child.stderr


def test_an_unknown_kernel_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^rope_kernel"):
        resolve_kernel("fast", torch.device("cpu"))
