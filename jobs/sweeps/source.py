"""The code that a sweep was submitted from, as its ledger records it."""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from pathlib import Path

from jobs.record import Model
from jobs.source import CHECKOUT, source_state

__all__ = ["CHECKOUT", "Source", "source_of"]


class Source(Model):
    """A commit, and a hash of the changes to it; all None outside a git checkout."""

    commit: str | None = None
    dirty: bool | None = None
    dirty_hash: str | None = None

    def __str__(self) -> str:
        commit = (self.commit or "no commit")[:12]
        return f"{commit} with changes {self.dirty_hash}" if self.dirty else commit


@lru_cache(maxsize=1)
def source_of(checkout: Path = CHECKOUT) -> Source:
    """Return the state of the checkout, queried once for each process."""
    return Source(**dataclasses.asdict(source_state(checkout)))
