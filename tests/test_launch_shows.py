"""Help, configuration, information and completion of the command line."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from jobs.errors import InvalidValue
from jobs.verbs.table import VERBS
from tests.launcher import Launcher

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("verb", VERBS)
def test_help_lists_the_verbs_the_choices_and_the_keys(launcher: Launcher, verb: str) -> None:
    text = launcher.output(verb, "--help")
    assert all(f"\n  {name} " in text for name in VERBS)
    assert f"Configuration of {verb}" in text
    assert f"runs_dir: {launcher.runs_dir}" in text
    assert ("  shape=dsv2_lite|dsv3|" in text) or not VERBS[verb].points


@pytest.mark.parametrize("verb", VERBS)
def test_cfg_job_is_the_verb_s_whole_configuration(launcher: Launcher, verb: str) -> None:
    config = OmegaConf.create(launcher.output(verb, "--cfg", "job", "--resolve"))
    assert config.runs_dir == str(launcher.runs_dir)
    assert ("grid" in config) == VERBS[verb].many
    assert "hydra" not in config


def test_multirun_shows_the_configuration_of_sweep(launcher: Launcher) -> None:
    shown = OmegaConf.create(launcher("--multirun", "--cfg", "job").out)
    assert shown.grid.name == "smoke"


@pytest.mark.parametrize("words", [["--info"], ["plan", "--info", "defaults"]], ids=" ".join)
def test_info_shows_and_runs_nothing(launcher: Launcher, words: list[str]) -> None:
    assert "shape" in launcher.output(*words)
    assert not launcher.runs_dir.exists()


@pytest.mark.parametrize("words", [["--version"], ["status", "--version"]], ids=" ".join)
def test_version_is_that_of_this_tool(launcher: Launcher, words: list[str]) -> None:
    about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    expected = f"{about['name']} {about['version']} (Hydra 1."
    assert launcher.output(*words).startswith(expected)


@pytest.mark.parametrize("verb", VERBS)
def test_completion_offers_groups_where_the_verb_takes_them(launcher: Launcher, verb: str) -> None:
    offered = launcher.complete(f"python launch.py {verb} ")
    groups = {"gpu=", "shape=", "recipe=", "cluster=", "launch=", "tolerance=", "benchmark="}
    assert (groups <= set(offered)) is VERBS[verb].points
    assert VERBS[verb].points or not groups & set(offered)
    assert ("grid=" in offered) is VERBS[verb].many
    assert "runs_dir=" in offered
    choices = launcher.complete(f"python launch.py {verb} gpu=h")
    assert choices == (["gpu=h100", "gpu=h200"] if VERBS[verb].points else [])


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("python launch.py shape=ti", ["shape=tiny"]),
        ("python launch.py plan shape=dsv3_", ["shape=dsv3_model"]),
        (".venv/bin/python3.11 /somewhere/launch.py plan grid=se", ["grid=seq_len"]),
        ("python launch.py sweep recipe=bf16 recipe.fp8", []),
        ("python launch.py sweep recipe.fp8", ["recipe.fp8_dpa="]),
        ("python launch.py --multirun shape=kim", ["shape=kimi_k2"]),
        ("python launch.py doctor cluster=dl", ["cluster=dlcluster"]),
        ("python launch.py collect latest 14_2 rep", ["report="]),
        ("python launch.py collect s-20260101-000000-abcdef runs", ["runs_dir="]),
        ("python launch.py swe", ["sweep"]),
        ("python launch.py plan --con", ["--config-dir"]),
        ("python launch.py plan swe", []),
        ("python launch.py plan --config-dir=/nope shape=ti", []),
        ("python launch.py plan shape=nope gpu=gb3", ["gpu=gb300"]),
    ],
)
def test_a_line_is_completed(launcher: Launcher, line: str, offered: list[str]) -> None:
    assert launcher.complete(line) == offered


def test_flags_may_stand_anywhere(launcher: Launcher) -> None:
    words = ("shape=dsv3", "-c", "job", "recipe=bf16", "-p", "shape", "shape.seq_len=256")
    assert "seq_len: 256\nhidden: 16384\n" in launcher.output("plan", *words)


def test_the_cursor_within_the_line(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "python launch.py plan shape=ti recipe=mxfp8"
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.setenv("COMP_POINT", str(line.index(" recipe")))
    assert launcher("-sc", "query=bash").out.split() == ["shape=tiny"]


@pytest.mark.parametrize("words", ["-sc", "-sc install=tcsh", "-sc remove=bash"])
def test_an_unknown_shell_is_refused(launcher: Launcher, words: str) -> None:
    error = launcher.error(*words.split())
    assert isinstance(error, InvalidValue)
    assert error.key == "-sc"


def test_a_character_that_the_terminal_cannot_show_is_escaped(tmp_path: Path) -> None:
    words = ["plan", "grid=none", f"runs_dir='{tmp_path}/ü'"]
    done = subprocess.run(
        [sys.executable, ROOT / "launch.py", *words],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"{tmp_path}/\\xfc" in done.stdout


def test_bash_completes_with_what_it_was_given(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed here")
    line = "python launch.py plan shape=ti"
    script = f"""
        eval "$(python launch.py -sc install=bash)"
        COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)} COMP_CWORD=3
        hydra_bash_completion
        echo "offered: ${{COMPREPLY[*]}}"
    """
    bin_folder = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [bash, "--norc", "-c", script],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PATH": bin_folder, "HOME": str(tmp_path)},
        check=False,
    )
    assert done.stdout == "offered: shape=tiny\n", done.stderr
