"""The table of points as Parquet, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

from jobs.collect.points_table import COLUMNS, Value
from jobs.files import replace_atomically
from jobs.text import plain_text

Rows = Sequence[dict[str, Value]]

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\n")


def write_parquet(rows: Rows, path: Path) -> None:
    """Write typed columns; a column without a value keeps its type."""
    import pyarrow
    import pyarrow.parquet

    kinds = {
        str: pyarrow.string(),
        int: pyarrow.int64(),
        float: pyarrow.float64(),
        bool: pyarrow.bool_(),
    }
    schema = pyarrow.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])
    columns = {name: [_encodable(row[name]) for row in rows] for name in COLUMNS}
    with replace_atomically(path) as part:
        pyarrow.parquet.write_table(pyarrow.table(columns, schema=schema), part)


def csv_text(rows: Rows) -> str:
    """Return the table as CSV with a header; None is an empty field.

    Text that a spreadsheet would run as a formula gets a leading apostrophe; control characters
    are replaced by their codes.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([_harmless(row[name]) for name in COLUMNS])
    return buffer.getvalue()


def json_text(rows: Rows) -> str:
    """Return the table as a JSON list of objects, one row a line."""
    lines = (json.dumps({name: _encodable(row[name]) for name in COLUMNS}) for row in rows)
    return "[\n" + ",\n".join(lines) + "\n]\n"


def _harmless(value: Value) -> Value:
    if isinstance(value, str):
        text = plain_text(value)
        return f"'{text}" if text.lstrip(" ").startswith(_FORMULA_STARTS) else text
    return value


def _encodable(value: Value) -> Value:
    """Return text without lone surrogates, which UTF-8 cannot encode."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
