"""Correctness of the RoPE kernels on a GPU, checked before they are timed.

All results but the shared key's gradient must equal the eager definition on the same GPU bit for
bit. That gradient is a sum over heads in FP32 in another order: it may differ from the FP64 sum by
one rounding of the result's type and by the error of the FP32 sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypedDict

import torch
from torch import Tensor

from mxfp8_attention.rope import RopeTables, mla_rope_k, mla_rope_kv, mla_rope_q, rope_tables
from mxfp8_attention.rope import eager as rope_eager
from tools.gpu.rope.cases import KERNELS, Case, Shape, build


class Options(TypedDict, total=False):
    """Layout and positions of the tokens."""

    qkv_format: str
    cu_seqlens: Tensor
    positions: Tensor | int


SHAPES = (
    Shape(257, 2, 128),
    Shape(64, 3, 100),
    Shape(33, 2, 3, nope_dim=10, rope_dim=6, value_dim=12),
    Shape(40, 2, 5, nope_dim=96, rope_dim=32, value_dim=64, dtype=torch.float16),
    Shape(31, 1, 12, nope_dim=100, rope_dim=20, value_dim=36, dtype=torch.float32),
)
SANITIZED_SHAPES = (
    Shape(7, 2, 5, nope_dim=10, rope_dim=6, value_dim=12),
    Shape(5, 1, 20),
)


def check_exact(shape: Shape, device: str = "cuda") -> str:
    """Compare every kernel with the eager definition, and return a summary."""
    for kernel in KERNELS:
        case = build(kernel, shape, device=device, keep=True)
        case.restore()
        case.run()
        expected = case.expect()
        outputs = case.outputs
        if kernel == "k_fused_bprop":
            outputs, expected = _without_key(outputs, shape), _without_key(expected, shape)
        for i, (got, want) in enumerate(zip(outputs, expected, strict=True)):
            if kernel == "kv_split_bprop" and i == 1:
                continue
            assert torch.equal(got, want), f"{kernel} at {shape}: output {i} differs from eager"
    _check_key_gradient(shape, device)
    return f"{len(KERNELS)} kernels equal eager bit for bit at {shape}, {shape.dtype}"


def _without_key(outputs: tuple[Tensor, ...], shape: Shape) -> tuple[Tensor, ...]:
    (dk,) = outputs
    return dk[..., : shape.nope_dim], dk[:, :, 1:]


def _check_key_gradient(shape: Shape, device: str) -> None:
    tables = rope_tables(shape.seq_len, shape.rope_dim, device=device)
    size = (shape.seq_len, shape.batch, shape.heads)
    grad_k = torch.randn(*size, shape.nope_dim + shape.rope_dim, device=device).to(shape.dtype)
    k = torch.zeros_like(grad_k, requires_grad=True)
    (dk,) = torch.autograd.grad(
        mla_rope_k(k, tables, rope_dim=shape.rope_dim, kernel="triton"), k, grad_k
    )
    kv = grad_k.new_zeros(*size, shape.nope_dim + shape.value_dim).requires_grad_()
    k_pe = grad_k.new_zeros(*size[:2], 1, shape.rope_dim).requires_grad_()
    k_out, _ = mla_rope_kv(kv, k_pe, tables, nope_dim=shape.nope_dim, kernel="triton")
    (dk_pe,) = torch.autograd.grad(k_out, k_pe, grad_k)
    rotary = grad_k[..., shape.nope_dim :].double()
    want = rope_eager.rotate_back(rotary.sum(2, keepdim=True), tables.cos, tables.sin)
    # The error of adding h terms in FP32 is at most h 2^-24 of their absolute sum.
    magnitude = rotary.abs().sum(2, keepdim=True).amax(-1, keepdim=True)
    allowed = torch.finfo(shape.dtype).eps * want.abs() + 2 * shape.heads * 2**-24 * magnitude
    for name, got in (("fused", dk[:, :, :1, shape.nope_dim :]), ("split", dk_pe)):
        error = (got.double() - want).abs()
        assert (error <= allowed).all(), f"{name} key gradient at {shape}: off by {error.max()}"


def check_repeats(shape: Shape, repeats: int = 100) -> str:
    """Run every kernel many times on the same data: all results must be bit-equal."""
    for kernel in KERNELS:
        case = build(kernel, shape, keep=True)
        first = _fresh_outputs(case)
        for i in range(1, repeats):
            same = all(map(torch.equal, first, _fresh_outputs(case)))
            assert same, f"{kernel} at {shape}: repeat {i} differs from the first"
    return f"{len(KERNELS)} kernels bit-equal in {repeats} repeats at {shape}"


def _fresh_outputs(case: Case) -> tuple[Tensor, ...]:
    case.restore()
    case.run()
    return tuple(x.clone() for x in case.outputs)


def check_strides_and_formats(device: str = "cuda") -> str:
    """Compare both kernels through the public functions, on views and in every format."""
    compared = 0
    for name, run in _strided_calls(device):
        results = [run(kernel) for kernel in ("eager", "triton")]
        for got, want in zip(*results, strict=True):
            assert torch.equal(got, want), f"{name}: triton differs from eager"
            compared += 1
    return f"{compared} results on strided views in sbhd, bshd and thd equal eager bit for bit"


def _strided_calls(device: str) -> Iterator[tuple[str, Callable[[str], tuple[Tensor, ...]]]]:
    """Yield calls for queries and split keys in each format, on views of larger buffers."""
    heads, nope, rope, value, tokens = 20, 128, 64, 128, 48
    tables = rope_tables(64, rope, device=device)
    positions = torch.randperm(64, device=device)[:tokens]
    cu_seqlens = torch.tensor([0, 7, 7, 40], device=device, dtype=torch.int32)
    wide = torch.randn(tokens, 2, heads + 3, 400, device=device).to(torch.bfloat16)
    packed, batch_first = wide[:, 0], wide.transpose(0, 1)
    columns_apart = wide.transpose(2, 3).contiguous().transpose(2, 3)
    layouts: tuple[tuple[str, Tensor, Options], ...] = (
        ("sbhd view", wide, {}),
        ("sbhd view, positions", wide, {"positions": positions}),
        ("sbhd view, offset", wide, {"positions": 9}),
        ("columns apart", columns_apart, {}),
        ("bshd view", batch_first, {"qkv_format": "bshd"}),
        ("bshd dense", batch_first.contiguous(), {"qkv_format": "bshd"}),
        ("thd view", packed, {"qkv_format": "thd", "cu_seqlens": cu_seqlens}),
    )
    for name, buffer, options in layouts:
        yield (
            f"q, {name}",
            _query_call(buffer[..., 3 : 3 + heads, 5 : 5 + nope + rope], tables, options),
        )
        yield f"kv, {name}", _key_call(buffer[..., 3 : 3 + heads, :], nope, value, tables, options)


def _query_call(
    q: Tensor, tables: RopeTables, options: Options
) -> Callable[[str], tuple[Tensor, ...]]:
    def run(kernel: str) -> tuple[Tensor, ...]:
        leaf = q.detach().requires_grad_()
        out = mla_rope_q(leaf, tables, rope_dim=tables.dim, kernel=kernel, **options)
        (grad,) = torch.autograd.grad(out, leaf, q)
        return out.detach(), grad

    return run


def _key_call(
    buffer: Tensor, nope: int, value: int, tables: RopeTables, options: Options
) -> Callable[[str], tuple[Tensor, ...]]:
    kv = buffer[..., 1 : 1 + nope + value]
    k_pe = buffer[..., :1, 300 : 300 + tables.dim]
    grad_k = buffer[..., 7 : 7 + nope + tables.dim]
    grad_v = buffer[..., 9 : 9 + value]

    def run(kernel: str) -> tuple[Tensor, ...]:
        leaf = kv.detach().requires_grad_()
        k, v = mla_rope_kv(leaf, k_pe, tables, nope_dim=nope, kernel=kernel, **options)
        (grad,) = torch.autograd.grad((k, v), leaf, (grad_k, grad_v))
        return k.detach(), v.detach(), grad

    return run


def check_large_offsets() -> str:
    """Compare the last tokens of tensors with more than 2^31 elements, in place and not."""
    shape = Shape(32768, 4, 64)
    tail = slice(-8, None)
    for kernel in ("q_fprop_inplace", "kv_split_fprop", "kv_split_bprop"):
        case = build(kernel, shape, keep=True)
        case.restore()
        case.run()
        expected = case.expect()
        checked = case.outputs[: 1 if kernel == "kv_split_bprop" else None]
        for got, want in zip(checked, expected, strict=False):
            assert torch.equal(got[tail], want[tail]), f"{kernel}: {shape}"
            assert not got[tail].isnan().any(), f"{kernel}: incomplete output"
        del case, expected, checked
        torch.cuda.empty_cache()
    return f"the last tokens of more than 2^31 elements equal eager bit for bit at {shape}"


def run_for_sanitizer(device: str = "cuda") -> str:
    """Run every kernel once on small data under compute-sanitizer, and compare."""
    for shape in SANITIZED_SHAPES:
        check_exact(shape, device)
    check_strides_and_formats(device)
    return f"every kernel ran at {len(SANITIZED_SHAPES)} shapes and on views"
