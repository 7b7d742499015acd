"""What a fuzzed reader is, and the values that go wrong anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy


@dataclass(frozen=True)
class Reader:
    """One thing that the tool reads.

    Attributes:
        name: What it is.
        inputs: What it is fed.
        read: Reads one input; tells whether it was refused in the tool's own words, and raises
            anything else where it breaks its word.
        turn: Examples a turn.
        sound: An input that must not be refused: one that is shows a fault of the benchmark.
        note: What the count of refusals means, where it is not plain.
    """

    name: str
    inputs: SearchStrategy[Any]
    read: Callable[[Any], bool]
    turn: int
    sound: Any
    note: str = ""


NASTY_TEXT = st.sampled_from(
    [
        *("", " ", "..", "../../etc/passwd", "/", "~", "-", "--", "a\nb", "\x00", "\x1b[2J\x9b1m"),
        *(
            "<script>alert(1)</script>",
            "=1+1",
            "@here",
            "${oc.env:HOME}",
            "${nope}",
            "%j",
            "\u202e",
        ),
        *(
            "NaN",
            "-Infinity",
            "1e999",
            "null",
            "true",
            "\ud800",
            "9" * 400,
            "9" * 5000,
            "x" * 5000,
            "\x85",
        ),
    ]
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


def places_of(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a JSON value; of a long list the first alone."""
    inner: list[tuple[Any, ...]] = []
    if isinstance(value, dict):
        inner = [p for key, held in value.items() for p in places_of(held, (*path, key))]
    elif isinstance(value, list):
        inner = [p for i, held in enumerate(value[:1]) for p in places_of(held, (*path, i))]
    return [path, *inner]


@st.composite
def changed_json(draw: st.DrawFn, good: str) -> str:
    """A good text with other values in some places, keys gone, or nested too deeply."""
    held = json.loads(good)
    for _ in range(draw(st.integers(1, 3))):
        places = places_of(held)
        place = draw(st.sampled_from(places))
        if not place:
            held = draw(JSON)
            continue
        part: Any = held
        for key in place[:-1]:
            part = part[key]
        if isinstance(part, dict) and draw(st.booleans()):
            part.pop(place[-1])
        else:
            part[place[-1]] = draw(JSON)
    return json.dumps(held)


@st.composite
def changed_bytes(draw: st.DrawFn, good: bytes) -> bytes:
    """A good text with other bytes in one place, cut short, doubled, or none of it."""
    start = draw(st.integers(0, len(good)))
    tail = draw(st.sampled_from([b"", good[start:], good[start + 1 :], good]))
    return good[:start] + draw(BYTES | st.just(b"[" * 5000) | st.just(b'{"a":' * 5000)) + tail


def changed(good: str) -> SearchStrategy[bytes]:
    """Both, as bytes; of a file of lines one line."""
    before, _, last = good.rstrip("\n").rpartition("\n")
    lines = last.startswith("{") and last.endswith("}") and before != ""
    line, kept = (last, f"{before}\n") if lines else (good, "")
    as_bytes = changed_json(line).map(lambda text: (kept + text).encode("utf-8", "surrogatepass"))
    return as_bytes | changed_bytes(good.encode())


@st.composite
def changed_lines(draw: st.DrawFn, good: list[str], ends: str = "\n") -> str:
    """Rows of a table with cells changed, rows doubled or swapped."""
    rows = [
        draw(st.sampled_from(good) | st.text(max_size=60)) for _ in range(draw(st.integers(0, 5)))
    ]
    return ends.join(draw(changed_cells(row)) for row in rows)


@st.composite
def changed_cells(draw: st.DrawFn, row: str, separator: str = "|") -> str:
    """One row with some cells changed."""
    cells = row.split(separator)
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(cells) - 1))
        cells[place] = draw(st.sampled_from(CELLS) | TEXT | st.sampled_from(cells))
    if draw(st.integers(0, 9)) == 0:
        cells = cells[: draw(st.integers(0, len(cells)))]
    return separator.join(cells)


CELLS = [
    *("PENDING", "RUNNING", "COMPLETING", "CANCELLED by 1000", "CANCELLED+", "OUT_OF_ME+", "+"),
    *("NODE_FAIL", "REQUEUED", "COMPLETED", "0:53", "0:125", "9:0", ":", "1-02:03:04", "1:2:3:4"),
    *("14_[2-7%2]", "14_2", "14+0", "14.batch", "14_2.0", ".", "_", "٣", "²", "(null)", "N/A"),
]
