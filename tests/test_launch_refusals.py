"""A user's mistake is one line on stderr and exit code 2, before anything starts.

The command line by itself is tested in tests/jobs/verbs, the values in tests/conf.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import launch
from conf.problem import Problem
from jobs.errors import (
    ConfigFileError,
    InvalidConfig,
    InvalidValue,
    InvalidWord,
    JobError,
    MissingValue,
    NoSweep,
    NotInstalled,
    NoWorkingDirectory,
    UnknownName,
)
from tests.launcher import Launcher

ROOT = Path(__file__).parents[1]
WIDE = "9" * 400


def refuse(launcher: Launcher, words: str, kind: type[JobError]) -> Any:  # noqa: ANN401 - `kind`
    """The error of a command that starts nothing and writes nothing."""
    error = launcher.error(*words.split())
    assert type(error) is kind, error
    assert len(str(error).splitlines()) == 1
    assert not launcher.runs_dir.exists()
    assert list(launcher.cwd.iterdir()) == []
    return error


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ("shape.num_heads=0", "shape.num_heads"),
        ("tolerance.upper_factor=-1", "tolerance.upper_factor"),
        ("shape.init_std=nan", "shape.init_std"),
        ("launch.memory_gib=inf", "launch.memory_gib"),
        (f"launch.retries={WIDE}", "launch.retries"),
        ("status interval_s=nan", "interval_s"),
        ("recipe.name=bf16", "recipe.name"),
        ("cluster.setup=[env]", "cluster.setup"),
        ("cluster=slurm cluster.setup=[true]", "cluster.setup"),
        ("cluster.python='~/python'", "cluster.python"),
        # every point of a sweep is checked before the first one starts
        ("plan shape.seq_len=128,256,0", "shape.seq_len"),
        ("plan shape.init_std=0.1,inf", "shape.init_std"),
    ],
    ids=lambda words: words[:40],
)
def test_a_value_that_breaks_a_rule_is_refused(launcher: Launcher, words: str, key: str) -> None:
    (problem,) = refuse(launcher, words, InvalidConfig).problems
    assert isinstance(problem, Problem)
    assert problem.key == key


@pytest.mark.parametrize(
    ("words", "key", "constraint"),
    [
        ("shape.seq_len=abc", "shape.seq_len", "be an integer"),
        ("shape.seq_len=1e3", "shape.seq_len", "be an integer"),
        ("launch.time_min=1e400", "launch.time_min", "be an integer"),
        ("shape.init_std=x", "shape.init_std", "be a number"),
        ("wait=x", "wait", "be true or false"),
        ("shape.projection=1e400", "shape.projection", "be one of fused, split"),
        ("shape.projection=both", "shape.projection", "be one of fused, split"),
        ("backend=cuda", "backend", "be one of te, emulated"),
        ("gpu.matches=B200", "gpu.matches", "be a list, as in [a,b]"),
        ("cluster.nodelist=[n1,n2]", "cluster.nodelist", "be text"),
        ("cluster.env=3", "cluster.env", "be a mapping of keys"),
        ("+cluster.env.A=null", "cluster.env.A", "have a value"),
        ("shape=null", "shape", "name one of its choices"),
        ("plan ~shape=true", "shape", "name one of its choices"),
        ("sweep recipe=null,bf16", "recipe", "name one of its choices"),
        ("sweep shape.seq_len=128,256,abc", "shape.seq_len", "be an integer"),
        ("sweep grid=smoke,none", "grid", "have one value for the whole sweep"),
        ("sweep runs_dir=a,b", "runs_dir", "have one value for the whole sweep"),
        ("plan shape.seed=range(0,4000) shape.batch=1,2,3", "a sweep",
         "have at most 10000 points"),
        *((words, words.split()[-1].partition("=")[0], "be a number of at most 300 digits")
          for words in (f"launch.memory_gib={WIDE}", "shape.seed=" + "9" * 5000,
                        f"history compare.threshold={WIDE}", f"--cfg job gpu.memory_gib={WIDE}",
                        f"plan --help gpu.memory_gib={WIDE}", f"plan shape.rope_base=1,{WIDE}")),
    ],
    ids=lambda words: words[:40],
)  # fmt: skip
def test_values_of_a_wrong_type(launcher: Launcher, words: str, key: str, constraint: str) -> None:
    error = refuse(launcher, words, InvalidValue)
    assert (error.key, error.constraint) == (key, constraint)


@pytest.mark.parametrize(
    ("words", "kind", "name", "suggestion"),
    [
        ("shape.nope=1", "key", "shape.nope", None),
        ("shap=tiny", "key", "shap", "shape"),
        ("+new=1", "key", "new", None),
        ("recipe=bf16 recipe.fp8_dpa=true", "key", "recipe.fp8_dpa", None),
        ("collect latest shape=tiny", "key", "shape", None),
        ("partition=low", "key", "partition", "cluster.partition"),
        ("status partition=low", "key", "partition", None),
        ("launch.mem=4", "key", "launch.mem", "launch.memory_gib"),
        ("sweep +grid.axes.batch=[1,2]", "key", "batch", "shape.batch"),
        ("cluster.env.A=1", "key", "cluster.env.A", "+cluster.env.A=1"),
        ("sweep cluster.env.A=1,2", "key", "cluster.env.A", "+cluster.env.A=1,2"),
        ("shape=tinny", "shape", "tinny", "tiny"),
        ("recipe=MXFP8", "recipe", "MXFP8", "mxfp8"),
        ("shape=" + "x" * 1000, "shape", "x" * 1000, None),
        ("--multirun recipe=bf16,mxfp9", "recipe", "mxfp9", "mxfp8"),
        ("sweep grid=nope", "grid", "nope", "none"),
    ],
    ids=lambda words: str(words)[:40],
)
def test_an_unknown_key_or_choice_is_refused_with_the_nearest(
    launcher: Launcher, words: str, kind: str, name: str, suggestion: str | None
) -> None:
    error = refuse(launcher, words, UnknownName)
    assert (error.kind, error.name, error.suggestion) == (kind, name, suggestion)


@pytest.mark.parametrize(
    ("words", "word", "remedy"),
    [
        ("a=b=c", "a=b=c", "quote it"),
        ("~shape.seq_len", "~shape.seq_len", "give it a value"),
        ("shape.seq_len=${nope}", "shape.seq_len", ""),
        ("cluster.nodelist=n[1-2]", "cluster.nodelist=n[1-2]", "'cluster.nodelist=\"n[1-2]\"'"),
        ("cluster.partition=a,b", "cluster.partition=a,b", "'cluster.partition=\"a,b\"'"),
        ("cluster.srun=--a,--b", "cluster.srun=--a,--b", "cluster.srun=[a,b]"),
        ("shape.seq_len=128,256", "shape.seq_len=128,256", "sweep shape.seq_len=a,b"),
        ("sweep --cfg job shape.seq_len=128,256 recipe=bf16", "shape.seq_len=128,256",
         "python launch.py plan shape.seq_len=128,256 recipe=bf16"),
        ("cluster.requests.gb300.partition=x", "cluster.requests.gb300.partition=x",
         "cluster/NAME.yaml"),
        ("sweep shape.seq_len=128,128", "shape.seq_len", ""),
        ("plan shape.seed=range(0,1000000000)", "shape.seed", ""),
        ("plan shape.seed=shuffle(range(0,1000000000))", "shape.seed", ""),
        ("plan +shape=shuffle(range(0,1000000000))", "shape", ""),
        ("sweep shape.seq_len=interval(1,2)", "shape.seq_len=interval(1,2)", "shape.seq_len=a,b"),
        *((f"plan shape.seed=range({bounds})", f"shape.seed=range({bounds})", "shape.seed=a,b")
          for bounds in ("nan,1", "0,1,0", "0,1,0.0")),
    ],
    ids=lambda words: words[:40],
)  # fmt: skip
def test_a_word_that_cannot_be_used_is_refused_with_what_to_type(
    launcher: Launcher, words: str, word: str, remedy: str
) -> None:
    error = refuse(launcher, words, InvalidWord)
    assert error.word == word
    assert remedy in error.remedy


@pytest.mark.parametrize(
    ("words", "kind", "fields"),
    [
        ("~shape", MissingValue, {"key": "shape.name"}),
        ("sweep shape.seq_len=glob(*)", MissingValue, {"key": "shape.seq_len"}),
        ("--config-dir=/nope/x", InvalidValue, {"key": "--config-dir"}),
        ("plan --help --config-dir=/nope/x", InvalidValue, {"key": "--config-dir"}),
    ],
)
def test_other_mistakes_have_errors_of_their_own(
    launcher: Launcher, words: str, kind: type[JobError], fields: dict[str, str]
) -> None:
    error = refuse(launcher, words, kind)
    assert {name: getattr(error, name) for name in fields} == fields


# The second names one point twice.
WRONG = ("runs_dir=", "sweep shape.seq_len=128,0128", "collect", "status 14_0,14_2", "status s-no")


@pytest.mark.parametrize("words", WRONG)
def test_what_a_verb_refuses_starts_nothing(launcher: Launcher, words: str) -> None:
    assert isinstance(launcher.error(*words.split()), JobError)
    assert not launcher.runs_dir.exists()
    assert list(launcher.cwd.iterdir()) == []


def test_each_problem_of_a_command_has_a_line(launcher: Launcher) -> None:
    result = launcher("shape.num_heads=0", "shape.batch=0")
    assert isinstance(error := result.refused(), InvalidConfig)
    keys = ["shape.batch", "shape.num_heads"]
    assert [problem.key for problem in error.problems if isinstance(problem, Problem)] == keys
    assert [line.split()[1] for line in result.err.splitlines()] == keys


@pytest.mark.parametrize("below", ["file", "file/deeper"])
def test_a_runs_dir_that_cannot_be_created_is_named(launcher: Launcher, below: str) -> None:
    (launcher.cwd / "file").touch()
    assert str(launcher.cwd) in str(launcher.error(f"runs_dir={below}"))


def test_the_process_ends_with_2_one_line_and_no_traceback(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "launch.py", "shape.num_heads=0", f"runs_dir={tmp_path}/runs"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "launch.py: shape.num_heads must be at least 1, got 0\n"
    assert list(tmp_path.iterdir()) == []


def fail(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Let launch.py end with an error of Python's."""

    def version() -> str:
        raise error

    monkeypatch.setattr(launch, "_version", version)


def test_a_missing_package_is_named(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(monkeypatch, ModuleNotFoundError(name="tomllib.parser"))
    error = launcher.error("--version")
    assert isinstance(error, NotInstalled)
    assert (error.requirement, error.interpreter) == ("tomllib.parser", sys.executable)
    monkeypatch.setattr(launch, "OWN_PACKAGES", ("tomllib",))
    with pytest.raises(ModuleNotFoundError):  # a mistake in the tool itself
        launcher("--version")
    monkeypatch.setattr(launch, "OLDEST_PYTHON", (99, 0))
    assert isinstance(launcher.error("--version"), NotInstalled)


def test_an_oserror_names_its_file(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(monkeypatch, PermissionError(13, "Permission denied", "/etc/x"))
    result = launcher("--version")
    assert (result.code, result.out) == (2, "")
    assert result.err == "launch.py: /etc/x: Permission denied\n"


@pytest.mark.parametrize("words", [[], ["plan"], ["status"], ["collect", "latest"], ["--help"]])
def test_a_working_directory_that_was_deleted_is_named(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setenv("PWD", str(launcher.cwd))
    launcher.cwd.rmdir()
    error = launcher.error(*words)
    assert isinstance(error, NoWorkingDirectory)
    assert error.folder == str(launcher.cwd)


def test_a_folder_of_the_search_path_is_checked_like_the_user_s_own(launcher: Launcher) -> None:
    (launcher.cwd / "more" / "shape").mkdir(parents=True)
    file = launcher.cwd / "more" / "shape" / "mine.yaml"
    file.write_text("defaults: {a: 1}")
    words = ("plan", "shape=mine", f"hydra.searchpath=[{launcher.cwd}/more]")
    error = launcher.error(*words)
    assert isinstance(error, ConfigFileError)
    assert error.path == file
    file.write_text("defaults: [tiny]")
    assert launcher(*words).code == 0


@pytest.mark.parametrize("value", ["9" * 5000, "²", "-1", "x", "1" + "0" * 30])
@pytest.mark.parametrize("variable", ["COLUMNS", "LINES"])
def test_an_impossible_terminal_size_is_ignored(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert launcher("doctor", "--cfg", "job").code == 0
    assert isinstance(launcher.error("status"), NoSweep)


def test_a_suggested_override_can_be_used(launcher: Launcher) -> None:
    error = launcher.error("cluster.env.A=1")
    assert isinstance(error, UnknownName)
    words = (str(error.suggestion), "--cfg", "job", "--package", "cluster.env")
    assert launcher.output("sweep", *words).splitlines()[-1] == "A: '1'"


def test_a_file_named_without_a_slash_is_suggested_with_one(launcher: Launcher) -> None:
    (launcher.cwd / "notes.md").write_text("no record")
    error = launcher.error("collect", "notes.md")
    assert isinstance(error, UnknownName)
    assert error.suggestion == "./notes.md"
    assert "notes.md" in str(launcher.error("collect", "./notes.md"))


def test_a_sweep_that_is_not_there_is_refused_with_the_nearest(launcher: Launcher) -> None:
    name = "s-20260301-101500-1a2b3c"
    (launcher.runs_dir / name).mkdir(parents=True)
    (launcher.runs_dir / name / "sweep.json").write_text("{}")
    assert f"did you mean {name}?" in str(launcher.error("status", name[:-1] + "d"))
