"""The report's table of gates: each tensor at its worst point."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from jobs.collect.gate_use import GateUse, gate_uses
from jobs.report import text as show
from jobs.report.points_table import edge_kind
from jobs.status.point_result import PointResult


@dataclass(frozen=True)
class GateRow:
    """A tensor at the point where it is nearest to an edge of its gate, or farthest outside."""

    tensor: str
    point: PointResult
    worst: GateUse
    gated: int
    missed: int

    @property
    def quantity(self) -> str:
        """Name of the measured quantity."""
        return self.worst.quantity

    @property
    def value(self) -> str:
        """Measured value."""
        return show.number(self.worst.value)

    @property
    def gate(self) -> str:
        """Accepted range."""
        low, high = self.worst.error.gate_low, show.number(self.worst.error.gate_high)
        return f"at most {high}" if low is None else f"{show.number(low)} to {high}"

    @property
    def position(self) -> float:
        """Position within the gate, from 0 to 1."""
        return max(0.0, min(1.0, self.worst.position))

    @property
    def used(self) -> str:
        """Share of the gate that is used."""
        return show.percent(self.worst.use)

    @property
    def kind(self) -> str:
        """CSS class."""
        return edge_kind(self.worst.use) if self.worst.error.passed else "bad"


def gate_rows(points: Sequence[PointResult]) -> list[GateRow]:
    """Return a row for each tensor of each arm and reference, the worst first.

    For recipe BF16, both arms are the same and count once.
    """
    tensors: dict[str, list[tuple[GateUse, PointResult]]] = defaultdict(list)
    for point in points:
        validation = point.record.validation if point.record else None
        is_bf16 = point.setting("recipe.name") == "bf16"
        for use in gate_uses(validation) if validation else []:
            if not is_bf16:
                tensors[use.name].append((use, point))
            elif use.error.arm == "recipe":
                tensors[f"{use.name} (bf16)"].append((use, point))
    rows = []
    for name, uses in tensors.items():
        worst, point = max(uses, key=lambda pair: pair[0].use)
        missed = sum(not use.error.passed for use, _ in uses)
        rows.append(GateRow(name, point, worst, len(uses), missed))
    return sorted(rows, key=lambda row: -row.worst.use)
