"""Text of unknown origin is displayed without terminal escapes and secrets."""

from __future__ import annotations

import pytest

from jobs.text import (
    first_line,
    join_sentences,
    mask_secrets,
    parse_int,
    plain_text,
    pluralize,
    shorten,
    strip_full_stop,
)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("10%\r20%\r\ndone", "10%\n20%\ndone"),
        ("a\x07b\x00c", "a\\x07b\\x00c"),
        ("abc\u202etxt.exe", "abc\\x202etxt.exe"),
        ("\x9b2Jgone", "gone"),
        ("tab\tstays", "tab\tstays"),
    ],
)
def test_terminal_escapes_do_nothing(raw: str, shown: str) -> None:
    assert plain_text(raw) == shown


def test_surrogates_can_be_printed() -> None:
    assert plain_text("a\ud800b").encode() == b"a\\xd800b"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("+cluster.env.HF_TOKEN=hunter2 gpu=h200", "+cluster.env.HF_TOKEN=*** gpu=h200"),
        ("export WANDB_API_KEY='a b' && x", "export WANDB_API_KEY='***' && x"),
        ('{"env": {"PASSWORD": "x\\"y", "B": "c"}}', '{"env": {"PASSWORD": "***", "B": "c"}}'),
        ("cluster.env={MY_SECRET:abc,B:c}", "cluster.env={MY_SECRET:***,B:c}"),
        ("curl https://me:pass@host/x", "curl https://***@host/x"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("login hf_abcdefghijklmnopqrst now", "login *** now"),
        ("ghp_0123456789abcdefABCD", "***"),
        ("shape.seq_len=1024 recipe=mxfp8", "shape.seq_len=1024 recipe=mxfp8"),
        ("12.3 tokens_per_s: 4096", "12.3 tokens_per_s: 4096"),
        ("GIT_AUTHOR_NAME=me", "GIT_AUTHOR_NAME=me"),
        ("mysql --password=x1", "mysql --password=***"),
        ("s-20261201-114433-d94de2 p-0f0e", "s-20261201-114433-d94de2 p-0f0e"),
    ],
)
def test_secrets_are_masked(text: str, shown: str) -> None:
    assert mask_secrets(text) == shown


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 jobs"), (1, "1 job"), (2, "2 jobs"), (1000, "1000 jobs")]
)
def test_a_count_agrees_with_its_noun(count: int, words: str) -> None:
    assert pluralize(count, "job") == words
    assert pluralize(count, "series", "series") == words.replace("jobs", "series").replace(
        "job", "series"
    )


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (("conflicting cuDNN.", "set CUDNN_HOME"), "conflicting cuDNN; set CUDNN_HOME"),
        (("conflicting cuDNN", "set CUDNN_HOME."), "conflicting cuDNN; set CUDNN_HOME."),
        (("", "a. b.\n", "", "c"), "a. b; c"),
        (("and more...", "c"), "and more...; c"),
        (("", ""), ""),
        ((), ""),
    ],
)
def test_sentences_are_joined(texts: tuple[str, ...], sentence: str) -> None:
    assert join_sentences(*texts) == sentence


def test_a_sentence_has_one_full_stop() -> None:
    assert f"{strip_full_stop(join_sentences('a.', 'Remedy: b.', by='. '))}." == "a. Remedy: b."


@pytest.mark.parametrize(
    ("digits", "number"),
    [("0", 0), ("007", 7), ("9" * 18, 10**18 - 1), ("9" * 19, None), ("9" * 5000, None)]
    + [(other, None) for other in ("", "-1", "+1", " 1", "1.0", "1e3", "²", "nan", "x")],
)
def test_only_whole_numbers_are_parsed(digits: str, number: int | None) -> None:
    assert parse_int(digits) == number


def test_quoted_words_are_cut_to_a_few_lines() -> None:
    usual = "shape must be one of a, b, got 'c'; see /a/path/of/usual/length " + "9" * 60
    assert shorten(usual) == usual
    assert shorten(f"got {'9' * 61}, {'x' * 500}") == (
        f"got {'9' * 20}... (61 digits), {'x' * 100}... (500 characters)"
    )


def test_a_long_text_is_cut_at_its_first_line() -> None:
    assert first_line("a\nb") == "a"
    assert first_line("") == ""
    assert first_line("x" * 200) == "x" * 99 + "…"
