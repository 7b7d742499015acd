"""The verb `sweep`: many points, here one after another, or as jobs."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.sweeps.request import PointRequest
from jobs.verbs.command_line import Call
from jobs.verbs.submit import plan_points, start


def sweep(requests: Sequence[PointRequest], call: Call) -> int:
    """Run every point, or submit all of them."""
    return start(plan_points(requests, call), call)
