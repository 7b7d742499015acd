"""Compile the RoPE kernels to machine code for a GPU that this machine does not have.

Triton's interpreter runs code that its compiler refuses. Each launch of the operators is recorded
instead of made, and its kernel is compiled for the requested architecture.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from itertools import product
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from mxfp8_attention.rope import rope_tables
from mxfp8_attention.rope import triton as rope_triton
from mxfp8_attention.rope import triton_kernels as kernels
from mxfp8_attention.rope.tables import Rotation

KERNELS = (
    (kernels, "rotate_heads"),
    (kernels, "share_key"),
    (kernels, "gather_key_gradient"),
)
_POINTERS = {
    torch.float64: "*fp64",
    torch.float32: "*fp32",
    torch.bfloat16: "*bf16",
    torch.float16: "*fp16",
    torch.int64: "*i64",
}


class Launches:
    """Stand-in for a kernel that records the arguments of its launches."""

    def __init__(self, kernel: Any) -> None:  # noqa: ANN401 - Triton's own type
        self.kernel = kernel
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return lambda *args, **constants: self.calls.append((args, constants))


def launches_of(widths: tuple[int, int, int], dtype: torch.dtype) -> list[Launches]:
    """Return every launch of each kernel, forward and backward, for (nope, rope, value) widths."""
    nope, rope, value = widths
    random = torch.zeros(4, 2, 3, nope + rope, dtype=dtype)
    kv, v = (torch.zeros(4, 2, 3, width, dtype=dtype) for width in (nope + value, value))
    key = torch.zeros(4, 2, 1, rope, dtype=dtype)
    tables = rope_tables(4, rope, device="cpu")
    with ExitStack() as stack:
        kernels_launched = []
        for module, name in KERNELS:
            launches = Launches(getattr(module, name))
            stack.enter_context(mock.patch.object(module, name, launches))
            kernels_launched.append(launches)
        for rows, inverse in product((None, torch.zeros(4, dtype=torch.int64)), (False, True)):
            rotation = Rotation(tables.cos, tables.sin, rows)
            for out in (random, torch.zeros_like(random)):
                rope_triton.q_into(out, random, rotation, inverse=inverse)
            rope_triton.k_fused_into(torch.zeros_like(random), random, rotation)
            rope_triton.k_fused_backward_into(torch.zeros_like(random), random, rotation)
            rope_triton.kv_split_into(random, v, kv, key, rotation)
            rope_triton.kv_split_backward_into(kv, key, random, v, rotation)
    return kernels_launched


def compile_for(arch: int, launches: Launches) -> int:
    """Compile a kernel for each of its launches; return the number of different ones."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    names = launches.kernel.arg_names
    sources = {}
    for args, constants in launches.calls:
        arguments = dict(zip(names, args, strict=False)) | constants
        options = {name: arguments.pop(name) for name in list(arguments) if name not in names}
        signature = {name: _type_of(arguments[name], name in constants) for name in names}
        fixed = {name: arguments[name] for name in names if signature[name] == "constexpr"}
        source = ASTSource(launches.kernel, signature, fixed)
        sources[str((signature, fixed, options))] = (source, options)
    for source, options in sources.values():
        compiled = compile(source, target=GPUTarget("cuda", arch, 32), options=options)
        assert compiled.asm["cubin"]
    return len(sources)


def _type_of(value: object, constant: bool) -> str:
    if constant or value is None:
        return "constexpr"
    return _POINTERS[value.dtype] if isinstance(value, Tensor) else "i64"
