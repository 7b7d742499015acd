"""A configuration file that Hydra could not compose is refused with its name and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from hydra_plugins.mxfp8_launcher._config_file import MAX_BYTES, read_config_file
from jobs.errors import ConfigFileError

_BOMB = "\n".join(
    [
        "a: &a [1, 1, 1, 1, 1, 1, 1, 1]",
        *(
            f"{new}: &{new} [{', '.join([f'*{old}'] * 8)}]"
            for old, new in zip("abcdef", "bcdefg", strict=True)
        ),
    ]
)
REFUSED = {
    "not a mapping of keys": ["x", "[1]", "3", "!!set {a}"],
    "not a list of names": [
        *(f"defaults: {value}" for value in ("{a: 1}", "x", "3", "null", "true", "[[a]]", "[3]")),
        *(f"defaults: [{entry}]" for entry in ("null", "{}", "a: {b: 1}", "{a: b, c: d}")),
        *(f"defaults: [{entry}]" for entry in ("a: [1]", "''", "'???'", "a: '???'")),
        *("defaults: [_self_, _self_]", "defaults: [tiny, tiny]"),
    ],
    "Hydra's own": [
        "hydra: {mode: x}",
        *("defaults: [/hydra/launcher: x]", "defaults: [override hydra/help: x]"),
        *("defaults: [tiny@hydra.job]", "# @package hydra\nmode: x"),
        *("# @package a..b\nx: 1", "# @package a b\nx: 1"),
    ],
    "not data": [
        *("1: x", "a: {null: x}", "a: !!set {b}", "a: !!binary YQ==", "a: ${", "!!set (", "a: \0"),
        *("a: " + "9" * 400, "a: 0x" + "f" * 6000),
    ],
    "endless": [
        *("a: &a [*a]", "a: &a\n  b: *a", "[" * 100_000, "- " * 3000, _BOMB),
        "#" * (MAX_BYTES + 1),
    ],
}
REFUSED_LINES = [
    ("a: " + "9" * 5000, 1),
    ("a: !!int x", 1),
    ("b: 1\na: !!bool x", 2),
    ("a: !!timestamp x", 1),
    ("a: !!python/object:os.system x", 1),
    ("\ta: 1", 1),
    ("a: 1\n---\nb: 1", 2),
    *((text, None) for texts in REFUSED.values() for text in texts),
]


@pytest.mark.parametrize(
    ("text", "line"), REFUSED_LINES, ids=[text[:30] for text, _ in REFUSED_LINES]
)
def test_a_wrong_file_is_refused_in_one_line(tmp_path: Path, text: str, line: int | None) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    with pytest.raises(ConfigFileError) as refused:
        read_config_file(path)
    assert (refused.value.path, refused.value.line) == (path, line)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "included"),
    [
        ("", []),
        ("# @package _global_\nwait: true", []),
        ("defaults: []", []),
        ("defaults: [_self_]", []),
        ("defaults: [tiny, _self_, /shape/dsv3@x.y]", ["tiny", "/shape/dsv3"]),
        ("defaults: [/shape: [a, b], optional c: d]", ["/shape/a", "/shape/b", "c/d"]),
        ("defaults: [override /gpu: h200, a: null]", []),
        ("defaults: [/tolerance: '${recipe}']", []),
    ],
)
def test_what_hydra_composes_is_read(tmp_path: Path, text: str, included: list[str]) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    assert list(read_config_file(path).included) == included


def test_values_are_those_of_omegaconf(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("a: 1e3\nb: [0x10, .inf, yes]\nc: {d: null, e: 2001-01-01}\n")
    expected = {"a": 1000.0, "b": [16, float("inf"), True], "c": {"d": None, "e": "2001-01-01"}}
    assert read_config_file(path).config == expected
