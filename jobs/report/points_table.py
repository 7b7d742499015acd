"""The report's table of points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from jobs.report import text as show
from jobs.report.entry import Entry, name_entries
from jobs.status.point_result import PointResult

_NEAR_EDGE = 0.8


@dataclass(frozen=True)
class Cell:
    """Text of a cell, the value that sorts it, and small text beside it."""

    text: str
    key: float | str | None = None
    small: str = ""
    kind: str = ""


@dataclass(frozen=True)
class PointRow:
    """A row of the table.

    Attributes:
        entry: The point.
        name: Unique name.
        place: Number of the row.
        gpu: Display name of the GPU.
        cells: A cell for each column that is shown.
    """

    entry: Entry
    name: str
    place: int
    gpu: str
    cells: list[Cell] = field(default_factory=list)

    @property
    def point(self) -> PointResult:
        """The point."""
        return self.entry.point

    @property
    def recipe(self) -> str:
        """Display name of the recipe; a probe runs none."""
        return "" if self.entry.is_probe else self.entry.text("recipe")

    @property
    def filters(self) -> dict[str, str]:
        """Values by which the table is filtered."""
        shape = "probe" if self.entry.is_probe else self.entry.text("shape")
        return {
            "state": self.point.state,
            "recipe": self.recipe or show.NOTHING,
            "shape": shape or self.point.point_id,
            "gpu": self.gpu,
        }


@dataclass(frozen=True)
class Column:
    """A column of the table."""

    title: str
    cell: Callable[[PointRow], Cell]
    numeric: bool = False
    hint: str = ""


def build_table(entries: Sequence[Entry]) -> tuple[list[Column], list[PointRow]]:
    """Return the columns that have values, and a row for each point by shape, length, recipe."""
    gpu_names = {e.row["gpu"]: e.text("gpu_name") for e in entries if e.row["gpu_name"]}
    names = name_entries(entries)
    order = sorted(range(len(entries)), key=lambda place: entries[place].place)
    rows = []
    for number, place in enumerate(order):
        entry = entries[place]
        # A point without a record has the GPU's name from a point of the same setting.
        gpu = entry.text("gpu_name") or gpu_names.get(entry.row["gpu"]) or entry.text("gpu")
        gpu = gpu.removeprefix("NVIDIA ") or show.NOTHING
        rows.append(PointRow(entry, names[place], number, gpu))
    columns = [column for column in COLUMNS if not rows or _has_values(column, rows)]
    for row in rows:
        row.cells.extend(column.cell(row) for column in columns)
    return columns, rows


def edge_kind(use: float | None) -> str:
    """Return the CSS class of a use of a gate."""
    if use is None:
        return ""
    return "bad" if use > 1 else "near" if use > _NEAR_EDGE else "good"


def _has_values(column: Column, rows: Sequence[PointRow]) -> bool:
    """Return True if a column has values; for the GPU, several different ones."""
    texts = {column.cell(row).text for row in rows}
    return len(texts) > 1 if column.title == "GPU" else texts != {show.NOTHING}


def _point_cell(row: PointRow) -> Cell:
    return Cell(row.name, f"{row.place:06d}", row.point.point_id)


def _state_cell(row: PointRow) -> Cell:
    return Cell(row.point.state, row.point.state, row.point.cause or "")


def _recipe_cell(row: PointRow) -> Cell:
    recipe = row.recipe or show.NOTHING
    return Cell(recipe, recipe, "emulated" if row.entry.row["emulated"] else "")


def _gpu_cell(row: PointRow) -> Cell:
    return Cell(row.gpu, row.gpu)


def _length_cell(row: PointRow) -> Cell:
    length = None if row.entry.is_probe else row.entry.number("seq_len")
    return Cell(show.NOTHING if length is None else f"{length:.0f}", length)


def _speedup_cell(direction: str) -> Callable[[PointRow], Cell]:
    def cell(row: PointRow) -> Cell:
        prefix = f"{direction}_speedup"
        value, claim = row.entry.number(prefix), row.entry.row[f"{prefix}_claim"]
        if claim == "emulated":
            return Cell("no claim", None, "emulated")
        if value is None:
            return Cell(show.NOTHING)
        interval = show.interval(*(row.entry.number(f"{prefix}_{end}") for end in ("low", "high")))
        return Cell(show.times(value), value, "noise only" if claim == "noise" else interval)

    return cell


def _arms_cell(
    recipe_column: str, bf16_column: str, display: Callable[[float | None], str]
) -> Callable[[PointRow], Cell]:
    """Return a cell with the recipe's value, and the BF16 arm's beside it."""

    def cell(row: PointRow) -> Cell:
        value, bf16 = row.entry.number(recipe_column), row.entry.number(bf16_column)
        return Cell(display(value), value, "" if bf16 is None else f"bf16 {display(bf16)}")

    return cell


def _time_cell(direction: str) -> Callable[[PointRow], Cell]:
    recipe, bf16 = (f"{arm}_{direction}_median_ms" for arm in ("recipe", "bf16"))
    return _arms_cell(recipe, bf16, show.milliseconds)


def _gate_cell(row: PointRow) -> Cell:
    use = row.entry.number("gate_use")
    return Cell(show.percent(use), use, row.entry.text("gate_use_tensor"), edge_kind(use))


def _notes_cell(row: PointRow) -> Cell:
    """Return a flag that stands out in a long table, with the notes beside it."""
    notes = row.entry.text("benchmark_notes")
    return Cell("⚑", notes, notes, "notes") if notes else Cell(show.NOTHING)


def _job_cell(row: PointRow) -> Cell:
    job_id = row.point.job_id or ""
    key = "_".join(part.zfill(10) for part in job_id.split("_"))
    return Cell(job_id or show.NOTHING, key)


def _node_cell(row: PointRow) -> Cell:
    host = row.entry.text("host")
    return Cell(host or show.NOTHING, host)


_SPEEDUP_HINT = (
    "BF16 time over the recipe's time, with its interval; noise only: BF16 against BF16"
)
_TIME_HINT = "the recipe's arm; small: the BF16 arm"

COLUMNS = (
    Column(
        "Point",
        _point_cell,
        hint="shape, and what differs within this report; links to the record",
    ),
    Column("State", _state_cell),
    Column("Recipe", _recipe_cell),
    Column("GPU", _gpu_cell),
    Column("Length", _length_cell, True, "tokens of a sequence"),
    Column("fprop speedup", _speedup_cell("fprop"), True, _SPEEDUP_HINT),
    Column("bprop speedup", _speedup_cell("bprop"), True, _SPEEDUP_HINT),
    Column("fprop ms", _time_cell("fprop"), True, _TIME_HINT),
    Column("bprop ms", _time_cell("bprop"), True, _TIME_HINT),
    Column(
        "Error of out",
        _arms_cell("out_rel_l2", "bf16_out_rel_l2", show.number),
        True,
        "relative L2 against FP32; small: error of the BF16 arm",
    ),
    Column("Gate used", _gate_cell, True, "0 is the middle of the gate, 100 % its edge"),
    Column("Notes of the benchmark", _notes_cell, hint="limits of the measured times"),
    Column("Job", _job_cell),
    Column("Node", _node_cell),
)
