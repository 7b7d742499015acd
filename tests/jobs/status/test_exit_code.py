"""One exit code for one set of outcomes, whichever verb ends with them."""

from __future__ import annotations

import pytest

from jobs.record import State
from jobs.status.exit_code import exit_code
from jobs.sweeps.file_problem import FileProblem

P, F, U, E = (state for state in State if state.finished)


@pytest.mark.parametrize(
    ("states", "code", "allowing"),
    [
        ([], 3, 3),
        ([P], 0, 0),
        ([P, P], 0, 0),
        ([P, U], 3, 0),
        ([U], 3, 0),
        ([U, F], 1, 1),
        ([P, E], 1, 1),
        ([F], 1, 1),
        *(([P, state], 3, 3) for state in State if not state.finished),
    ],
    ids=str,
)
def test_the_worst_state_is_the_exit_code(states: list[State], code: int, allowing: int) -> None:
    assert exit_code(states, allow_unsupported=False) == code
    assert exit_code(states, allow_unsupported=True) == allowing
    assert exit_code(states, allow_unsupported=True, damaged=True) == (allowing or 3)


def test_problems_of_plan_and_sweep_json_are_of_the_plan() -> None:
    files = ["plan.jsonl", "s-1/plan.jsonl:7", "sweep.json", "14/p-1/attempt-1/record.json"]
    damage = [file for file in files if FileProblem(file, "is damaged").of_plan]
    assert damage == files[:3]
