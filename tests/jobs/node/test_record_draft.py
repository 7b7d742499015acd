"""Who is to blame for a refusal: the library (UNSUPPORTED), or the machine (ERROR)."""

from __future__ import annotations

import pytest

from jobs.node.record_draft import EVIDENCE_LINES, Ending
from jobs.record import Cause, Outcome
from mxfp8_attention.capability.checks import Check, Refusal


@pytest.mark.parametrize(
    ("refusal", "outcome", "cause"),
    [
        (Refusal.unsupported, Outcome.UNSUPPORTED, None),
        (Refusal.import_error, Outcome.ERROR, Cause.import_error),
        (Refusal.wrong_gpu, Outcome.ERROR, Cause.launch_failed),
    ],
)
def test_a_refusing_check_keeps_its_own_reason(
    refusal: Refusal, outcome: Outcome, cause: Cause | None
) -> None:
    check = Check("cuDNN", False, "9.14 is too old.", "take 9.21", refusal=refusal)
    ending = Ending.of_refusal(check)
    assert (ending.outcome, ending.cause) == (outcome, cause)
    expected = check.reason if cause is None else "cuDNN: 9.14 is too old; take 9.21"
    assert ending.reason == expected


def test_an_exceptions_reason_is_one_line_and_its_evidence_is_short() -> None:
    def recurse(n: int) -> None:
        if n == 0:
            raise RuntimeError("first line\nsecond line")
        recurse(n - 1)

    with pytest.raises(RuntimeError) as error:
        recurse(50)
    ending = Ending.of_exception(error.value)
    assert ending.reason == "RuntimeError: first line"
    assert len(ending.evidence[0].lines) <= EVIDENCE_LINES
    assert ending.evidence[0].lines[-1] == "second line"
