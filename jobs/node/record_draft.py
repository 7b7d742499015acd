"""The record while the point runs, and how the point's end becomes its outcome."""

from __future__ import annotations

import dataclasses
import traceback
from dataclasses import dataclass, field

import torch

from jobs.causes import cause_of
from jobs.node.point_file import PointFile
from jobs.record import (
    BenchmarkResult,
    Capability,
    Cause,
    Environment,
    Evidence,
    Identity,
    Outcome,
    Probe,
    Record,
    TelemetrySample,
    Validation,
)
from jobs.record import Check as RecordedCheck
from jobs.span import Span
from jobs.text import join_sentences, mask_secrets
from mxfp8_attention.capability.checks import Check, Refusal

EVIDENCE_LINES = 20
# PyTorch and Transformer Engine raise this if no attention kernel accepts the inputs.
_NO_ATTENTION = "No dot product attention backend is available"


class RefusedError(Exception):
    """A failed check that keeps the point from running here."""

    def __init__(self, check: Check) -> None:
        super().__init__(check.reason)
        self.check = check


@dataclass(frozen=True)
class Ending:
    """How a point ended: its outcome with reason, cause and evidence."""

    outcome: Outcome
    reason: str = ""
    cause: Cause | None = None
    evidence: tuple[Evidence, ...] = ()

    @classmethod
    def of_refusal(cls, check: Check) -> Ending:
        """Return UNSUPPORTED, or ERROR for a wrong GPU or a broken package beside it."""
        if check.refusal is Refusal.unsupported:
            return cls(Outcome.UNSUPPORTED, check.reason)
        broken = check.refusal is Refusal.import_error
        cause = Cause.import_error if broken else Cause.launch_failed
        reason = join_sentences(f"{check.name}: {check.reason}", check.remedy)
        return cls(Outcome.ERROR, reason, cause)

    @classmethod
    def of_exception(cls, error: BaseException) -> Ending:
        """Return ERROR with the end of the traceback, or UNSUPPORTED without a kernel."""
        text = mask_secrets(f"{type(error).__name__}: {error}".strip())
        reason = text.splitlines()[0]
        trace = mask_secrets("".join(traceback.format_exception(error)))
        evidence = (Evidence(lines=trace.splitlines()[-EVIDENCE_LINES:]),)
        if _NO_ATTENTION in text:
            return cls(Outcome.UNSUPPORTED, reason, None, evidence)
        return cls(Outcome.ERROR, reason, _cause(error, text), evidence)


@dataclass
class RecordDraft:
    """Everything that a record holds, filled in as the point runs."""

    identity: Identity
    point_file: PointFile
    span: Span = field(default_factory=Span)
    environment: Environment = field(default_factory=lambda: Environment())
    checks: list[Check] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    attention_backend: dict[str, str] = field(default_factory=dict)
    validation: Validation | None = None
    benchmark: BenchmarkResult | None = None
    probe: Probe | None = None
    telemetry: list[TelemetrySample] = field(default_factory=list)

    def finish(self, ending: Ending) -> Record:
        """Return the finished record."""
        return Record(
            identity=self.identity,
            config=self.point_file.config,
            environment=self.environment,
            capability=Capability(
                checks=[_recorded(check) for check in self.checks],
                attention_backend=self.attention_backend,
                flags=self.flags,
            ),
            validation=self.validation,
            benchmark=self.benchmark,
            probe=self.probe,
            telemetry=self.telemetry,
            outcome=ending.outcome,
            cause=ending.cause,
            reason=ending.reason,
            evidence=list(ending.evidence),
            command=self.point_file.text("command"),
            **self.span.times(),
        )


def _recorded(check: Check) -> RecordedCheck:
    fields = dataclasses.asdict(check)
    del fields["refusal"]
    return RecordedCheck(**fields)


def _cause(error: BaseException, text: str) -> Cause:
    if isinstance(error, torch.OutOfMemoryError):
        return Cause.out_of_memory_gpu
    if isinstance(error, MemoryError):
        return Cause.out_of_memory_host
    if isinstance(error, ImportError):
        return Cause.import_error
    match = cause_of(text.splitlines())
    return Cause(match[0]) if match else Cause.exception
