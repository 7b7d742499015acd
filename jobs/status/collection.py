"""Everything gathered by one `collect`, or read by one `compare`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobs.record import State
from jobs.status.exit_code import exit_code
from jobs.status.point_result import PointResult, with_labels
from jobs.sweeps.file_problem import FileProblem


@dataclass(frozen=True)
class Collection:
    """Points with the files and problems that belong to them.

    Attributes:
        name: Display name, and the name of its folder.
        points: Every planned point; labels are made unique within the collection.
        folder: Folder of its files; None if it was only read, not gathered.
        sweeps: Content of `sweep.json`, by sweep id.
        problems: Files that could not be used.
        job_ids: Jobs whose folders were found.
        notes: Limits of the scheduler's answer when the collection was gathered.
        baseline: True for a baseline, which holds good records of any GPU.
    """

    name: str
    points: list[PointResult]
    folder: Path | None = None
    sweeps: dict[str, dict[str, Any]] = field(default_factory=dict)
    problems: list[FileProblem] = field(default_factory=list)
    job_ids: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    baseline: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", with_labels(self.points))

    @property
    def totals(self) -> dict[str, int]:
        """Number of points in each state; `planned` is their sum."""
        counts = Counter(point.state for point in self.points)
        return {"planned": len(self.points)} | {state.value: counts[state] for state in State}

    @property
    def damage(self) -> list[FileProblem]:
        """Problems that may hide points."""
        return [problem for problem in self.problems if problem.of_plan]

    def exit_code(self, *, allow_unsupported: bool = False) -> int:
        """Return the exit code of a verb that ends with these points."""
        states = [point.state for point in self.points]
        return exit_code(states, allow_unsupported=allow_unsupported, damaged=bool(self.damage))
