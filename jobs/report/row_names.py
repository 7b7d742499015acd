"""Names and order of the rows in the report's table of points."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from jobs.collect.points_table import Value
from jobs.status.point_result import PointResult

Rows = Sequence[dict[str, Value]]
_TOLD = ("seq_len", "recipe", "gpu")


def row_names(points: Sequence[PointResult], rows: Rows) -> list[str]:
    """Names that tell the points of one report apart.

    Args:
        points: Collected points, named beside each other.
        rows: Their flat rows, as `table.row` made them.

    Returns:
        The shape, and what differs within the report: a length, recipe or GPU that all share is
        told by its column alone. Points that were asked the same are numbered as runs.
    """
    ran = [row for row in rows if row["job"] != "probe"]
    differs = {name for name in _TOLD if _differs(name, ran)}
    many_gpus = _differs("gpu", rows)
    names = [
        _probe_name(row, many_gpus) if row["job"] == "probe" else _name(point, row, differs)
        for point, row in zip(points, rows, strict=True)
    ]
    often, seen = Counter(names), Counter[str]()
    for place, name in enumerate(names):
        if often[name] > 1:
            seen[name] += 1
            names[place] = f"{name} run {seen[name]}"
    return names


def row_order(points: Sequence[PointResult], rows: Rows) -> list[int]:
    """Places of the points by shape, length and recipe; then probes, then what has no plan."""
    return sorted(range(len(rows)), key=lambda place: _key(points[place], rows[place]))


def _key(point: PointResult, row: dict[str, Value]) -> tuple[int, str, float, str, float, str]:
    rest = _by_number(f"{row['gpu']} {point.differences}")
    if row["job"] == "probe" or row["shape"] is None:
        return 1 if row["job"] == "probe" else 2, "", 0, "", 0, rest
    shape, recipe = str(row["shape"]), str(row["recipe"])
    return 0, shape, _number(row["seq_len"]), recipe, _number(row["batch"]), rest


def _by_number(text: str) -> str:
    """A text so that the order of texts is that of the numbers in them."""
    return re.sub(r"\d+", lambda match: match[0].zfill(12), text)


def _number(value: Value) -> float:
    return float(value) if isinstance(value, int | float) else float("inf")


def _differs(name: str, rows: Rows) -> bool:
    return len({row[name] for row in rows} - {None}) > 1


def _probe_name(row: dict[str, Value], many_gpus: bool) -> str:
    return f"probe {row['gpu']}" if many_gpus else "probe"


def _name(point: PointResult, row: dict[str, Value], differs: set[str]) -> str:
    if row["shape"] is None:
        return point.point_id
    batch = f"b={row['batch']}" if row["batch"] not in (None, 1) else ""
    length = f"s={row['seq_len']}" if row["seq_len"] is not None else ""
    told = {"seq_len": length, "recipe": row["recipe"], "gpu": row["gpu"]}
    words = [
        row["shape"],
        batch,
        *(told[name] for name in _TOLD if name in differs),
        point.differences,
    ]
    return " ".join(str(word) for word in words if word)
