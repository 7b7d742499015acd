"""The committed records of a GPU machine, by their names on the page."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from conf.choices import Backend, Profiler
from conf.plain import from_plain
from conf.schema import Point
from jobs.record import ArmBenchmark, Record, StageTiming, TensorError


@dataclass(frozen=True)
class NamedRecord:
    """One record with its name in `tools.gpu.points` and its typed configuration."""

    name: str
    record: Record
    point: Point

    @property
    def measured(self) -> bool:
        """True if the GPU was timed, and not to demonstrate a profiler."""
        timed = self.record.benchmark is not None and self.point.backend is Backend.te
        return timed and self.point.benchmark.profile is Profiler.none

    @property
    def stages(self) -> list[StageTiming]:
        """Times of all stages, empty if none was timed."""
        return self.record.benchmark.stages if self.record.benchmark else []

    def arm(self, name: str) -> ArmBenchmark | None:
        """Return the times of one arm, None if nothing was timed."""
        arms = self.record.benchmark.arms if self.record.benchmark else []
        return next((arm for arm in arms if arm.arm == name), None)

    def error(self, tensor: str, arm: str) -> TensorError | None:
        """Return a tensor's error against FP32, None if nothing was validated."""
        errors = self.record.validation.tensors if self.record.validation else []
        key = (tensor, arm, "fp32")
        return next((e for e in errors if (e.tensor, e.arm, e.reference) == key), None)

    def rope_ms(self, direction: str) -> float | None:
        """Return RoPE's time as a stage of the recipe's arm, None if stages were not timed."""
        key = ("recipe", "rope", direction)
        times = (s.median_ms for s in self.stages if (s.arm, s.stage, s.direction) == key)
        return next(times, None)


def read_records(path: Path) -> dict[str, NamedRecord]:
    """Read the `records.jsonl` of `tools.gpu.results`, by name in the order of the first runs.

    The last record of a point counts.
    """
    records: dict[str, NamedRecord] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        record = Record.model_validate(entry["record"])
        point = from_plain(Point, record.config)
        records[entry["name"]] = NamedRecord(entry["name"], record, point)
    return records
