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
from tests.fuzz.inputs import BYTES, NASTY_TEXT, NUMBERS, words
from tests.fuzz.reader import Reader
from tests.fuzz.user import User

_HUGE = (*("9" * digits for digits in (19, 30, 309, 400, 5000)), "0x" + "f" * 6000)
NUMBER_WORDS = words(
    """inf -inf nan NaN +inf Infinity .inf 1e400 -1e400 1e308 1e-400 5e-324 1e3 1_0 0x10 0o7 001 +1
    -0 0 -1 1.5 2147483648 9223372036854775807 9223372036854775808 null true [1] 1,2 1,inf nan,nan
    1e400,1 1,1.0 range(1,3) range(nan,1) range(0,1,0) range(0,1,nan) range(0,inf) range(0,1,0.0)
    range(0,1e400) range(1,2,1e-30) shuffle(range(0,1000000000)) sort(range(0,1000000000))
    interval(0,nan) int(1e400) float(nan) int('9') choice(1,nan)""",
    *(*_HUGE, *(f"-{one}" for one in _HUGE), "1," + "9" * 400, "1," + "9" * 5000),
    *(f"range(0,{'9' * 400})", f"float({'9' * 400})"),
) | NUMBERS.map(str)
_GROUPS = words("cluster shape gpu grid benchmark launch")
_FILE_KEYS = words(
    """name seq_len hidden num_heads matches request device scheduler partition setup env requests
    sbatch container axes blocks nope time_min share defaults _target_ _self_ 1 null a.b
    peak_mxfp8"""
)
_FILE_VALUES = words(
    "[ *a [own] 2001-01-01 0o7 ~ slurm local tiny 1e999 .nan '' {}",
    *("{a: 1}", "[1, 2]", "{shape.seq_len: [128, 256]}", "{recipe: [bf16, x]}", "&a [*a]"),
    *("!!python/object:os.system x", "{seq_len: 1}", "[/shape: tiny]", "|\n  text"),
    *("[{override /gpu: h200}]", "{gb300: {partition: x}}"),
)
_YAML = st.lists(
    st.builds(lambda key, value: f"{key}: {value}", _FILE_KEYS, _FILE_VALUES | VALUES)
    | NASTY_TEXT,
    max_size=5,
).map("\n".join)
_ENTRIES = st.recursive(
    words(
        """_self_ own two tiny /shape/tiny /shape/own ../shape/two null 1 true '' '???' tiny@x
        tiny@hydra '@' '${gpu}' / . '${nope}' {} [] schema_run""",
        *("a b", "{a: 1}", "{a: null}", "{a: {b: 1}}", "{a: b, c: d}", "{1: a}", "{/gpu: h200}"),
        *("{override /gpu: h200}", "{optional nope: x}", "{/shape: [tiny, two]}", "{a: '???'}"),
        *("{/hydra/launcher: basic}", "{override hydra/help: x}", "{/gpu@x: '${backend}'}"),
        *("{shape@gpu: tiny}", "{a: [1]}", "{a: []}", "{/recipe: '${shape}'}", "{'': a}"),
        "{override /tolerance: none}",
    ),
    lambda inner: st.lists(inner, max_size=2).map(lambda items: f"[{', '.join(items)}]"),
    max_leaves=3,
)
_DEFAULTS = (
    st.lists(_ENTRIES, max_size=4).map(lambda items: f"[{', '.join(items)}]")
    | _ENTRIES
    | st.sampled_from(["tiny", "3", "null", "{a: 1}", "&a [*a]", "!!set {a}", "2001-01-01", "'"])
)
_PACKAGES = ("_global_", "_group_", "hydra", "a b", "a..b", "${x}", "shape", "gpu.name")
_HEADERS = st.sampled_from(
    [
        *("", "", "", "", "# @package\n", "# @x y\n", "%YAML 9.9\n", "---\n", "\ufeff"),
        *(f"# @package {name}\n" for name in (*_PACKAGES, "_here_", "_global_.hydra", ":")),
    ]
)
_BOMB = "a: &a [1, 1, 1, 1, 1, 1, 1, 1]\n" + "\n".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 8)}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
_DEEP = st.sampled_from(
    [
        *("[" * 5000, '{"a":' * 5000, "- " * 3000, "? " * 3000, "a: " + "[" * 300 + "]" * 300),
        *("x" * 300_000, "a: &a [*a]", "a: &a\n  b: *a", "<<: &a {<<: *a}", "? [1]\n: 2"),
        *("? {}\n", _BOMB),
    ]
)
_TAGS = words("!!int !!float !!bool !!timestamp !!binary !!set !!omap")
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
_PLACES = words("14 /nope ~nobody/x .. file:///", *("", "x" * 5000, "\udc80", "a\nb", "\x1b[2J"))
_VARIABLES = words("COLUMNS LINES MXFP8_CONFIG_DIR XDG_CONFIG_HOME HOME TERM NO_COLOR")
_NODE_VARIABLES = words(
    """SLURM_RESTART_COUNT SLURM_JOB_START_TIME SLURM_JOB_END_TIME MXFP8_JOB_UPTIME SLURM_JOB_ID
    SLURM_ARRAY_JOB_ID SLURM_ARRAY_TASK_ID MXFP8_JOB_ID"""
)


def config_readers(user: User) -> list[Reader]:
    """Return the readers of configuration that is not on the command line."""
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
            lambda given: user.plan_with_files(*given),
            25,
            ("shape", b"defaults: [two]", b"defaults: [tiny]", []),
        ),
        Reader(
            "numeric keys",
            values,
            lambda given: _set_number(user, *given),
            20,
            (("plan", "", "shape.seed"), "7"),
        ),
        Reader(
            "environment",
            environment,
            lambda given: user.run_with_variables(*given),
            15,
            (("plan",), {"COLUMNS": "80"}),
        ),
        Reader(
            "environment of a job",
            _variables(_NODE_VARIABLES),
            _read_variables,
            100,
            {"SLURM_RESTART_COUNT": "1"},
            "refuses nothing: a variable that is not a number is ignored",
        ),
    ]


def numeric_keys(kind: type, before: str = "") -> Iterator[str]:
    """Return every key of a dataclass, and of those in it, that takes a number."""
    for name, hint in typing.get_type_hints(kind).items():
        if dataclasses.is_dataclass(hint):
            yield from numeric_keys(typing.cast(type, hint), f"{before}{name}.")
        elif {int, float} & {hint, *typing.get_args(hint)}:
            yield before + name


def _keys() -> Iterator[tuple[str, str, str]]:
    """Return each verb with each of its keys, and the override that the key requires."""
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


def _set_number(user: User, key: tuple[str, str, str], value: str) -> bool:
    """Set a key to a number; a refusal has to name the key."""
    verb, choice, name = key
    ids = {"compare": ["latest", "latest"], "history": ["latest", "here/"]}.get(verb, [])
    overrides = ([choice] if choice else []) + [f"{name}={value}"]
    return user.run(verb, *ids, *overrides, key=name)


def _variables(names: SearchStrategy[str]) -> SearchStrategy[dict[str, str]]:
    values = NUMBER_WORDS | _PLACES | NASTY_TEXT
    valid = values.filter(lambda value: "\0" not in value and "\ud800" not in value)
    return st.dictionaries(names, valid, max_size=3)


def _read_variables(variables: dict[str, str]) -> bool:
    """Read the number of the attempt and the time left from the environment of a job."""
    identity = attempt_identity("p-1", "s-1", Path("attempt-2"), variables)
    assert identity.restart_count >= 0
    assert time_left_s(10, variables) <= 600
    return False
