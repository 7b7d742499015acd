"""Durations do not depend on the calendar, and the times of a record are consistent."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from jobs.span import Span


def test_setting_the_calendar_back_changes_no_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    began = datetime(2026, 10, 25, 1, 59, 59, 500_000, tzinfo=UTC)
    span = Span(began, time.monotonic() - 2.25)
    monkeypatch.setattr(time, "time", lambda: (began - timedelta(hours=1)).timestamp())
    times = span.times()
    assert times["started_at"] == "2026-10-25T01:59:59.500+00:00"
    assert times["finished_at"].startswith("2026-10-25T02:00:01.7")
    assert 2.25 <= times["duration_s"] < 60
