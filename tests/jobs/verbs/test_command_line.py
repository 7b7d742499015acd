"""A command line is taken apart into verb, ids and what Hydra gets."""

from __future__ import annotations

import shlex

import pytest

from jobs.errors import UsageError
from jobs.verbs.command_line import Call, CommandLine, as_typed, parse

VERBS = {"run": False, "plan": False, "sweep": False, "status": True, "collect": True}


def parsed(words: str) -> CommandLine:
    return parse(shlex.split(words), VERBS)


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
        ("plan --config-dir /x a=1 -cd=/y", "plan", (), None),
        ("--info", "run", (), ("--info=all",)),
        ("--info searchpath", "run", (), ("--info=searchpath",)),
        ("--info a=1", "run", (), ("--info=all", "a=1")),
        ("-m a=1,2", "sweep", (), ("a=1,2",)),
        ("run --multirun", "sweep", (), ()),
        ("status -m 14", "status", ("14",), ()),
        ("hydra.searchpath=[file:///tmp]", "run", (), ("hydra.searchpath=[file:///tmp]",)),
    ],
)  # fmt: skip
def test_words_find_their_places(
    words: str, verb: str, ids: tuple[str, ...], hydra: tuple[str, ...] | None
) -> None:
    if hydra is None:
        with pytest.raises(UsageError, match="--config-dir must be given once, got it twice"):
            parsed(words)
        return
    line = parsed(words)
    assert (line.verb, line.ids, line.hydra) == (verb, ids, hydra)


@pytest.mark.parametrize("flag", ["--help", "-h", "--version", "--cfg job", "-c all", "-i"])
def test_a_flag_that_shows_runs_nothing(flag: str) -> None:
    assert parsed(f"plan {flag}").shows_only
    assert not parsed("plan -m").shows_only
    assert parsed("plan -m").multirun


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            "swep",
            "'swep' must be a verb, an id or key=value, got none of them; did you mean sweep?",
        ),
        ("''", "'' must be a verb, an id or key=value, got none of them; verbs: run, plan"),
        ("plan 14", "plan must be given no id, got 14; these take ids: status, collect"),
        ("14", "run must be given no id, got 14; these take ids: status, collect"),
        ("a=1 plan", "plan must come first, as in: python launch.py plan ..."),
        ("plan plan", "plan must come first, as in: python launch.py plan ..."),
        ("a=1 +a=2", "a must be given once, got it twice; last: +a=2"),
        ("a=1 ~a", "a must be given once, got it twice; last: ~a"),
        ("@x=1", "@x=1 must read key=value, got no key"),
        ("shape=[a,b]", "shape must have one value, got [a,b]; to run several: python launch.py"),
        ("hydra.mode=RUN", "hydra.mode must be left as it is: Hydra only composes here"),
        ("hydra/launcher=x", "hydra/launcher must be left as it is: Hydra only composes here"),
        ("-x", "-x is no flag"),
        ("--", "-- is no flag"),
        ("--cfg", "--cfg must be given one of job, hydra, all, got nothing"),
        ("--info=x", "--info must be given one of all, config, defaults, defaults-tree, plugins"),
        ("--config-dir=", "--config-dir must be given a folder, got ''"),
        ("-p shape", "--package must be used with --cfg, got it alone"),
        ("--help --version", "--help must be used alone, got --version too"),
    ],
)
def test_a_wrong_word_is_told(words: str, sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        parsed(words)
    assert str(refused.value).startswith(sentence)


def test_a_list_is_a_value_below_a_group() -> None:
    assert parsed("gpu.matches=[B200]").hydra == ("gpu.matches=[B200]",)


def test_a_command_can_be_typed_again() -> None:
    typed = as_typed("launch.py", ["plan", "shape.seq_len=range(1,3)", "runs_dir=/a b"])
    assert shlex.split(typed) == [
        "python", "launch.py", "plan", "shape.seq_len=range(1,3)", "runs_dir=/a b",
    ]  # fmt: skip


def test_the_next_command_is_given_the_same_places() -> None:
    call = Call("run", (), "", ("shape=tiny", "runs_dir=/a b", "results_dir=x"))
    assert call.places == " 'runs_dir=/a b' results_dir=x"
