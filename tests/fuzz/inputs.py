"""Values that break readers, and changes to good files and tables."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy


def words(text: str, *more: str) -> SearchStrategy[str]:
    """Return a strategy that picks one of the words of a text, or one of `more`."""
    return st.sampled_from([*text.split(), *more])


NASTY_TEXT = words(
    """.. ../../etc/passwd / ~ - -- <script>alert(1)</script> =1+1 @here ${oc.env:HOME} ${nope} %j
    NaN -Infinity 1e999 null true""",
    *("", " ", "a\nb", "\x00", "\x1b[2J\x9b1m", "\u202e", "\ud800", "\x85"),
    *("9" * 400, "9" * 5000, "x" * 5000),
)
TEXT = NASTY_TEXT | st.text(max_size=12)
NUMBERS = (
    st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from([10**400, -1, 0, 2**63, 1e308, 5e-324, 10**19])
)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
BYTES = st.binary(max_size=40)
CELLS = words(
    """PENDING RUNNING COMPLETING CANCELLED+ OUT_OF_ME+ + NODE_FAIL REQUEUED COMPLETED 0:53 0:125
    9:0 : 1-02:03:04 1:2:3:4 14_[2-7%2] 14_2 14+0 14.batch 14_2.0 . _ ٣ ² (null) N/A""",
    "CANCELLED by 1000",
)


def _paths(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every part of a JSON value; of a list only its first element's."""
    inner: list[tuple[Any, ...]] = []
    if isinstance(value, dict):
        inner = [p for key, part in value.items() for p in _paths(part, (*path, key))]
    elif isinstance(value, list):
        inner = [p for i, part in enumerate(value[:1]) for p in _paths(part, (*path, i))]
    return [path, *inner]


@st.composite
def changed_json(draw: st.DrawFn, good: str) -> str:
    """A good JSON text with some values replaced or keys removed."""
    content = json.loads(good)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(_paths(content)))
        if not path:
            content = draw(JSON)
            continue
        part: Any = content
        for key in path[:-1]:
            part = part[key]
        if isinstance(part, dict) and draw(st.booleans()):
            part.pop(path[-1])
        else:
            part[path[-1]] = draw(JSON)
    return json.dumps(content)


@st.composite
def changed_bytes(draw: st.DrawFn, good: bytes) -> bytes:
    """A good text with bytes inserted, truncated, or repeated."""
    start = draw(st.integers(0, len(good)))
    tail = draw(st.sampled_from([b"", good[start:], good[start + 1 :], good]))
    return good[:start] + draw(BYTES | st.just(b"[" * 5000) | st.just(b'{"a":' * 5000)) + tail


def changed(good: str) -> SearchStrategy[bytes]:
    """Changed JSON or changed bytes of a good text; of a file of JSON lines, the last line."""
    before, _, last = good.rstrip("\n").rpartition("\n")
    lines = last.startswith("{") and last.endswith("}") and before != ""
    line, head = (last, f"{before}\n") if lines else (good, "")
    as_bytes = changed_json(line).map(lambda text: (head + text).encode("utf-8", "surrogatepass"))
    return as_bytes | changed_bytes(good.encode())


@st.composite
def changed_lines(draw: st.DrawFn, good: list[str]) -> str:
    """Rows of a table with cells changed, rows repeated or swapped."""
    rows = [
        draw(st.sampled_from(good) | st.text(max_size=60)) for _ in range(draw(st.integers(0, 5)))
    ]
    return "\n".join(draw(changed_cells(row)) for row in rows)


@st.composite
def changed_cells(draw: st.DrawFn, row: str) -> str:
    """A row with some cells changed, or truncated."""
    cells = row.split("|")
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(cells) - 1))
        cells[place] = draw(CELLS | TEXT | st.sampled_from(cells))
    if draw(st.integers(0, 9)) == 0:
        cells = cells[: draw(st.integers(0, len(cells)))]
    return "|".join(cells)
