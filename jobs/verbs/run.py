"""The verb `run`: one point, here or as a job."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.sweeps.request import PointRequest
from jobs.verbs.command_line import Call
from jobs.verbs.submit import plan_points, start


def run(requests: Sequence[PointRequest], call: Call) -> int:
    """Run one point and show its record."""
    return start(plan_points(requests, call), call)
