"""A configuration file of a user's own that Hydra could not compose is told in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from hydra_plugins.mxfp8_launcher._own_yaml import MAX_BYTES, read_own
from jobs.errors import UsageError

_BOMB = "\n".join(
    [
        "a: &a [1, 1, 1, 1, 1, 1, 1, 1]",
        *(
            f"{new}: &{new} [{', '.join([f'*{old}'] * 8)}]"
            for old, new in zip("abcdef", "bcdefg", strict=True)
        ),
    ]
)
WRONG = [
    # no mapping of keys
    ("x", " must hold a mapping of keys, got a text; write lines of key: value"),
    ("[1]", " must hold a mapping of keys, got a list; "),
    ("3", " must hold a mapping of keys, got a number; "),
    ("!!set {a}", " must hold a mapping of keys, got "),
    # no list of names
    ("defaults: {a: 1}", " must have a list as its defaults, got a mapping; write a list, as "),
    ("defaults: x", " must have a list as its defaults, got a text; "),
    ("defaults: 3", " must have a list as its defaults, got a number; "),
    ("defaults: null", " must have a list as its defaults, got null; "),
    ("defaults: true", " must have a list as its defaults, got a boolean; "),
    ("defaults: [[a]]", " must list names as its defaults, got ['a']; write one name, "),
    ("defaults: [3]", " must list names as its defaults, got 3; "),
    ("defaults: [null]", " must list names as its defaults, got None; "),
    ("defaults: [{}]", " must list names as its defaults, got {}; "),
    ("defaults: [a: {b: 1}]", " must list names as its defaults, got {'a': {'b': 1}}; "),
    ("defaults: [{a: b, c: d}]", " must list names as its defaults, got {'a': 'b', 'c': 'd'}; "),
    ("defaults: [a: [1]]", " must list names as its defaults, got {'a': [1]}; "),
    ("defaults: ['']", " must list names as its defaults, got ''; "),
    ("defaults: ['???']", " must list names as its defaults, got '???'; "),
    ("defaults: [a: '???']", " must list names as its defaults, got {'a': '???'}; "),
    ("defaults: [_self_, _self_]", " must list each of its defaults once, got '_self_' twice; "),
    ("defaults: [tiny, tiny]", " must list each of its defaults once, got 'tiny' twice; "),
    # what belongs to Hydra
    ("hydra: {mode: x}", " must leave hydra as it is, got the key hydra; take it out"),
    ("defaults: [/hydra/launcher: x]", " must leave hydra as it is, got '/hydra/launcher' in "),
    (
        "defaults: [override hydra/help: x]",
        " must leave hydra as it is, got 'override hydra/help'",
    ),
    ("defaults: [tiny@hydra.job]", " must name a package of this tool, got hydra.job; "),
    ("# @package hydra\nmode: x", " must name a package of this tool, got hydra; "),
    ("# @package a..b\nx: 1", " must name a package of this tool, got a..b; "),
    ("# @package a b\nx: 1", " must begin with # @package NAME, got Too many components"),
    # no data
    ("1: x", " must have texts as keys, got 1; quote it"),
    ("a: {null: x}", " must have texts as keys, got None; quote it"),
    ("a: !!set {b}", " must hold texts, numbers, lists and mappings, got set; quote it"),
    ("a: !!binary YQ==", " must hold texts, numbers, lists and mappings, got bytes; quote it"),
    ("a: ${", " must hold values that can be read, got "),
    ("a: " + "9" * 400, " must hold numbers of at most 300 digits, got 9999"),
    ("a: 0x" + "f" * 6000, " must hold numbers of at most 300 digits, got thousands of digits; "),
    ("a: " + "9" * 5000, ", line 1, must be YAML, got: '9999"),
    ("a: !!int x", ", line 1, must be YAML, got: 'x', which is no int; a text is quoted"),
    ("b: 1\na: !!bool x", ", line 2, must be YAML, got: 'x', which is no bool; "),
    ("a: !!timestamp x", ", line 1, must be YAML, got: 'x', which is no timestamp; "),
    ("!!set (", " must be YAML, got a tag that does not fit what it marks; "),
    ("a: !!python/object:os.system x", ", line 1, must be YAML, got: could not determine a "),
    ("\ta: 1", ", line 1, must be YAML, got: found character"),
    ("a: 1\n---\nb: 1", ", line 2, must be YAML, got: but found another document"),
    ("a: \x00", " must be YAML, got character 0x0; "),
    # no end
    ("a: &a [*a]", " must be nested at most 20 deep, got more; "),
    ("a: &a\n  b: *a", " must be nested at most 20 deep, got more; "),
    ("[" * 100_000, " must be nested at most 20 deep, got more; "),
    ("- " * 3000, " must be nested at most 20 deep, got more; "),
    (_BOMB, " must hold at most 100000 values, got more; "),
    ("#" * (MAX_BYTES + 1), " must be at most 256 KiB, got more; "),
]


@pytest.mark.parametrize(("text", "told"), WRONG, ids=[text[:30] for text, _ in WRONG])
def test_what_hydra_could_not_compose_is_told_with_its_file(
    tmp_path: Path, text: str, told: str
) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as refused:
        read_own(path)
    assert str(refused.value).startswith(f"{path}{told}")
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
    assert list(read_own(path).included) == included


def test_values_are_those_of_omegaconf(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("a: 1e3\nb: [0x10, .inf, yes]\nc: {d: null, e: 2001-01-01}\n")
    expected = {"a": 1000.0, "b": [16, float("inf"), True], "c": {"d": None, "e": "2001-01-01"}}
    assert read_own(path).config == expected
