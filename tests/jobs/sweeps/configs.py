"""Plans of configurations with a key changed."""

from __future__ import annotations

import copy
from typing import Any

from conf.verbs import Run
from jobs.sweeps.plan import Plan, make_plan
from jobs.sweeps.request import PointRequest
from jobs.sweeps.source import Source

SOURCE = Source(commit="c0ffee", dirty=True, dirty_hash="d1")


def plan_of(*configs: Run, source: Source = SOURCE) -> Plan:
    """A plan of one point for each configuration."""
    return make_plan([PointRequest(config, {}) for config in configs], source)


def with_value(config: Run, path: str, value: Any) -> Run:  # noqa: ANN401 - any field
    """A copy with one key set."""
    changed = copy.deepcopy(config)
    *parents, leaf = path.split(".")
    target: Any = changed
    for parent in parents:
        target = getattr(target, parent)
    setattr(target, leaf, value)
    return changed
