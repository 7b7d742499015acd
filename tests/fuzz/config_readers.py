"""A user's own config folder, numbers in every key that takes one, and the environment."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from conf import verbs
from conf.schema import CalibratedTolerance, Fp8DelayedRecipe, SeedTolerance
from jobs.node.point_file import attempt_identity
from jobs.runner.slot import time_left_s
from tests.fuzz.command_line_readers import OVERRIDES, VALUES
from tests.fuzz.reader import BYTES, NASTY_TEXT, NUMBERS, Reader
from tests.fuzz.user import User

_HUGE = (*("9" * digits for digits in (19, 30, 309, 400, 5000)), "0x" + "f" * 6000)
NUMBER_WORDS = st.sampled_from(
    [
        *(*_HUGE, *(f"-{one}" for one in _HUGE)),
        *("inf", "-inf", "nan", "NaN", "+inf", "Infinity", ".inf", "1e400", "-1e400", "1e308"),
        *("1e-400", "5e-324", "1e3", "1_0", "0x10", "0o7", "001", "+1", "-0", "0", "-1", "1.5"),
        *("2147483648", "9223372036854775807", "9223372036854775808", "null", "true", "[1]"),
        *("1,2", "1,inf", "nan,nan", "1e400,1", "1," + "9" * 400, "1," + "9" * 5000, "1,1.0"),
        *("range(1,3)", "range(nan,1)", "range(0,1,0)", "range(0,1,nan)", "range(0,inf)"),
        *("range(0,1,0.0)", "range(0,1e400)", f"range(0,{'9' * 400})", "range(1,2,1e-30)"),
        *("shuffle(range(0,1000000000))", "sort(range(0,1000000000))", "interval(0,nan)"),
        *("int(1e400)", "float(nan)", f"float({'9' * 400})", "int('9')", "choice(1,nan)"),
    ]
) | NUMBERS.map(str)
_GROUPS = st.sampled_from(["cluster", "shape", "gpu", "grid", "benchmark", "launch"])
_FILE_KEYS = st.sampled_from(
    [
        *("name", "seq_len", "hidden", "num_heads", "matches", "request", "device", "scheduler"),
        *(
            "partition",
            "setup",
            "env",
            "requests",
            "sbatch",
            "container",
            "axes",
            "blocks",
            "nope",
        ),
        *("time_min", "share", "defaults", "_target_", "_self_", "1", "null", "a.b", "peak_mxfp8"),
    ]
)
_YAML = st.lists(
    st.builds(
        lambda key, value: f"{key}: {value}",
        _FILE_KEYS,
        st.sampled_from(
            [
                *("[", "{a: 1}", "[1, 2]", "{shape.seq_len: [128, 256]}", "{recipe: [bf16, x]}"),
                *("!!python/object:os.system x", "&a [*a]", "*a", "|\n  text", "{seq_len: 1}"),
                *("[/shape: tiny]", "[own]", "[{override /gpu: h200}]", "2001-01-01", "0o7", "~"),
                *(
                    "{gb300: {partition: x}}",
                    "slurm",
                    "local",
                    "tiny",
                    "1e999",
                    ".nan",
                    "''",
                    "{}",
                ),
            ]
        )
        | VALUES,
    )
    | NASTY_TEXT,
    max_size=5,
).map("\n".join)
_ENTRIES = st.recursive(
    st.sampled_from(
        [
            *("_self_", "own", "two", "tiny", "/shape/tiny", "/shape/own", "../shape/two", "null"),
            *(
                "1",
                "true",
                "''",
                "'???'",
                "a b",
                "tiny@x",
                "tiny@hydra",
                "'@'",
                "'${gpu}'",
                "/",
                ".",
            ),
            *("'${nope}'", "{}", "[]", "{a: 1}", "{a: null}", "{a: {b: 1}}", "{a: b, c: d}"),
            *("{1: a}", "{/gpu: h200}", "{override /gpu: h200}", "{optional nope: x}"),
            *("{/shape: [tiny, two]}", "{/hydra/launcher: basic}", "{override hydra/help: x}"),
            *("{/gpu@x: '${backend}'}", "{shape@gpu: tiny}", "{a: '???'}", "{a: [1]}", "{a: []}"),
            *("{/recipe: '${shape}'}", "{'': a}", "{override /tolerance: none}", "schema_run"),
        ]
    ),
    lambda inner: st.lists(inner, max_size=2).map(lambda held: f"[{', '.join(held)}]"),
    max_leaves=3,
)
_DEFAULTS = (
    st.lists(_ENTRIES, max_size=4).map(lambda held: f"[{', '.join(held)}]")
    | _ENTRIES
    | st.sampled_from(["tiny", "3", "null", "{a: 1}", "&a [*a]", "!!set {a}", "2001-01-01", "'"])
)
_HEADERS = st.sampled_from(
    [
        *("", "", "", "", "# @package _global_\n", "# @package _group_\n", "# @package hydra\n"),
        *("# @package a b\n", "# @package\n", "# @package a..b\n", "# @package ${x}\n"),
        *("# @package shape\n", "# @package gpu.name\n", "# @x y\n", "# @package _here_\n"),
        *("%YAML 9.9\n", "---\n", "\ufeff", "# @package _global_.hydra\n", "# @package :\n"),
    ]
)
_DEEP = st.sampled_from(
    [
        *("[" * 5000, '{"a":' * 5000, "- " * 3000, "? " * 3000, "a: " + "[" * 300 + "]" * 300),
        *(
            "x" * 300_000,
            "a: &a [*a]",
            "a: &a\n  b: *a",
            "<<: &a {<<: *a}",
            "? [1]\n: 2",
            "? {}\n",
        ),
        "a: &a [1, 1, 1, 1, 1, 1, 1, 1]\n"
        + "\n".join(
            f"{b}: &{b} [{', '.join([f'*{a}'] * 8)}]"
            for a, b in zip("abcdefgh", "bcdefghi", strict=True)
        ),
    ]
)
_TAGS = st.sampled_from(
    ["!!int", "!!float", "!!bool", "!!timestamp", "!!binary", "!!set", "!!omap"]
)
_TAGGED = st.builds(
    lambda key, tag, value: f"{key}: {tag} {value}", _FILE_KEYS, _TAGS, NUMBER_WORDS | VALUES
)
_NUMBERED = st.builds(lambda key, value: f"{key}: {value}", _FILE_KEYS, NUMBER_WORDS)
_FILES = st.builds(
    lambda header, defaults, text: f"{header}defaults: {defaults}\n{text}",
    _HEADERS,
    _DEFAULTS,
    _YAML,
)
_TEXTS = _YAML | _FILES | _FILES | _TAGGED | _NUMBERED | st.builds("{}{}".format, _HEADERS, _YAML)
_CONTENTS = (_TEXTS | _TEXTS | _DEEP).map(
    lambda text: text.encode("utf-8", "surrogatepass")
) | BYTES
_VERBS = {
    "plan": verbs.Sweep,
    "status": verbs.Status,
    "logs": verbs.Logs,
    "compare": verbs.Compare,
    "history": verbs.History,
}
_PLACES = (
    "14",
    "/nope",
    "~nobody/x",
    "x" * 5000,
    "..",
    "\udc80",
    "a\nb",
    "\x1b[2J",
    "file:///",
    "",
)
_VARIABLES = (
    "COLUMNS",
    "LINES",
    "MXFP8_CONFIG_DIR",
    "XDG_CONFIG_HOME",
    "HOME",
    "TERM",
    "NO_COLOR",
)
_NODE = (
    *("SLURM_RESTART_COUNT", "SLURM_JOB_START_TIME", "SLURM_JOB_END_TIME", "MXFP8_JOB_UPTIME"),
    *("SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "MXFP8_JOB_ID"),
)


def config_readers(user: User) -> list[Reader]:
    """Every reader of configuration that no command line holds.

    Args:
        user: Whose folder and environment they are.
    """
    files = st.tuples(_GROUPS, _CONTENTS, _CONTENTS, st.lists(OVERRIDES, max_size=1))
    values = st.sampled_from(NUMERIC_KEYS).flatmap(
        lambda key: st.tuples(st.just(key), NUMBER_WORDS)
    )
    environment = st.tuples(
        st.sampled_from([("plan",), ("status",), ("-sc", "query=bash")]), _variables(_VARIABLES)
    )
    return [
        Reader(
            "config folder",
            files,
            lambda asked: user.owns(*asked),
            25,
            ("shape", b"defaults: [two]", b"defaults: [tiny]", []),
        ),
        Reader(
            "numeric keys",
            values,
            lambda asked: _gives(user, *asked),
            20,
            (("plan", "", "shape.seed"), "7"),
        ),
        Reader(
            "environment",
            environment,
            lambda asked: user.lives(*asked),
            15,
            (("plan",), {"COLUMNS": "80"}),
        ),
        Reader(
            "environment of a job",
            _variables(_NODE),
            _runs,
            100,
            {"SLURM_RESTART_COUNT": "1"},
            "refuses nothing: a variable that is no number is not read",
        ),
    ]


def numeric_keys(kind: type, before: str = "") -> Iterator[str]:
    """Every key of a dataclass, and of those in it, that takes a number.

    Args:
        kind: The dataclass.
        before: What its keys begin with.
    """
    for name, hint in typing.get_type_hints(kind).items():
        if dataclasses.is_dataclass(hint):
            yield from numeric_keys(typing.cast(type, hint), f"{before}{name}.")
        elif {int, float} & {hint, *typing.get_args(hint)}:
            yield before + name


def _keys() -> Iterator[tuple[str, str, str]]:
    """Each verb with each of its keys, and what has to be chosen for the key to be there."""
    for verb, kind in _VERBS.items():
        yield from ((verb, "", key) for key in numeric_keys(kind))
    variants = {
        "recipe=fp8_delayed": (Fp8DelayedRecipe, "recipe."),
        "tolerance=calibrated": (CalibratedTolerance, "tolerance."),
        "tolerance=seed": (SeedTolerance, "tolerance."),
    }
    for choice, (kind, before) in variants.items():
        yield from (("plan", choice, key) for key in numeric_keys(kind, before))


NUMERIC_KEYS = sorted(_keys())


def _gives(user: User, key: tuple[str, str, str], value: str) -> bool:
    """A number for a key: whatever is refused is refused by that key's name."""
    verb, choice, name = key
    ids = {"compare": ["latest", "latest"], "history": ["latest", "here/"]}.get(verb, [])
    words = ([choice] if choice else []) + [f"{name}={value}"]
    return user.types(verb, *ids, *words, told=name)


def _variables(names: tuple[str, ...]) -> SearchStrategy[dict[str, str]]:
    values = NUMBER_WORDS | st.sampled_from(_PLACES) | NASTY_TEXT
    named = values.filter(lambda value: "\0" not in value and "\ud800" not in value)
    return st.dictionaries(st.sampled_from(names), named, max_size=3)


def _runs(variables: dict[str, str]) -> bool:
    """What a job reads of its environment: which attempt this is, and how much time is left."""
    identity = attempt_identity("p-1", "s-1", Path("attempt-2"), variables)
    assert identity.restart_count >= 0
    assert time_left_s(10, variables) <= 600
    return False
