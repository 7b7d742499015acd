"""What was gathered: one planned point with its attempts, and the collection of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jobs.perf import emulated_summary, is_emulated
from jobs.record import Outcome, Record, config_value
from jobs.sweeps.labels import without, words_apart
from jobs.sweeps.ledger import PLAN_NAME
from jobs.sweeps.reading import Problem
from jobs.text import plain_text

STATES = ("PLANNED", "PENDING", "RUNNING", "REQUEUED")
"""What a point can be before it has an outcome."""


OUTCOMES = tuple(outcome.value for outcome in Outcome)


def plan_damage(problems: Iterable[Problem]) -> list[Problem]:
    """Those that say that a plan could not be read whole: points may be missing without a name."""
    return [
        problem
        for problem in problems
        if problem.file.rpartition("/")[2].partition(":")[0] in (PLAN_NAME, "sweep.json")
    ]


def outcome_code(states: Iterable[str], *, allow_unsupported: bool, damaged: bool = False) -> int:
    """The exit code of a verb that ends with outcomes.

    Args:
        states: Those of all points.
        allow_unsupported: Whether UNSUPPORTED counts as passed.
        damaged: Whether a plan could not be read whole.

    Returns:
        0 if all PASSED; 1 if one FAILED or is an ERROR; 3 if one is UNSUPPORTED or unfinished,
        if there is none, or if the plan is damaged.
    """
    found = set(states)
    if found & {"FAILED", "ERROR"}:
        return 1
    accepted = {"PASSED", "UNSUPPORTED"} if allow_unsupported else {"PASSED"}
    return 0 if found and found <= accepted and not damaged else 3


@dataclass(frozen=True)
class Quote:
    """Lines of a log or of a record that show why a point ended as it did."""

    lines: list[str]
    file: str | None = None


@dataclass(frozen=True)
class CollectedPoint:
    """One planned point and what became of it.

    Attributes:
        point_id: The point.
        sweep_id: The sweep that planned it.
        config: What was asked, as `conf.plain` writes it; empty where the plan was damaged.
        state: One of STATES or OUTCOMES, nothing else.
        cause: Why it is an ERROR.
        reason: One line: why this state.
        evidence: Lines that show it.
        job_id: The job that ran it last, as people type it.
        attempt: Number of the attempt that counts; None: it never started.
        attempts: How many attempts there were.
        record: What that attempt left.
        record_file: Where that record lies inside the collection's folder.
        logs: Its logs inside the collection's folder, the most telling first.
        command: What was typed.
        note: What sets this row apart from others, like "published, not measured here".
        partial: Whether `config` holds only part of what was asked: the rest is not known.
        apart: What else sets it apart from the points beside it, as `named` finds it.
    """

    point_id: str
    sweep_id: str
    config: dict[str, Any]
    state: str
    cause: str | None = None
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
    apart: str = ""

    def __post_init__(self) -> None:
        assert self.state in STATES + OUTCOMES, self.state

    def asked(self, key: str) -> Any:  # noqa: ANN401 - a config holds any of JSON's types
        """What was asked under a dotted key, None where the plan does not say."""
        return config_value(self.config, key)

    @property
    def emulated(self) -> bool:
        """Whether its record is of emulated arms, timed or not."""
        return self.record is not None and is_emulated(self.record)

    @property
    def label(self) -> str:
        """The point in a few words, as tables and reviewers name it."""
        if self.asked("job") == "probe":
            return plain_text(f"probe {self.asked('gpu.name')}")
        words = [self.asked("recipe.name"), self.asked("shape.name")]
        words += [
            f"{letter}={self.asked(key)}"
            for letter, key in (("b", "shape.batch"), ("s", "shape.seq_len"))
            if self.asked(key) is not None
        ]
        words += [self.asked("gpu.name"), self.apart or None]
        text = " ".join(str(word) for word in words if word is not None)
        return plain_text(text) or self.point_id


def emulated_note(points: Sequence[CollectedPoint]) -> str:
    """How many of these points were emulated, and what that means; empty where none was."""
    emulated = sum(point.emulated for point in points)
    return emulated_summary(emulated, len(points)) if emulated else ""


def named(points: Sequence[CollectedPoint], ignore: Sequence[str] = ()) -> list[CollectedPoint]:
    """The points with labels that tell apart what was asked differently.

    Args:
        points: Points that are shown together.
        ignore: Dotted keys, groups included, that are not told.

    Returns:
        The same points in their order, each with `apart` set.
    """
    texts = words_apart([without(point.config, ignore) for point in points])
    return [
        point if point.apart == text else replace(point, apart=text)
        for point, text in zip(points, texts, strict=True)
    ]


@dataclass(frozen=True)
class Collection:
    """Everything that was gathered for one request.

    Attributes:
        name: What it is called, and its folder's name.
        points: Every planned point, named so that its label tells it from the others.
        folder: Where its files lie; None: only read, not gathered.
        sweeps: What `sweep.json` held, by sweep.
        problems: Files that could not be used.
        job_ids: The jobs whose folders were found.
        notes: What the scheduler could not be asked as it was gathered.
        baseline: It is a baseline: it holds good records of any GPU.
    """

    name: str
    points: list[CollectedPoint]
    folder: Path | None = None
    sweeps: dict[str, dict[str, Any]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    job_ids: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    baseline: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", named(self.points))

    @property
    def totals(self) -> dict[str, int]:
        """How many points are in each outcome and state; `planned` is their sum."""
        counts = Counter(point.state for point in self.points)
        return {"planned": len(self.points)} | {
            name: counts.get(name, 0) for name in OUTCOMES + STATES
        }

    def exit_code(self, *, allow_unsupported: bool = False) -> int:
        """What `outcome_code` says of its points."""
        states = [point.state for point in self.points]
        damage = plan_damage(self.problems)
        return outcome_code(states, allow_unsupported=allow_unsupported, damaged=bool(damage))
