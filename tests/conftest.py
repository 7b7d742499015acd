"""Rules for every test: one SLURM for each session, and no silent skip in CI."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator

import pytest

pytest_plugins = ["tests.slurm_cluster.fixtures", "tests.launcher"]

# `nohup make test &` ignores Ctrl-C, here and in everything that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_MUST_RUN_IN_CI = ("slurm", "browser")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests that share a cluster in one xdist worker (`--dist loadgroup`).

    A module with a cluster of its own names its own group. Slow rows of the fault matrix are
    marked: only `make faults` runs them.
    """
    for item in items:
        if item.get_closest_marker("slurm") and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group("slurm"))
        row = item.get_closest_marker("fault")
        if row is not None and row.args[0].slow:
            item.add_marker(pytest.mark.slow_fault)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure if CI provides what the test needs."""
    report = yield
    marks = [name for name in _MUST_RUN_IN_CI if item.get_closest_marker(name)]
    expected = hasattr(report, "wasxfail")
    if report.skipped and marks and not expected and os.environ.get("CI") == "true":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"a `{marks[0]}` test must not be skipped in CI. {reason}"
    return report
