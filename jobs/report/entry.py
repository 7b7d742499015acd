"""One point of the report: its flat row, its name beside the others, and its place."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from jobs.collect.points_table import Value, row
from jobs.status.point_result import PointResult

_NAMED_IF_DIFFERENT = ("seq_len", "recipe", "gpu")
_Place = tuple[int, str, float, str, float, str]


@dataclass(frozen=True)
class Entry:
    """A point with its flat row."""

    point: PointResult
    row: dict[str, Value]

    @classmethod
    def of(cls, point: PointResult) -> Entry:
        """Return the entry of a point."""
        return cls(point, row(point))

    @property
    def is_probe(self) -> bool:
        """True if the point only fingerprints its node."""
        return self.row["job"] == "probe"

    @property
    def place(self) -> _Place:
        """Sort key: shape, length and recipe; then probes, then points without a plan."""
        rest = _pad_numbers(f"{self.row['gpu']} {self.point.differences}")
        if self.is_probe or self.row["shape"] is None:
            return 1 if self.is_probe else 2, "", 0, "", 0, rest
        length, batch = (
            number if (number := self.number(name)) is not None else math.inf
            for name in ("seq_len", "batch")
        )
        return 0, str(self.row["shape"]), length, str(self.row["recipe"]), batch, rest

    def number(self, column: str) -> float | None:
        """Return a finite number of the row, or None."""
        value = self.row[column]
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value) if math.isfinite(value) else None

    def text(self, column: str) -> str:
        """Return a value of the row as text; empty without a value."""
        value = self.row[column]
        return "" if value is None else str(value)


def name_entries(entries: Sequence[Entry]) -> list[str]:
    """Return a unique name for each entry: its shape, and what differs within the report.

    Points of the same configuration are numbered as runs.
    """
    layers = [entry for entry in entries if not entry.is_probe]
    different = {name for name in _NAMED_IF_DIFFERENT if _differs(name, layers)}
    many_gpus = _differs("gpu", entries)
    names = [_name(entry, different, many_gpus) for entry in entries]
    counts, runs = Counter(names), Counter[str]()
    for place, name in enumerate(names):
        if counts[name] > 1:
            runs[name] += 1
            names[place] = f"{name} run {runs[name]}"
    return names


def _name(entry: Entry, different: set[str], many_gpus: bool) -> str:
    values, point = entry.row, entry.point
    if entry.is_probe:
        return f"probe {values['gpu']}" if many_gpus else "probe"
    if values["shape"] is None:
        return point.point_id
    batch = f"b={values['batch']}" if values["batch"] not in (None, 1) else ""
    length = f"s={values['seq_len']}" if values["seq_len"] is not None else ""
    named = {"seq_len": length, "recipe": entry.text("recipe"), "gpu": entry.text("gpu")}
    parts = [str(values["shape"]), batch]
    parts += [part for name, part in named.items() if name in different]
    return " ".join(part for part in [*parts, point.differences] if part)


def _differs(column: str, entries: Sequence[Entry]) -> bool:
    return len({entry.row[column] for entry in entries} - {None}) > 1


def _pad_numbers(text: str) -> str:
    """Return text that sorts by the numbers in it."""
    return re.sub(r"\d+", lambda match: match[0].zfill(12), text)
