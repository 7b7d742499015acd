"""The code that is submitted, as the ledger notes it."""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from pathlib import Path

from jobs.source import CHECKOUT, source_state
from jobs.sweeps.ledger import Source

__all__ = ["CHECKOUT", "source_of"]


@lru_cache(maxsize=1)
def source_of(checkout: Path = CHECKOUT) -> Source:
    """Asks for the checkout's state once.

    Args:
        checkout: The folder that holds `launch.py`.

    Returns:
        The commit and whether the tree differs from it; all None outside a git checkout.
    """
    return Source(**dataclasses.asdict(source_state(checkout)))
