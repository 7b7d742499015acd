"""One exit code for one set of outcomes, whichever verb ends with them."""

from __future__ import annotations

import pytest

from jobs.status.results import OUTCOMES, STATES, outcome_code, plan_damage
from jobs.sweeps.reading import Problem

P, F, U, E = OUTCOMES


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
        *(([P, state], 3, 3) for state in STATES),
    ],
    ids=str,
)
def test_the_exit_code_tells_the_worst(states: list[str], code: int, allowing: int) -> None:
    assert outcome_code(states, allow_unsupported=False) == code
    assert outcome_code(states, allow_unsupported=True) == allowing
    assert outcome_code(states, allow_unsupported=True, damaged=True) == (allowing or 3)


def test_what_damages_a_plan() -> None:
    files = ["plan.jsonl", "s-1/plan.jsonl:7", "sweep.json", "14/p-1/attempt-1/record.json"]
    damage = plan_damage(Problem(file, "is damaged") for file in files)
    assert [problem.file for problem in damage] == files[:3]
