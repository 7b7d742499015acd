"""The exit code of verbs that end with outcomes."""

from __future__ import annotations

from collections.abc import Iterable

from jobs.record import State


def exit_code(states: Iterable[State], *, allow_unsupported: bool, damaged: bool = False) -> int:
    """Return 0 if all points passed, 1 if one FAILED or is an ERROR, else 3.

    No point at all is 3, and so is a plan that could not be read completely (`damaged`).
    """
    present = set(states)
    if present & {State.FAILED, State.ERROR}:
        return 1
    accepted = {State.PASSED, State.UNSUPPORTED} if allow_unsupported else {State.PASSED}
    return 0 if present and present <= accepted and not damaged else 3
