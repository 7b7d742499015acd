"""A configuration for the tests of planning."""

from __future__ import annotations

import copy

import pytest

from conf.verbs import Run
from tests.conf.compositions import composed


@pytest.fixture
def config() -> Run:
    """The default run, which a test may change."""
    run: Run = copy.deepcopy(composed("run"))
    return run
