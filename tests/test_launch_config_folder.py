"""The user's own config files, in a folder outside the checkout, work like the shipped ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.errors import ConfigFileError, InvalidConfig, InvalidValue, MissingValue, UnknownName
from tests.builders.ledger import passed_sweep
from tests.launcher import Launcher

FILES = {
    "shape/mine.yaml": "{batch: 2, seq_len: 128, hidden: 256, num_heads: 4}",
    "gpu/rtx.yaml": '{matches: [RTX], compute_capability: "12.0"}',
    "cluster/ours.yaml": "{scheduler: slurm, partition: fast}",
    "grid/two.yaml": "{axes: {shape: [tiny, mine]}}",
}
NEAR = {"shape": "mini", "gpu": "rtxx", "cluster": "ourz", "grid": "tvo"}
OWN = {file.partition("/")[0]: Path(file).stem for file in FILES}


def fill(folder: Path, files: dict[str, str] = FILES) -> Path:
    """Write a config folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, errors="surrogateescape")
    return folder


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's config folder, empty."""
    folder = tmp_path / "own"
    folder.mkdir()
    monkeypatch.setenv("MXFP8_CONFIG_DIR", str(folder))
    return folder


def named(way: str, launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Fills a folder and names it in one of four ways; returns the flags that the way needs."""
    folder = launcher.home / "elsewhere" / "mxfp8-attention"
    if way == "~/.config":
        folder = launcher.home / ".config" / "mxfp8-attention"
    elif way != "--config-dir":
        monkeypatch.setenv(way, str(folder if way == "MXFP8_CONFIG_DIR" else folder.parent))
    fill(folder)
    return [f"--config-dir={folder}"] if way == "--config-dir" else []


@pytest.mark.parametrize("way", ["XDG_CONFIG_HOME", "~/.config"])
def test_the_usual_folders(launcher: Launcher, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    named(way, launcher, monkeypatch)
    assert launcher.complete("python launch.py gpu=rt") == ["gpu=rtx"]
    assert "batch: 2\n" in launcher.output("run", "shape=mine", "--cfg", "job", "-p", "shape")


@pytest.mark.parametrize("way", ["MXFP8_CONFIG_DIR", "--config-dir"])
def test_everything_sees_it(launcher: Launcher, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    flags = named(way, launcher, monkeypatch)
    python = launcher.python()
    assert launcher("run", "shape=mine", python, *flags).code == 0
    shape = launcher.record().config["shape"]
    assert (shape["name"], shape["batch"]) == ("mine", 2)

    words = ("grid=two", "gpu=rtx", "cluster=ours", "recipe=bf16")
    shown = launcher.output("plan", *words, *flags)
    assert all(point in shown for point in ("shape=tiny", "shape=mine"))

    for group, wrong in NEAR.items():
        error = launcher.error("sweep", f"{group}={wrong}", *flags)
        assert isinstance(error, UnknownName)
        assert (error.name, error.suggestion) == (wrong, OWN[group])

    helped = launcher("sweep", "--help", *flags).out
    for group, choice in OWN.items():
        (listed,) = (row for row in helped.splitlines() if row.startswith(f"  {group}="))
        assert choice in listed.partition("=")[2].split("|")
        line = " ".join(["python launch.py sweep", *flags, f"{group}={choice[:2]}"])
        assert launcher.complete(line) == [f"{group}={choice}"]


def test_a_sweep_runs_its_shape_and_its_grid(launcher: Launcher, own: Path) -> None:
    fill(own)
    launcher.output("sweep", "grid=two", launcher.python())
    names = [point.config["shape"]["name"] for point in launcher.ledger().plan()]
    assert names == ["tiny", "mine"]


@pytest.mark.parametrize("file", ["shape/tiny.yaml", "sweep.yaml", "schema_sweep.yaml"])
def test_a_hidden_file_is_refused(launcher: Launcher, own: Path, file: str) -> None:
    fill(own, {file: "{batch: 9}"})
    for words in (["plan"], ["sweep", "--help"], ["--cfg", "job"]):
        assert file_error(launcher, *words).path == own / file
    assert launcher.complete("python launch.py shape=ti") == []


def file_error(launcher: Launcher, *words: str) -> ConfigFileError:
    """The error of a command that a file of the user stops."""
    error = launcher.error(*words)
    assert isinstance(error, ConfigFileError), error
    assert not launcher.runs_dir.exists()
    return error


@pytest.mark.parametrize("file", ["shape/tiny.yaml", "status.yaml"])
def test_a_hidden_file_is_a_note_without_points(launcher: Launcher, own: Path, file: str) -> None:
    assert launcher("run", launcher.python()).code == 0
    fill(own, {file: "{batch: 9}"})
    for words in (["status", "latest"], ["logs", "latest"], ["collect", "latest"], ["resume"]):
        result = launcher(*words)
        assert result.code == 0, words
        assert result.err.startswith(f"launch.py: note: {own / file}: "), words
        assert result.out
    assert launcher.complete("python launch.py status watch") == ["watch="]


def test_two_folders_may_not_share_a_file(launcher: Launcher, own: Path, tmp_path: Path) -> None:
    fill(own)
    other = fill(tmp_path / "other", {"shape/mine.yaml": "{}"})
    assert launcher("plan", f"--config-dir={own}").code == 0
    error = file_error(launcher, "plan", f"--config-dir={other}")
    assert error.path == own / "shape" / "mine.yaml"


def test_the_named_folder_must_exist(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    passed_sweep(launcher.runs_dir)
    monkeypatch.setenv("MXFP8_CONFIG_DIR", "/nope")
    for words in ("plan", "sweep --help", "--cfg job"):
        error = launcher.error(*words.split())
        assert isinstance(error, InvalidValue)
        assert (error.key, error.value) == ("MXFP8_CONFIG_DIR", "/nope")
    both = ("compare latest latest", "history latest latest")
    for words in ("status", "logs", "collect latest", *both, "baseline latest name=b"):
        result = launcher(*words.split())
        assert result.code in (0, 3), (words, result.err)
        (note,) = result.err.splitlines()
        assert note.startswith("launch.py: note: MXFP8_CONFIG_DIR"), words


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: [", 1),
        ("seq_len: 1\nseq_len: 2", 2),
        ("[1]", None),
        ("defaults: [nope]", None),
        ("\udcff", None),
    ],
)
def test_a_wrong_file_is_named(launcher: Launcher, own: Path, text: str, line: int | None) -> None:
    fill(own, {"shape/mine.yaml": text})
    error = file_error(launcher, "shape=mine")
    assert error.line == line
    assert error.path in (own / "shape/mine.yaml", Path("shape/nope.yaml"))


@pytest.mark.parametrize(
    ("file", "text", "key"),
    [
        ("shape/mine.yaml", "seq_len: many", "shape.seq_len"),
        ("shape/mine.yaml", "nope: 1", "shape.nope"),
        ("cluster/mine.yaml", "nodelist: [n1, n2]", "cluster.nodelist"),
        ("cluster/mine.yaml", "comment: {a: 1}", "cluster.comment"),
        ("cluster/mine.yaml", "srun: --x", "cluster.srun"),
        ("cluster/mine.yaml", "env: {A: null}", "cluster.env.A"),
    ],
)
def test_a_wrong_key_or_value_in_a_file_is_named_with_the_file(
    launcher: Launcher, own: Path, file: str, text: str, key: str
) -> None:
    fill(own, {file: text})
    group = Path(file).parent.name
    error = file_error(launcher, "sweep", f"{group}=mine")
    assert error.path == Path(file)
    cause = error.problem
    assert isinstance(cause, InvalidValue | UnknownName)
    assert (cause.key if isinstance(cause, InvalidValue) else cause.name) == key


def test_what_only_the_whole_configuration_shows_is_named(launcher: Launcher, own: Path) -> None:
    fill(own, {"shape/mine.yaml": "seq_len: 128"})
    error = launcher.error("shape=mine")
    assert isinstance(error, MissingValue)
    assert error.key == "shape.hidden"
    fill(own, {"shape/mine.yaml": "{seq_len: 128, hidden: 0, num_heads: 4}"})
    assert isinstance(launcher.error("sweep", "shape=tiny,mine"), InvalidConfig)


def test_files_that_include_each_other_are_refused(launcher: Launcher, own: Path) -> None:
    mine, other = "defaults: [other]", "defaults: [/shape/mine]"
    fill(own, {"shape/mine.yaml": mine, "shape/other.yaml": other})
    for words in (["plan", "shape=tiny,mine"], ["--cfg", "job", "shape=mine"]):
        error = file_error(launcher, *words)
        assert error.path == own / "shape" / "mine.yaml"
        assert "shape/mine -> shape/other -> shape/mine" in str(error.problem)
    assert launcher.complete("python launch.py shape=mine shape.seq") == []
    assert launcher("plan", "shape=tiny").code == 0, "a file that is not used breaks nothing"


def test_a_file_that_includes_a_shipped_one_is_composed(launcher: Launcher, own: Path) -> None:
    mine, other = "defaults: [other, _self_]\nseq_len: 256", "defaults: [tiny]\nbatch: 3"
    fill(own, {"shape/mine.yaml": mine, "shape/other.yaml": other})
    shown = launcher.output("run", "shape=mine", "--cfg", "job", "--package", "shape")
    assert "batch: 3\n" in shown
    assert "seq_len: 256\n" in shown
