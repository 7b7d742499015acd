"""The report's table of provenance: every value of each fact about the environment."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from jobs.collect.points_table import Value
from jobs.environment import LABELS
from jobs.report.entry import Entry

_FACTS = {label: column for column, label in LABELS.items() if column != "host"} | {
    "attention kernel of the recipe": "attention_backend_recipe",
    "attention kernel of BF16": "attention_backend_bf16",
    "variables that change the meaning of a run": "flags",
    "command": "command",
}


@dataclass(frozen=True)
class ProvenanceRow:
    """One fact: every value that occurs, with its number of points."""

    name: str
    values: list[tuple[str, int]]


def provenance_rows(entries: Sequence[Entry]) -> list[ProvenanceRow]:
    """Return the facts that some point has, then the variables."""
    rows = [entry.row for entry in entries if entry.row["host"] or entry.row["finished_at"]]
    facts = []
    for title, column in _FACTS.items():
        counts = Counter(_text(row[column]) for row in rows if row[column] is not None)
        if counts:
            facts.append(ProvenanceRow(title, counts.most_common()))
    return facts + _variables(entries)


def _variables(entries: Sequence[Entry]) -> list[ProvenanceRow]:
    """Return the variables that libraries read; SLURM's own differ between jobs anyway."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    records = [entry.point.record for entry in entries if entry.point.record]
    for record in records:
        for name, value in record.environment.variables.items():
            if not name.startswith("SLURM"):
                counts[name][value] += 1
    for values in counts.values():
        if absent := len(records) - values.total():
            values["not set"] += absent
    return [ProvenanceRow(name, values.most_common()) for name, values in sorted(counts.items())]


def _text(value: Value) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
