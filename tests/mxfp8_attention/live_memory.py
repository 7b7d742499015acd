"""Peak of the tensor memory that is alive at once, counted from the operators that allocate it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveMemory(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Count the storages that operators allocate while this mode is active.

    Attributes:
        peak_bytes: Largest number of bytes alive at once, without those that a single operator
            allocates and frees internally.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # likewise
        self.peak_bytes = 0
        self._live_bytes = 0
        self._seen: set[int] = set()

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - any operator's result
        result = func(*args, **(kwargs or {}))
        before = {
            leaf.untyped_storage()._cdata
            for leaf in tree_leaves((args, kwargs))
            if isinstance(leaf, torch.Tensor)
        }
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._count(leaf.untyped_storage(), before)
        return result

    def _count(self, storage: torch.UntypedStorage, inputs: set[int]) -> None:
        address = storage._cdata
        if address in inputs or address in self._seen:
            return
        size = storage.nbytes()
        self._seen.add(address)
        self._live_bytes += size
        self.peak_bytes = max(self.peak_bytes, self._live_bytes)
        weakref.finalize(storage, self._forget, address, size)

    def _forget(self, address: int, size: int) -> None:
        self._seen.discard(address)
        self._live_bytes -= size
