"""Accuracy of two records, compared tensor by tensor."""

from __future__ import annotations

import math
from dataclasses import replace

from jobs.compare.metrics import Metric
from jobs.compare.statistics import Ratio, Sample
from jobs.compare.verdict import SIDES, Judged, Verdict
from jobs.record import Record, TensorError
from jobs.text import join_sentences, pluralize

WORST_HEAD_FACTOR = 2.0
"""Factor on the threshold for the worst head, which is the maximum of many."""


def judge_accuracy(
    first: Record,
    second: Record,
    threshold: float,
    other_inputs: str = "",
    sides: tuple[str, str] = SIDES,
) -> list[Judged]:
    """Compare the errors of the recipe's arm against FP32.

    Where the inputs of both are the same, what an error differs by is no noise of sampling: there
    is no interval, only the threshold. With other inputs an error differs by itself; no more can
    be said of it than whether it misses its gate.

    Args:
        first: Reference.
        second: Compared with the reference.
        threshold: Relative change of an error that matters, 0.05 for 5 %.
        other_inputs: What gave them other inputs, in words; empty: they had the same.
        sides: Names of both sides in notes.

    Returns:
        One verdict for each tensor, and one for its worst head where that is known: SAME, BETTER,
        WORSE, or UNCLEAR where only one of them has it.
    """
    before, after = _errors(first), _errors(second)
    judged = []
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name), after.get(name)
        if old is None or new is None:
            missing = sides[0] if old is None else sides[1]
            judged.append(_unclear(name, f"not measured in the {missing} collection"))
            continue
        judged.append(_tensor(name, old, new, threshold))
        if old.worst_head_rel_l2 is not None and new.worst_head_rel_l2 is not None:
            pair = old.worst_head_rel_l2, new.worst_head_rel_l2
            limit = WORST_HEAD_FACTOR * threshold
            judged.append(_verdict(f"{name}, worst head", *pair, limit))
    if other_inputs:
        judged = [_of_other_inputs(one, other_inputs) for one in judged]
    own = _own_errors(first, second)
    return [_with_note(one, own.get(one.metric, "")) for one in judged]


def _own_errors(first: Record, second: Record) -> dict[str, str]:
    """Return the errors of the BF16 arm by metric, of tensors that both records have."""
    before, after = _errors(first, "bf16"), _errors(second, "bf16")
    return {
        f"error of {name}": f"BF16's own: {old.rel_l2:.2g} to {after[name].rel_l2:.2g}"
        for name, old in before.items()
        if name in after
    }


def _with_note(one: Judged, words: str) -> Judged:
    if one.verdict is Verdict.SAME:
        return one
    return replace(one, note=join_sentences(one.note, words))


def error_metrics(record: Record) -> dict[str, Metric]:
    """Each tensor's error as something that a history follows, by name; none that is no number."""
    return {
        name: Metric(name, "", True, Sample(math.log(error.rel_l2), 0, 1e6, 1))
        for tensor, error in _errors(record).items()
        for name in (f"error of {tensor}",)
        if math.isfinite(error.rel_l2) and error.rel_l2 > 0
    }


def _of_other_inputs(one: Judged, words: str) -> Judged:
    if one.verdict is Verdict.SAME or one.note:
        return one
    return replace(one, verdict=Verdict.UNCLEAR, note=f"different inputs: {words}")


def _errors(record: Record, arm: str = "recipe") -> dict[str, TensorError]:
    tensors = record.validation.tensors if record.validation else []
    return {e.tensor: e for e in tensors if e.arm == arm and e.reference == "fp32"}


def _tensor(name: str, old: TensorError, new: TensorError, threshold: float) -> Judged:
    found = _verdict(name, old.rel_l2, new.rel_l2, threshold)
    if new.nonfinite_count > old.nonfinite_count:
        are = pluralize(new.nonfinite_count, "value is", "values are")
        note = f"{are} NaN or infinite, compared with {old.nonfinite_count} before"
        return replace(found, verdict=Verdict.WORSE, note=note)
    if old.passed and new.passed is False:
        return replace(found, verdict=Verdict.WORSE, note="now misses its gate")
    return found


def _verdict(name: str, old: float, new: float, threshold: float) -> Judged:
    name = f"error of {name}"
    if not (math.isfinite(old) and math.isfinite(new)):
        return Judged(name, "", old, new, None, Verdict.UNCLEAR, "not a number")
    if old == new:
        return Judged(name, "", old, new, Ratio(1.0, 1.0, 1.0), Verdict.SAME)
    if old <= 0 or new <= 0:
        verdict = Verdict.WORSE if new > old else Verdict.BETTER
        return Judged(name, "", old, new, None, verdict)
    change = new / old
    if abs(math.log(change)) <= math.log1p(threshold):
        verdict = Verdict.SAME
    else:
        verdict = Verdict.WORSE if change > 1 else Verdict.BETTER
    return Judged(name, "", old, new, Ratio(change, change, change), verdict)


def _unclear(name: str, note: str) -> Judged:
    name = f"error of {name}"
    return Judged(name, "", math.nan, math.nan, None, Verdict.UNCLEAR, note)
