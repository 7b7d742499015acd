"""The result of one planned point, as tables, reports and comparisons read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jobs.perf import emulated_summary, is_emulated
from jobs.record import Cause, Record, State, config_value, state_text
from jobs.sweeps.labels import distinguish, without
from jobs.text import plain_text


@dataclass(frozen=True)
class Quote:
    """Lines of a log or a record that explain a state."""

    lines: list[str]
    file: str | None = None


@dataclass(frozen=True)
class PointResult:
    """One planned point and its state.

    Attributes:
        point_id: Id of the point.
        sweep_id: Sweep that planned it.
        config: Configuration, as `conf.plain` writes it; empty if the plan was damaged.
        state: State of the point.
        cause: Cause of an ERROR.
        reason: One line that explains the state.
        evidence: Lines that show it.
        job_id: Job that ran it last, as people type it.
        attempt: Number of the attempt that counts; None if it never started.
        attempts: Number of attempts.
        record: Record of that attempt.
        record_file: Path of the record inside the collection's folder.
        logs: Paths of its logs inside the collection's folder, most relevant first.
        command: Command line that started it.
        note: Remark that tables show, for example "published, not measured here".
        partial: True if `config` holds only a part of the configuration, as published figures do.
        differences: Settings that set it apart from the points shown beside it.
    """

    point_id: str
    sweep_id: str
    config: dict[str, Any]
    state: State
    cause: Cause | None = None
    reason: str = ""
    evidence: list[Quote] = field(default_factory=list)
    job_id: str | None = None
    attempt: int | None = None
    attempts: int = 0
    record: Record | None = None
    record_file: str | None = None
    logs: list[str] = field(default_factory=list)
    command: str | None = None
    note: str = ""
    partial: bool = False
    differences: str = ""

    @classmethod
    def of_record(
        cls, record: Record, sweep_id: str, *, note: str = "", partial: bool = False
    ) -> PointResult:
        """Return the result of a record that lies outside a sweep."""
        return cls(
            point_id=record.identity.point_id,
            sweep_id=record.identity.sweep_id or sweep_id,
            config=record.config,
            state=State(record.outcome),
            cause=record.cause,
            reason=record.reason,
            evidence=[Quote(piece.lines, piece.file) for piece in record.evidence],
            job_id=record.identity.job_id,
            attempt=record.identity.attempt,
            attempts=1,
            record=record,
            command=record.command,
            note=note,
            partial=partial,
        )

    def setting(self, key: str) -> Any:  # noqa: ANN401 - a config holds any of JSON's types
        """Return the configuration's value of a dotted key, or None."""
        return config_value(self.config, key)

    @property
    def state_text(self) -> str:
        """State with the cause of an error, for display."""
        return state_text(self.state, self.cause)

    @property
    def emulated(self) -> bool:
        """True if its arms were emulated, timed or not."""
        return self.record is not None and is_emulated(self.record)

    @property
    def label(self) -> str:
        """Short description for tables: recipe, shape, GPU, and what sets it apart."""
        if self.setting("job") == "probe":
            return plain_text(f"probe {self.setting('gpu.name')}")
        words = [self.setting("recipe.name"), self.setting("shape.name")]
        words += [
            f"{letter}={self.setting(key)}"
            for letter, key in (("b", "shape.batch"), ("s", "shape.seq_len"))
            if self.setting(key) is not None
        ]
        words += [self.setting("gpu.name"), self.differences or None]
        text = " ".join(str(word) for word in words if word is not None)
        return plain_text(text) or self.point_id


def emulated_note(points: Sequence[PointResult]) -> str:
    """Return a note on how many of these points were emulated; empty if none was."""
    emulated = sum(point.emulated for point in points)
    return emulated_summary(emulated, len(points)) if emulated else ""


def with_labels(points: Sequence[PointResult], ignore: Sequence[str] = ()) -> list[PointResult]:
    """Return the points with labels that differ wherever their configurations do.

    Dotted keys of `ignore`, groups included, stay out of the labels.
    """
    texts = distinguish([without(point.config, ignore) for point in points])
    return [
        point if point.differences == text else replace(point, differences=text)
        for point, text in zip(points, texts, strict=True)
    ]
