"""Reads the committed records of a GPU machine, by the names that the page gives them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from conf.choices import Backend, Profiler
from conf.plain import from_plain
from conf.schema import Point
from jobs.record import ArmBenchmark, Record, TensorError


@dataclass(frozen=True)
class Named:
    """One record with its name on the page.

    Attributes:
        name: As `tools.gpu.points` has it.
        record: What the node left.
        point: Its configuration, typed.
    """

    name: str
    record: Record
    point: Point

    @property
    def measured(self) -> bool:
        """Whether the GPU was timed, for its figures and not to show a profiler at work."""
        timed = self.record.benchmark is not None and self.point.backend is Backend.te
        return timed and self.point.benchmark.profile is Profiler.none

    def arm(self, name: str) -> ArmBenchmark | None:
        """One arm's figures, None where nothing was timed."""
        benchmark = self.record.benchmark
        arms = benchmark.arms if benchmark else []
        return next((arm for arm in arms if arm.arm == name), None)

    def error(self, tensor: str, arm: str, reference: str = "fp32") -> TensorError | None:
        """One tensor's error, None where nothing was validated."""
        validation = self.record.validation
        errors = validation.tensors if validation else []
        wanted = (tensor, arm, reference)
        return next((e for e in errors if (e.tensor, e.arm, e.reference) == wanted), None)


def read_records(path: Path) -> dict[str, Named]:
    """Reads `records.jsonl`; of a point that ran twice the last one counts.

    Args:
        path: The file that `tools.gpu.results` wrote.

    Returns:
        Records by name, in the order in which they first ran.
    """
    found: dict[str, Named] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        record = Record.model_validate(entry["record"])
        point = from_plain(Point, record.config)
        found[entry["name"]] = Named(entry["name"], record, point)
    return found
