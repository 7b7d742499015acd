"""How the errors of the command line read."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.errors import (
    ConfigFileError,
    InvalidConfig,
    InvalidValue,
    InvalidWord,
    JobError,
    MissingValue,
    NotSettable,
    UnknownName,
    WrongIds,
)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            InvalidValue("shape.seq_len", "be at least 1", 0),
            "shape.seq_len must be at least 1, got 0",
        ),
        (InvalidConfig([MissingValue("a"), InvalidWord("=1", "no key before =")]),
         "a has no value; add a=...\n=1: no key before ="),
        (InvalidWord("--multirun", "doctor does not take several points", "verbs that do: sweep"),
         "--multirun: doctor does not take several points; verbs that do: sweep"),
        (NotSettable("cluster.sbatch.nodes", "the tool sets it itself"),
         "cluster.sbatch.nodes cannot be set: the tool sets it itself"),
        (UnknownName("flag", "--foo", "--info", ["--help"]),
         "unknown flag --foo; did you mean --info?"),
        (UnknownName("command", "x", None, ["run", "plan"]),
         "unknown command 'x'; choose from run, plan"),
        (UnknownName("key", "x"), "unknown key 'x'"),
        (WrongIds("cancel", "at least one id", (), "cancel latest"),
         "cancel needs at least one id, for example: cancel latest"),
        (WrongIds("repro", "exactly one point id (p-...)", ("p-1", "p-2", "p-3")),
         "repro takes exactly one point id (p-...), not 3"),
        (ConfigFileError(Path("a.yaml"), "invalid YAML: found ]", line=3),
         "a.yaml:3: invalid YAML: found ]"),
        (ConfigFileError(Path("a.yaml"), InvalidValue("k", "be text", [1]), "quote it"),
         "a.yaml: k must be text, got [1]; quote it"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, JobError) else "",
)  # fmt: skip
def test_an_error_is_a_plain_sentence(error: JobError, text: str) -> None:
    assert str(error) == text
