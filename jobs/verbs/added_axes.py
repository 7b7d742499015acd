"""Says which axes the default grid has added to a point that the command line names."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from conf.schema import Point
from conf.verbs import Sweep
from jobs.sweeps.request import PointRequest
from jobs.verbs.command_line import Call

_POINT_KEYS = frozenset(field.name for field in dataclasses.fields(Point))


def added_axes(asks: Sequence[PointRequest], call: Call) -> str | None:
    """One line where the user named values of a point and a grid that they did not name took part.

    Args:
        asks: What was composed, at least one.
        call: The command.

    Returns:
        The axes that the grid has added, and how to leave them out; None where it added none.
    """
    config, choices = asks[0].config, asks[0].choices
    typed = {word.lstrip("+~").partition("=")[0] for word in call.overrides}
    names_a_point = any(key.partition(".")[0] in _POINT_KEYS for key in typed)
    if not isinstance(config, Sweep) or "grid" in typed or not names_a_point:
        return None
    axes = {
        key: list(dict.fromkeys(ask.choices[key] for ask in asks))
        for key in config.grid.axes
        if key in choices and key not in typed
    }
    if not axes:
        return None
    words = " ".join(f"{key}={','.join(values)}" for key, values in axes.items())
    return f"grid={config.grid.name} adds {words}; for the named point alone: grid=none"
