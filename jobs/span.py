"""When something began, by the calendar, and how long it took, by a clock that nobody sets.

A node's calendar may be an hour off, and may be set while a point runs: a duration never comes of
two looks at it. The standard library alone.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypedDict


class Times(TypedDict):
    """What a record holds of time."""

    started_at: str
    finished_at: str
    duration_s: float


@dataclass(frozen=True)
class Span:
    """A stretch of time that has begun.

    Attributes:
        began: When, by the calendar.
    """

    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    _mark_s: float = field(default_factory=time.monotonic)

    def as_recorded(self) -> Times:
        """The times of what ends now; they agree with each other."""
        elapsed_s = time.monotonic() - self._mark_s
        return {
            "started_at": iso(self.began),
            "finished_at": iso(self.began + timedelta(seconds=elapsed_s)),
            "duration_s": round(elapsed_s, 3),
        }


def iso(moment: datetime) -> str:
    """A moment as the ledger writes it."""
    return moment.isoformat(timespec="milliseconds")
