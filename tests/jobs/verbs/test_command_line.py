"""A command line is split into verb, ids and Hydra's words, and a wrong word is refused."""

from __future__ import annotations

import shlex

import pytest

from jobs.errors import (
    InvalidValue,
    InvalidWord,
    MissingValue,
    NotSettable,
    UnknownName,
    UsageError,
)
from jobs.verbs.command_line import Call, CommandLine, as_typed
from jobs.verbs.flags import FLAGS
from jobs.verbs.table import VERBS


def parsed(words: str) -> CommandLine:
    return CommandLine.parse(shlex.split(words))


@pytest.mark.parametrize(
    ("words", "verb", "ids", "hydra"),
    [
        ("", "run", (), ()),
        ("shape=tiny", "run", (), ("shape=tiny",)),
        ("run shape=tiny", "run", (), ("shape=tiny",)),
        ("plan a=1,2 ~b +c=3", "plan", (), ("a=1,2", "~b", "+c=3")),
        ("collect latest", "collect", ("latest",), ()),
        ("collect 14 14_2 14_[0-3] report=false", "collect",
         ("14", "14_2", "14_[0-3]"), ("report=false",)),
        ("collect p-0123456789ab s-20260101-000000-abcdef local-12ab runs/x", "collect",
         ("p-0123456789ab", "s-20260101-000000-abcdef", "local-12ab", "runs/x"), ()),
        ("a=1 --cfg job b=2", "run", (), ("--cfg=job", "a=1", "b=2")),
        ("--info", "run", (), ("--info=all",)),
        ("--info searchpath", "run", (), ("--info=searchpath",)),
        ("--info a=1", "run", (), ("--info=all", "a=1")),
        ("-m a=1,2", "sweep", (), ("a=1,2",)),
        ("run --multirun", "sweep", (), ()),
        ("hydra.searchpath=[file:///tmp]", "run", (), ("hydra.searchpath=[file:///tmp]",)),
        ("gpu.matches=[B200]", "run", (), ("gpu.matches=[B200]",)),
    ],
)  # fmt: skip
def test_words_are_sorted_by_kind(
    words: str, verb: str, ids: tuple[str, ...], hydra: tuple[str, ...]
) -> None:
    line = parsed(words)
    assert (line.verb, line.ids, line.hydra) == (verb, ids, hydra)


@pytest.mark.parametrize("flag", ["--help", "-h", "--version", "--cfg job", "-c all", "-i"])
def test_a_flag_that_shows_runs_nothing(flag: str) -> None:
    assert parsed(f"plan {flag}").shows_only
    assert not parsed("plan -m").shows_only
    assert parsed("plan -m").multirun


@pytest.mark.parametrize(
    ("words", "kind", "name", "suggestion"),
    [
        ("swep", "command", "swep", "sweep"),
        ("help", "command", "help", "--help"),
        ("''", "command", "", None),
        ("status latset", "command", "latset", "latest"),
        ("recipe mxfp8", "command", "recipe", "recipe=mxfp8"),
        ("seq_len 128", "command", "seq_len", "shape.seq_len=128"),
        ("-x", "flag", "-x", None),
        ("--", "flag", "--", None),
        ("--multirn", "flag", "--multirn", "--multirun"),
        ("status --watch", "flag", "--watch", "watch=true"),
        ("cancel --yes latest", "flag", "--yes", "yes=true"),
        ("--shape=tiny", "flag", "--shape=tiny", "shape=tiny"),
        ("plan --seq-len 128", "flag", "--seq-len", "shape.seq_len=128"),
        ("--sweep", "flag", "--sweep", "sweep"),
        ("status --shape=tiny", "flag", "--shape", "--help"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(
    words: str, kind: str, name: str, suggestion: str | None
) -> None:
    with pytest.raises(UnknownName) as refused:
        parsed(words)
    error = refused.value
    assert (error.kind, error.name, error.suggestion) == (kind, name, suggestion)
    assert error.choices == (list(VERBS) if kind == "command" else [flag.name for flag in FLAGS])


@pytest.mark.parametrize(
    ("words", "word", "remedy"),
    [
        ("plan 14", "14", "status"),
        ("14", "14", "status"),
        ("a=1 plan", "plan", "python launch.py plan"),
        ("plan plan", "plan", "python launch.py plan"),
        ("a=1 +a=2", "+a=2", ""),
        ("a=1 ~a", "~a", ""),
        ("@x=1", "@x=1", ""),
        ("=1", "=1", ""),
        ("recipe==mxfp8", "recipe==mxfp8", "recipe=mxfp8"),
        ("shape=[a,b]", "shape=[a,b]", "sweep shape=a,b"),
        ("sweep recipe=bf16, mxfp8", "recipe=bf16,", "recipe=bf16,mxfp8"),
        ("sweep recipe=bf16 ,mxfp8", "recipe=bf16", "recipe=bf16,mxfp8"),
        ("plan --config-dir /x a=1 -cd=/y", "-cd=/y", ""),
        ("--help=3", "--help=3", ""),
        ("-p shape", "--package", ""),
        ("--resolve", "--resolve", ""),
        ("--help --version", "--version", ""),
        ("--cfg job --info", "--info", ""),
        ("doctor -m", "--multirun", "sweep"),
        ("status -m 14", "--multirun", "sweep"),
    ],
)
def test_a_word_that_cannot_be_used_is_refused_with_what_to_type(
    words: str, word: str, remedy: str
) -> None:
    with pytest.raises(InvalidWord) as refused:
        parsed(words)
    assert refused.value.word == word
    assert remedy in refused.value.remedy


@pytest.mark.parametrize(
    ("words", "kind", "key"),
    [
        ("--cfg", MissingValue, "--cfg"),
        ("--config-dir=", MissingValue, "--config-dir"),
        ("--info=x", InvalidValue, "--info"),
        ("--cfg jobs", InvalidValue, "--cfg"),
        ("hydra.verbose=1", InvalidValue, "hydra.verbose"),
        ("hydra.searchpath=3", InvalidValue, "hydra.searchpath"),
        ("hydra.searchpath=[/nope]", InvalidValue, "hydra.searchpath"),
        ("hydra.searchpath=[pkg://os]", InvalidValue, "hydra.searchpath"),
    ],
)
def test_flags_and_hydra_s_values_are_checked(
    words: str, kind: type[UsageError], key: str
) -> None:
    with pytest.raises(kind) as refused:
        parsed(words)
    assert getattr(refused.value, "key") == key  # noqa: B009 - both classes have it


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("hydra.mode=RUN", "hydra.mode"),
        ("hydra/launcher=x", "hydra/launcher"),
        ("hydra.run.dir=x", "hydra.run.dir"),
        ("--config-name=plan", "--config-name"),
        ("--experimental-rerun=x", "--experimental-rerun"),
    ],
)
def test_what_would_break_a_verb_cannot_be_set(word: str, name: str) -> None:
    with pytest.raises(NotSettable) as refused:
        parsed(word)
    assert refused.value.name == name


def test_a_command_can_be_typed_again() -> None:
    typed = as_typed("launch.py", ["plan", "shape.seq_len=range(1,3)", "runs_dir=/a b"])
    assert shlex.split(typed) == [
        "python", "launch.py", "plan", "shape.seq_len=range(1,3)", "runs_dir=/a b",
    ]  # fmt: skip


def test_the_next_command_is_given_the_same_places() -> None:
    call = Call("run", (), "", ("shape=tiny", "runs_dir=/a b", "results_dir=x"))
    assert call.places == " 'runs_dir=/a b' results_dir=x"
