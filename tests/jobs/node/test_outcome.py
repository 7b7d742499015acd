"""Who is to blame for a refusal: the library (UNSUPPORTED), or the machine (ERROR)."""

from __future__ import annotations

import pytest

from jobs.node.outcome import EVIDENCE_LINES, end_of_exception, end_of_refusal
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
def test_a_refusing_check_gives_its_own_reason(
    refusal: Refusal, outcome: Outcome, cause: Cause | None
) -> None:
    end = end_of_refusal(Check("cuDNN", False, "9.14 is too old", "take 9.21", refusal=refusal))
    assert (end.outcome, end.cause) == (outcome, cause)
    assert "9.14 is too old" in end.reason
    assert ("take 9.21" in end.reason) == (outcome is Outcome.ERROR)


def test_a_librarys_full_stop_does_not_end_the_reason() -> None:
    check = Check("cuDNN", False, "two of them.", "take one", refusal=Refusal.import_error)
    assert end_of_refusal(check).reason == "cuDNN: two of them; take one"


def test_an_exceptions_reason_is_one_line_and_its_evidence_is_short() -> None:
    def deep(n: int) -> None:
        if n == 0:
            raise RuntimeError("first line\nsecond line")
        deep(n - 1)

    with pytest.raises(RuntimeError) as caught:
        deep(50)
    end = end_of_exception(caught.value)
    assert end.reason == "RuntimeError: first line"
    assert len(end.evidence[0].lines) <= EVIDENCE_LINES
    assert end.evidence[0].lines[-1] == "second line"
