"""Figures that others published, as a collection to compare with that says what it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from jobs.errors import UsageError
from jobs.files import read_json
from jobs.record import (
    DIRECTIONS,
    ArmBenchmark,
    BenchmarkResult,
    Environment,
    Identity,
    Outcome,
    Record,
    Speedup,
    State,
    Timing,
    config_value,
)
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult
from jobs.validation import first_problem

NOTE = "published, not measured here"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PublishedArm(_Strict):
    """Times of one arm in milliseconds."""

    fprop_ms: float = Field(gt=0)
    bprop_ms: float = Field(gt=0)


class PublishedRow(_Strict):
    """One published line: what was said of how it was measured, and its figures.

    `asked` holds only what the source says, by the keys of a point's configuration.
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
    """Reads a file of published figures.

    Args:
        path: Like `docs/results/published.json`.

    Returns:
        A collection whose every point is marked as published and has no interval of its own.

    Raises:
        UsageError: The file is missing, or does not hold published figures.
    """
    try:
        held = Published.model_validate(read_json(path))
    except OSError as error:
        raise UsageError(f"file must be readable, got {path}: {error.strerror}") from error
    except ValueError as error:
        first = first_problem(error)
        raise UsageError(f"file must hold published figures, got {path}: {first}") from error
    return Collection(held.name, [_point(row, held.statistic) for row in held.rows])


def _point(row: PublishedRow, statistic: str) -> PointResult:
    batch, seq_len = (config_value(row.asked, f"shape.{key}") for key in ("batch", "seq_len"))
    tokens = batch * seq_len if isinstance(batch, int) and isinstance(seq_len, int) else 0
    recipe = config_value(row.asked, "recipe.name") or "recipe"
    arms = [
        _arm("recipe", str(recipe), row.recipe, tokens),
        _arm("bf16", "bf16", row.bf16, tokens),
    ]
    speedups = {
        f"{direction}_speedup": _speedup(
            getattr(row.bf16, f"{direction}_ms") / getattr(row.recipe, f"{direction}_ms")
        )
        for direction in DIRECTIONS
    }
    benchmark = BenchmarkResult(
        method=f"as published: {row.source}",
        statistic=statistic,
        confidence=0.95,
        arms=arms,
        notes=[NOTE, row.remarks],
        **speedups,  # type: ignore[arg-type] # two of its optional fields, by name
    )
    record = Record(
        identity=Identity(point_id=row.name),
        config=row.asked,
        environment=Environment.model_validate(
            {"gpu_name": row.gpu_name, "cudnn_transformer_engine": row.cudnn}
        ),
        benchmark=benchmark,
        outcome=Outcome.PASSED,
        reason=NOTE,
        command=row.source,
    )
    return PointResult(
        point_id=row.name,
        sweep_id="published",
        config=row.asked,
        state=State.PASSED,
        reason=NOTE,
        record=record,
        command=row.source,
        note=NOTE,
        partial=True,
    )


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
