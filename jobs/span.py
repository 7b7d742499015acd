"""Start by the calendar, duration by the monotonic clock. Standard library only.

A node's calendar may be an hour off, and may be set while a point runs, so a duration is never the
difference of two calendar readings.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypedDict


class Times(TypedDict):
    """The times of a record."""

    started_at: str
    finished_at: str
    duration_s: float


@dataclass(frozen=True)
class Span:
    """A stretch of time that has started."""

    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    _start_s: float = field(default_factory=time.monotonic)

    def times(self) -> Times:
        """Return consistent times of a span that ends now."""
        elapsed_s = time.monotonic() - self._start_s
        return {
            "started_at": iso(self.started),
            "finished_at": iso(self.started + timedelta(seconds=elapsed_s)),
            "duration_s": round(elapsed_s, 3),
        }


def iso(moment: datetime) -> str:
    """Format a time as in the ledger."""
    return moment.isoformat(timespec="milliseconds")
