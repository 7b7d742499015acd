"""How a point's end becomes an outcome: refused, failed, or an error with its cause."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

import torch

from jobs.causes import cause_of
from jobs.record import Cause, Evidence, Outcome
from jobs.text import join_sentences, mask_secrets
from mxfp8_attention.capability.checks import Check, Refusal

EVIDENCE_LINES = 20
# What PyTorch and Transformer Engine raise where no attention kernel takes the inputs.
_NO_ATTENTION = ("No dot product attention backend is available",)


@dataclass(frozen=True)
class End:
    """How a point ended.

    Attributes:
        outcome: The outcome.
        reason: One line.
        cause: Why it is an ERROR.
        evidence: What was seen.
    """

    outcome: Outcome
    reason: str = ""
    cause: Cause | None = None
    evidence: tuple[Evidence, ...] = ()


class RefusedError(Exception):
    """A check says that this point does not run here."""

    def __init__(self, check: Check) -> None:
        super().__init__(check.reason)
        self.check = check


def end_of_refusal(check: Check) -> End:
    """What a refusing check makes of a point.

    Args:
        check: A check with a refusal.

    Returns:
        UNSUPPORTED with the library's own reason, or ERROR where the machine is not the one
        that was asked for, or a package beside its GPU is broken.
    """
    reason = check.reason
    if check.refusal is Refusal.unsupported:
        return End(Outcome.UNSUPPORTED, reason)
    cause = Cause.import_error if check.refusal is Refusal.import_error else Cause.launch_failed
    return End(Outcome.ERROR, join_sentences(f"{check.name}: {reason}", check.remedy), cause)


def end_of_exception(error: BaseException) -> End:
    """What an exception makes of a point.

    Args:
        error: What was raised.

    Returns:
        The end, with the last lines of the traceback as evidence.
    """
    words = mask_secrets(f"{type(error).__name__}: {error}".strip())
    reason = words.splitlines()[0]
    told = mask_secrets("".join(traceback.format_exception(error)))
    lines = told.splitlines()[-EVIDENCE_LINES:]
    evidence = (Evidence(lines=lines),)
    if any(sentence in words for sentence in _NO_ATTENTION):
        return End(Outcome.UNSUPPORTED, reason, None, evidence)
    return End(Outcome.ERROR, reason, _cause(error, words), evidence)


def _cause(error: BaseException, words: str) -> Cause:
    if isinstance(error, torch.OutOfMemoryError):
        return Cause.out_of_memory_gpu
    if isinstance(error, MemoryError):
        return Cause.out_of_memory_host
    if isinstance(error, ImportError):
        return Cause.import_error
    named = cause_of(words.splitlines())
    return Cause(named[0]) if named else Cause.exception
