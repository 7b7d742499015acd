"""The note on axes that the default grid adds to a point named on the command line."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from conf.schema import Point
from conf.verbs import Sweep
from jobs.sweeps.request import PointRequest
from jobs.verbs.command_line import Call

_POINT_KEYS = frozenset(field.name for field in dataclasses.fields(Point))


def added_axes(requests: Sequence[PointRequest], call: Call) -> str | None:
    """Return the note, or None if the user named no key of a point, or named the grid."""
    config, choices = requests[0].config, requests[0].choices
    typed = {word.lstrip("+~").partition("=")[0] for word in call.overrides}
    names_a_point = any(key.partition(".")[0] in _POINT_KEYS for key in typed)
    if not isinstance(config, Sweep) or "grid" in typed or not names_a_point:
        return None
    axes = {
        key: list(dict.fromkeys(request.choices[key] for request in requests))
        for key in config.grid.axes
        if key in choices and key not in typed
    }
    if not axes:
        return None
    added = " ".join(f"{key}={','.join(values)}" for key, values in axes.items())
    return f"grid={config.grid.name} adds {added}; to run the named point alone: grid=none"
