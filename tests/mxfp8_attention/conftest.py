"""One thread and one seed for every test, and skips for missing hardware and libraries."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """These shapes are too small to share: more threads would only wait."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests that need a GPU or Transformer Engine on a machine without."""
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("no CUDA GPU here")
    if item.get_closest_marker("te") and find_spec("transformer_engine") is None:
        pytest.skip("Transformer Engine is not installed here")
