"""Published figures as a collection, marked as published, for comparison with measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from jobs.errors import RecordError
from jobs.files import read_json
from jobs.record import (
    ArmBenchmark,
    BenchmarkResult,
    Environment,
    Identity,
    Outcome,
    Record,
    Speedup,
    Timing,
    config_value,
)
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult
from jobs.validation import first_problem

NOTE = "published, not measured here"
_CONFIDENCE = 0.95


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PublishedArm(_Strict):
    """Times of one arm in milliseconds."""

    fprop_ms: float = Field(gt=0)
    bprop_ms: float = Field(gt=0)


class PublishedRow(_Strict):
    """One published line.

    `asked` holds only the settings that the source names, by the keys of a point's configuration.
    """

    name: str
    gpu_name: str
    asked: dict[str, Any]
    recipe: PublishedArm
    bf16: PublishedArm
    cudnn: str | None = None
    source: str
    remarks: str = ""


class Published(_Strict):
    """A file of published figures."""

    name: str
    statistic: str = "mean"
    rows: list[PublishedRow]


def load_published(path: Path) -> Collection:
    """Read a file like `docs/results/published.json`; its figures have no interval.

    Raises:
        RecordError: The file cannot be read, or holds something else.
    """
    try:
        content = Published.model_validate(read_json(path))
    except OSError as error:
        raise RecordError(path, f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        problem = f"does not hold published figures: {first_problem(error)}"
        raise RecordError(path, problem) from error
    return Collection(content.name, [_point(row, content.statistic) for row in content.rows])


def _point(row: PublishedRow, statistic: str) -> PointResult:
    batch, seq_len = (config_value(row.asked, f"shape.{key}") for key in ("batch", "seq_len"))
    tokens = batch * seq_len if isinstance(batch, int) and isinstance(seq_len, int) else 0
    recipe = str(config_value(row.asked, "recipe.name") or "recipe")
    benchmark = BenchmarkResult(
        method=f"as published: {row.source}",
        statistic=statistic,
        confidence=_CONFIDENCE,
        arms=[_arm("recipe", recipe, row.recipe, tokens), _arm("bf16", "bf16", row.bf16, tokens)],
        notes=[NOTE, row.remarks],
        fprop_speedup=_speedup(row.bf16.fprop_ms / row.recipe.fprop_ms),
        bprop_speedup=_speedup(row.bf16.bprop_ms / row.recipe.bprop_ms),
    )
    record = Record(
        identity=Identity(point_id=row.name),
        config=row.asked,
        environment=Environment(gpu_name=row.gpu_name, cudnn_transformer_engine=row.cudnn),
        benchmark=benchmark,
        outcome=Outcome.PASSED,
        reason=NOTE,
        command=row.source,
    )
    return PointResult.of_record(record, "published", note=NOTE, partial=True)


def _arm(name: str, precision: str, times: PublishedArm, tokens: int) -> ArmBenchmark:
    return ArmBenchmark(
        arm=name,
        precision=precision,
        fprop=_timing(times.fprop_ms, tokens),
        bprop=_timing(times.bprop_ms, tokens),
    )


def _timing(value_ms: float, tokens: int) -> Timing:
    return Timing(
        samples_ms=[],
        median_ms=value_ms,
        mean_ms=value_ms,
        low_ms=value_ms,
        high_ms=value_ms,
        tokens_per_s=tokens / value_ms * 1e3,
    )


def _speedup(ratio: float) -> Speedup:
    return Speedup(ratio=ratio, low=ratio, high=ratio, claim="speedup")
