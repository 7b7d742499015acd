"""The report's table of points, and that of the tensors nearest to their gates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from jobs.collect.gate_use import GateUse, gate_uses
from jobs.collect.points_table import Value
from jobs.report import text as show
from jobs.report.row_names import row_names, row_order
from jobs.status.point_result import PointResult


@dataclass(frozen=True)
class Cell:
    """One cell: what is shown, by what it is sorted, and what stands small beside it."""

    text: str
    key: float | str | None = None
    small: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Column:
    """A column of the table of points."""

    title: str
    numeric: bool
    hint: str = ""


_SPEEDUP_HINT = (
    "BF16 time over the recipe's time, with its interval; noise alone: BF16 against itself"
)

POINT_COLUMNS = (
    Column("Point", False, "shape, and what differs within this report; opens the record"),
    Column("State", False),
    Column("Recipe", False),
    Column("GPU", False),
    Column("Length", True, "tokens of a sequence"),
    Column("fprop speedup", True, _SPEEDUP_HINT),
    Column("bprop speedup", True, _SPEEDUP_HINT),
    Column("fprop ms", True, "the recipe's arm; small: the BF16 arm"),
    Column("bprop ms", True, "the recipe's arm; small: the BF16 arm"),
    Column("Error of out", True, "relative L2 against FP32; small: what BF16 loses by itself"),
    Column("Gate used", True, "0 is the middle of the gate, 100 % its edge"),
    Column("Notes of the benchmark", False, "what to know before its times are used"),
    Column("Job", False),
    Column("Node", False),
)


@dataclass(frozen=True)
class PointRow:
    """A row of the table of points."""

    point: PointResult
    cells: list[Cell]
    filters: dict[str, str]


def point_table(
    points: Sequence[PointResult], rows: Sequence[dict[str, Value]]
) -> tuple[list[Column], list[PointRow]]:
    """The table of points as it is shown.

    Args:
        points: Collected points.
        rows: Their flat rows, as `table.row` made them.

    Returns:
        The columns that tell something, and a row for each point, by shape, length
        and recipe.
    """
    seen = {str(row["gpu"]): str(row["gpu_name"]) for row in rows if row["gpu_name"]}
    names = row_names(points, rows)
    made = [
        _point_row(points[place], rows[place], Cell(names[place], f"{number:06d}"), seen)
        for number, place in enumerate(row_order(points, rows))
    ]
    kept = [place for place in range(len(POINT_COLUMNS)) if not made or _says(made, place)]
    return (
        [POINT_COLUMNS[place] for place in kept],
        [replace(row, cells=[row.cells[place] for place in kept]) for row in made],
    )


def _says(rows: Sequence[PointRow], place: int) -> bool:
    """Return True if a column has values; for the GPU, several different ones."""
    texts = {row.cells[place].text for row in rows}
    return len(texts) > 1 if POINT_COLUMNS[place].title == "GPU" else texts != {show.NOTHING}


def _point_row(
    point: PointResult, row: dict[str, Value], name: Cell, seen: dict[str, str]
) -> PointRow:
    def of(name: str) -> float | None:
        value = row[name]
        return float(value) if isinstance(value, int | float) else None

    # What left no record is called as the points beside it that were asked for the same GPU.
    asked = str(row["gpu"] or show.NOTHING)
    gpu = str(row["gpu_name"] or seen.get(asked, asked)).removeprefix("NVIDIA ")
    shape = str(row["shape"] or point.point_id)
    recipe = str(row["recipe"] or show.NOTHING)
    length = of("seq_len")
    if row["job"] == "probe":  # it fingerprints the node: neither shape nor recipe is run
        shape, recipe, length = "probe", show.NOTHING, None
    use = of("gate_use")
    cells = [
        replace(name, small=point.point_id),
        Cell(point.state, point.state, point.cause or ""),
        Cell(recipe, recipe, "emulated" if row["emulated"] else ""),
        Cell(gpu, gpu),
        Cell(show.NOTHING if length is None else f"{length:.0f}", length),
        _speedup(row, "fprop"),
        _speedup(row, "bprop"),
        Cell(
            show.milliseconds(of("recipe_fprop_median_ms")),
            of("recipe_fprop_median_ms"),
            _beside(of("bf16_fprop_median_ms")),
        ),
        Cell(
            show.milliseconds(of("recipe_bprop_median_ms")),
            of("recipe_bprop_median_ms"),
            _beside(of("bf16_bprop_median_ms")),
        ),
        Cell(
            show.number(of("out_rel_l2")),
            of("out_rel_l2"),
            _beside(of("bf16_out_rel_l2"), show.number),
        ),
        Cell(show.percent(use), use, str(row["gate_use_tensor"] or ""), _edge(use)),
        _notes(row),
        Cell(str(point.job_id or show.NOTHING), _job_key(point.job_id)),
        Cell(str(row["host"] or show.NOTHING), str(row["host"] or "")),
    ]
    return PointRow(
        point, cells, {"state": point.state, "recipe": recipe, "shape": shape, "gpu": gpu}
    )


def _notes(row: dict[str, Value]) -> Cell:
    """A flag that is seen in a long table, and beside it the notes' own words."""
    notes = str(row["benchmark_notes"] or "")
    return Cell("⚑", notes, notes, "notes") if notes else Cell(show.NOTHING)


def _job_key(job_id: str | None) -> str:
    """A job's id so that text order is number order."""
    return "_".join(part.zfill(10) for part in (job_id or "").split("_"))


def _beside(value: float | None, shown: Callable[[float | None], str] = show.milliseconds) -> str:
    return "" if value is None else f"bf16 {shown(value)}"


def _speedup(row: dict[str, Value], direction: str) -> Cell:
    value, claim = row[f"{direction}_speedup"], row[f"{direction}_speedup_claim"]
    if claim == "emulated":
        return Cell("no claim", None, "emulated")
    if not isinstance(value, float):
        return Cell(show.NOTHING)
    low, high = row[f"{direction}_speedup_low"], row[f"{direction}_speedup_high"]
    ends = (low if isinstance(low, float) else None, high if isinstance(high, float) else None)
    small = "noise alone" if claim == "noise" else show.interval(*ends)
    return Cell(show.times(value), value, small)


def _edge(use: float | None) -> str:
    if use is None:
        return ""
    return "bad" if use > 1 else "near" if use > 0.8 else "good"


@dataclass(frozen=True)
class EdgeRow:
    """A tensor, at the point where it comes nearest to its gate or lies farthest outside."""

    point: PointResult
    tensor: str
    quantity: str
    value: str
    gate: str
    position: float
    used: str
    kind: str
    gated: int
    missed: int


def edge_rows(points: Sequence[PointResult]) -> list[EdgeRow]:
    """Every gated tensor at its worst point.

    BF16 is told once: where the recipe is BF16 itself, both arms are one and the same.

    Args:
        points: Collected points.

    Returns:
        A row for each tensor of each arm and reference, the worst first.
    """
    found: dict[str, list[tuple[GateUse, PointResult]]] = defaultdict(list)
    for point in points:
        validation = point.record.validation if point.record else None
        is_bf16 = point.setting("recipe.name") == "bf16"
        for use in gate_uses(validation) if validation else []:
            if not is_bf16:
                found[use.name].append((use, point))
            elif use.error.arm == "recipe":
                found[f"{use.name} (bf16)"].append((use, point))
    made = [_edge_row(name, uses) for name, uses in found.items()]
    return [row for _, row in sorted(made, key=lambda pair: -pair[0])]


def _edge_row(name: str, uses: list[tuple[GateUse, PointResult]]) -> tuple[float, EdgeRow]:
    """The worst of one tensor's uses, and how much of its gate that one uses."""
    use, point = max(uses, key=lambda pair: pair[0].use)
    error = use.error
    high = show.number(error.gate_high)
    gate = f"at most {high}"
    if error.gate_low is not None:
        gate = f"{show.number(error.gate_low)} to {high}"
    return use.use, EdgeRow(
        point,
        name,
        use.quantity,
        show.number(use.value),
        gate,
        max(0.0, min(1.0, use.position)),
        show.percent(use.use),
        _edge(use.use) if error.passed else "bad",
        len(uses),
        sum(not one.error.passed for one, _ in uses),
    )
