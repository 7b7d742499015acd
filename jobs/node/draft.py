"""A record while it is being made: what is known so far survives whatever happens next."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from jobs.node.outcome import End
from jobs.node.point_file import PointFile
from jobs.record import (
    BenchmarkResult,
    Capability,
    Environment,
    Identity,
    Probe,
    Record,
    TelemetrySample,
    Validation,
)
from jobs.record import Check as RecordedCheck
from jobs.span import Span
from mxfp8_attention.capability.checks import Check


@dataclass
class Draft:
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

    def finish(self, end: End) -> Record:
        """The record as it will be written.

        Args:
            end: How the point ended.

        Returns:
            The record.
        """
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
            outcome=end.outcome,
            cause=end.cause,
            reason=end.reason,
            evidence=list(end.evidence),
            command=self.point_file.text("command"),
            **self.span.times(),
        )


def _recorded(check: Check) -> RecordedCheck:
    fields = dataclasses.asdict(check)
    del fields["refusal"]
    return RecordedCheck(**fields)
