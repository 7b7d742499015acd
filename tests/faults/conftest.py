"""The matrix's own fixtures, and the line of its counts."""

from __future__ import annotations

import pytest

from tests.faults.fixtures import summary, tell

__all__ = ["tell"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Ends a run with what the README states."""
    terminalreporter.write_line(summary(terminalreporter.stats))
