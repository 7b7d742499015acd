"""The tables of docs/numerics.md, made from the stored predictions.

`python -m tools.numerics_tables docs/numerics.md` rewrites them in place.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from conf.choices import Projection
from conf.schema import (
    Bf16Recipe,
    Fp8BlockRecipe,
    Fp8CurrentRecipe,
    Fp8DelayedRecipe,
    MxFp8Recipe,
    Recipe,
    Shape,
)
from mxfp8_attention.accuracy.prediction import (
    Expected,
    Prediction,
    StagePrediction,
    TensorPrediction,
)
from mxfp8_attention.accuracy.store import load_prediction
from tools.calibrate import shipped_shapes, variants

_RECIPES: tuple[tuple[str, Recipe], ...] = (
    ("MXFP8", MxFp8Recipe()),
    ("MXFP8, BF16 attention", MxFp8Recipe(fp8_dpa=False)),
    ("FP8 current or delayed", Fp8CurrentRecipe()),
    ("FP8 block", Fp8BlockRecipe()),
    ("FP8 delayed, FP8 attention", Fp8DelayedRecipe(fp8_dpa=True)),
)
_PROJECTION_WEIGHTS = {Projection.fused: ("qkv",), Projection.split: ("q", "kv")}

Row = Sequence[str]


def in_markers(text: str, name: str, table: str) -> str:
    """Replace a table between `<!-- table NAME -->` and `<!-- end NAME -->` in a document.

    Raises:
        ValueError: The document lacks these markers.
    """
    begin, end = f"<!-- table {name} -->\n", f"<!-- end {name} -->"
    if begin not in text or end not in text:
        raise ValueError(f"no markers of table {name} in the document")
    before, _, rest = text.partition(begin)
    return f"{before}{begin}{table}{end}{rest.partition(end)[2]}"


def markdown(head: Row, rows: Sequence[Row]) -> str:
    """Return a Markdown table with columns of numbers aligned to the right."""
    number = [all(row[i][:1].isdigit() for row in rows) for i in range(len(head))]
    rule = ["---:" if right else "---" for right in number]
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, rule, *rows))


def path_errors() -> str:
    """Return the predicted errors over the whole path, a table for each projection."""
    return _sections(_path_head, _path_rows)


def stage_tables() -> str:
    """Return the predicted errors of single stages, a table for each projection."""
    return _sections(_stage_head, _stage_rows)


def seed_deviations() -> str:
    """Return the deviation of each stored MXFP8 prediction over its seeds."""
    rows = []
    for shape in _stored_shapes():
        prediction = load_prediction(shape, MxFp8Recipe())
        if prediction is None:
            continue
        path = {name: row.recipe.deviation for name, row in prediction.tensors.items()}
        heads = {name: row.recipe.worst_head_deviation for name, row in prediction.tensors.items()}
        stages = {
            name: row.recipe.deviation
            for name, row in prediction.stages.items()
            if row.recipe.rel_l2 > row.bf16.rel_l2 * 2
        }
        rows.append(
            [
                shape.name,
                shape.projection.name,
                f"{shape.init_std:.4g}",
                str(len(prediction.seeds)),
            ]
            + [_largest(values) for values in (path, heads, stages)]
        )
    head = ["shape", "projection", "init_std", "seeds", "path", "worst head", "stage"]
    return markdown(head, rows)


TABLES: dict[str, Callable[[], str]] = {
    "path": path_errors,
    "stages": stage_tables,
    "deviations": seed_deviations,
}


def rewrite(document: Path, tables: Mapping[str, Callable[[], str]]) -> None:
    """Rewrite tables of a document in place."""
    text = document.read_text(encoding="utf-8")
    for name, table in tables.items():
        text = in_markers(text, name, table())
    document.write_text(text, encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Rewrite the tables of a document; return 0, or 2 for a wrong command."""
    if len(arguments) != 1:
        print("usage: python -m tools.numerics_tables docs/numerics.md", file=sys.stderr)
        return 2
    rewrite(Path(arguments[0]), TABLES)
    return 0


def _stored_shapes() -> Iterator[Shape]:
    for shape in shipped_shapes().values():
        yield from variants(shape)


def _sections(head: Callable[[Projection], Row], rows_of: Callable[[Shape], Iterator[Row]]) -> str:
    """Return a table for each projection, with rows grouped by shape and initialisation."""
    parts = []
    for projection in Projection:
        rows = [
            [shape.name, f"{shape.init_std:.4g}", *row]
            for shape in _stored_shapes()
            if shape.projection is projection
            for row in rows_of(shape)
        ]
        if rows:
            parts.append(f"\nprojection={projection.name}\n\n")
            parts.append(markdown(["shape", "init_std", *head(projection)], rows))
    return "".join(parts)


def _path_names(projection: Projection) -> list[str]:
    weights = [f"d{name}_weight" for name in (*_PROJECTION_WEIGHTS[projection], "out")]
    return ["q", "k", "v", "attention", "out", "dx", *weights]


def _path_head(projection: Projection) -> Row:
    return ["arm against reference", *_path_names(projection)]


def _path_rows(shape: Shape) -> Iterator[Row]:
    names = _path_names(shape.projection)

    def cells(pick: Callable[[TensorPrediction], Expected], prediction: Prediction) -> list[str]:
        return [_figure(pick(prediction.tensors[name]).rel_l2) for name in names]

    bf16 = load_prediction(shape, Bf16Recipe())
    if bf16 is not None:
        yield ["BF16, FP32", *cells(lambda row: row.bf16, bf16)]
    for label, recipe in _RECIPES:
        prediction = load_prediction(shape, recipe)
        if prediction is None:
            continue
        yield [f"{label}, FP32", *cells(lambda row: row.recipe, prediction)]
        if recipe == MxFp8Recipe():
            yield [f"{label}, BF16", *cells(lambda row: row.recipe_against_bf16, prediction)]


def _stage_names(projection: Projection) -> list[str]:
    weights = [f"d{name}_weight" for name in (*_PROJECTION_WEIGHTS[projection], "out")]
    outputs = ["qkv"] if projection is Projection.fused else ["q_proj", "kv_proj"]
    return [*outputs, "attention", "out", "dattention", "dq", "dk", "dv", "dx", *weights]


def _stage_head(projection: Projection) -> Row:
    return ["arm", *_stage_names(projection)]


def _stage_rows(shape: Shape) -> Iterator[Row]:
    names = _stage_names(shape.projection)

    def cells(
        pick: Callable[[StagePrediction], Expected], rows: Mapping[str, StagePrediction]
    ) -> list[str]:
        return [_figure(pick(rows[name]).rel_l2) for name in names]

    bf16 = load_prediction(shape, Bf16Recipe())
    if bf16 is not None:
        yield ["BF16", *cells(lambda row: row.bf16, bf16.stages)]
    for label, recipe in _RECIPES:
        prediction = load_prediction(shape, recipe)
        if prediction is not None:
            yield [label, *cells(lambda row: row.recipe, prediction.stages)]


def _figure(value: float) -> str:
    return f"{value:.3f}" if value >= 0.01 else f"{value:.4f}"


def _largest(deviations: Mapping[str, float]) -> str:
    name = max(deviations, key=lambda tensor: deviations[tensor])
    return f"{deviations[name]:.1%} ({name})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
