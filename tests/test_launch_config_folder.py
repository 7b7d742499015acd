"""A user's own files, in a folder outside the checkout, are seen by everything that takes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.ledger import passed_sweep
from tests.fake_node import install
from tests.launcher import Launcher

ROOT = Path(__file__).parents[1]
FILES = {
    "shape/mine.yaml": "{batch: 2, seq_len: 128, hidden: 256, num_heads: 4}",
    "gpu/rtx.yaml": '{matches: [RTX], compute_capability: "12.0"}',
    "cluster/ours.yaml": "{scheduler: slurm, partition: fast}",
    "grid/two.yaml": "{axes: {shape: [tiny, mine]}}",
}
NEAR = {"shape": "mini", "gpu": "rtxx", "cluster": "ourz", "grid": "tvo"}
OWN = {file.partition("/")[0]: Path(file).stem for file in FILES}


def fill(folder: Path, files: dict[str, str] = FILES) -> Path:
    """Writes a config folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
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
def test_it_may_lie_where_configuration_lies(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    named(way, launcher, monkeypatch)
    assert launcher.complete("python launch.py gpu=rt") == ["gpu=rtx"]
    shown = launcher("run", "shape=mine", "--cfg", "job", "--package", "shape")
    assert "batch: 2\n" in shown.out


@pytest.mark.parametrize("way", ["MXFP8_CONFIG_DIR", "--config-dir"])
def test_every_verb_message_help_and_completion_sees_it(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, way: str, tmp_path: Path
) -> None:
    flags = named(way, launcher, monkeypatch)
    python = f"cluster.python={install(tmp_path)}"
    assert launcher("run", "shape=mine", python, *flags).code == 0
    (record,) = launcher.records()
    assert record.config["shape"]["name"] == "mine"
    assert record.config["shape"]["batch"] == 2

    shown = launcher("plan", "grid=two", "gpu=rtx", "cluster=ours", "recipe=bf16", *flags)
    assert shown.code == 0, shown.err
    assert "shape=tiny" in shown.out
    assert "shape=mine" in shown.out

    for group, wrong in NEAR.items():
        refused = launcher("sweep", f"{group}={wrong}", *flags).refusal()
        assert refused.endswith(f"got '{wrong}'; did you mean {OWN[group]}?"), refused

    helped = launcher("sweep", "--help", *flags).out
    for group, choice in OWN.items():
        (listed,) = (row for row in helped.splitlines() if row.startswith(f"  {group}="))
        assert choice in listed.partition("=")[2].split("|")
        line = " ".join(["python launch.py sweep", *flags, f"{group}={choice[:2]}"])
        assert launcher.complete(line) == [f"{group}={choice}"]


def test_a_sweep_runs_its_shape_and_its_grid(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MXFP8_CONFIG_DIR", str(fill(tmp_path / "own")))
    assert launcher("sweep", "grid=two", f"cluster.python={install(tmp_path)}").code == 0
    names = [point.config["shape"]["name"] for point in launcher.ledger().plan()]
    assert names == ["tiny", "mine"]


@pytest.mark.parametrize("file", ["shape/tiny.yaml", "sweep.yaml"])
def test_a_file_that_a_shipped_one_would_hide_is_refused(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str
) -> None:
    own = fill(tmp_path / "own", {file: "{batch: 9}"})
    sentence = f"{own / file} is hidden by {ROOT / 'conf' / file}; give it another name"
    for words in (["plan"], ["sweep", "--help"], ["--cfg", "job"]):
        assert launcher(*words, f"--config-dir={own}").refusal() == sentence
    monkeypatch.setenv("MXFP8_CONFIG_DIR", str(own))
    assert launcher("plan").refusal() == sentence
    assert launcher.complete("python launch.py shape=ti") == []


@pytest.mark.parametrize("file", ["shape/tiny.yaml", "status.yaml"])
def test_a_file_that_is_hidden_stops_no_verb_that_plans_no_point(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str
) -> None:
    assert launcher("run", f"cluster.python={install(tmp_path)}").code == 0
    own = fill(tmp_path / "own", {file: "{batch: 9}"})
    monkeypatch.setenv("MXFP8_CONFIG_DIR", str(own))
    sentence = f"{own / file} is hidden by {ROOT / 'conf' / file}; give it another name"
    for words in (["status", "latest"], ["logs", "latest"], ["collect", "latest"], ["resume"]):
        result = launcher(*words)
        assert (result.code, result.err) == (0, f"launch.py: note: {sentence}\n"), words
        assert result.out
    assert launcher.complete("python launch.py status watch") == ["watch="]


def test_of_two_folders_of_the_users_own_none_hides_the_other(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own, named = fill(tmp_path / "own"), fill(tmp_path / "named", {"shape/mine.yaml": "{}"})
    monkeypatch.setenv("MXFP8_CONFIG_DIR", str(own))
    assert launcher("plan", f"--config-dir={own}").code == 0
    hidden, first = own / "shape" / "mine.yaml", named / "shape" / "mine.yaml"
    refused = launcher("plan", f"--config-dir={named}").refusal()
    assert refused == f"{hidden} is hidden by {first}; give it another name"


def test_a_folder_that_is_named_must_be_there(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MXFP8_CONFIG_DIR", "/nope")
    for words in (["plan"], ["sweep", "--help"], ["--cfg", "job"]):
        sentence = launcher(*words).refusal()
        assert sentence == "MXFP8_CONFIG_DIR must name a folder, got /nope; make it or unset it"


def test_a_verb_that_plans_no_points_goes_on_without_the_folder_and_says_so(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    passed_sweep(launcher.runs_dir)
    monkeypatch.setenv("MXFP8_CONFIG_DIR", "/nope")
    note = "launch.py: note: MXFP8_CONFIG_DIR must name a folder, got /nope; make it or unset it"
    for words in (
        ("status",),
        ("logs",),
        ("collect", "latest"),
        ("compare", "latest", "latest"),
        ("history", "latest", "latest"),
        ("baseline", "latest", "name=b"),
    ):
        done = launcher(*words)
        assert done.code in (0, 3), (words, done.err)
        assert done.err.splitlines() == [note], words


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: [", "{folder}/shape/mine.yaml, line 1, must be YAML, got: "),
        (
            "seq_len: 1\nseq_len: 2",
            "{folder}/shape/mine.yaml, line 2, must be YAML, got: found",
        ),
        ("seq_len: many", "shape/mine.yaml: shape.seq_len must be an integer, got 'many'"),
        ("nope: 1", "shape/mine.yaml: shape.nope is no key of shape; known: attn_mask"),
        ("[1]", "{folder}/shape/mine.yaml must hold a mapping of keys, got a list; write lines"),
        ("seq_len: 128", "shape.hidden must be given, got nothing"),
        ("defaults: [nope]", "the configuration 'shape/nope' is not there; --info searchpath"),
        ("{seq_len: 128, hidden: 0, num_heads: 4}", "shape.hidden must be at least 1, got 0"),
    ],
    ids=lambda value: value[:12],
)
def test_a_mistake_in_it_is_told_in_one_line(
    launcher: Launcher,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    text: str,
    sentence: str,
) -> None:
    folder = fill(tmp_path / "own", {"shape/mine.yaml": text})
    monkeypatch.setenv("MXFP8_CONFIG_DIR", str(folder))
    assert launcher("shape=mine").refusal().startswith(sentence.format(folder=folder))
    assert not launcher.runs_dir.exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nodelist: [n1, n2]", "cluster.nodelist must be a text, got a list"),
        ("comment: {a: 1}", "cluster.comment must be a text, got a mapping"),
        ("srun: --x", "cluster.srun must be a list, as in [a,b], got one value"),
        ("env: {A: null}", "cluster.env.A must have a value, got null"),
    ],
)
def test_a_mistake_in_a_site_of_ones_own_is_told_with_what_was_written(
    launcher: Launcher,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    text: str,
    sentence: str,
) -> None:
    folder = fill(tmp_path / "own", {"cluster/mine.yaml": f"scheduler: slurm\n{text}\n"})
    monkeypatch.setenv("MXFP8_CONFIG_DIR", str(folder))
    assert launcher("plan", "cluster=mine").refusal() == f"cluster/mine.yaml: {sentence}"


def test_a_mistake_in_it_stops_a_whole_sweep(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = fill(tmp_path / "own", {"shape/mine.yaml": "seq_len: many"})
    monkeypatch.setenv("MXFP8_CONFIG_DIR", str(folder))
    told = launcher("sweep", "shape=tiny,mine").refusal()
    assert told == "shape/mine.yaml: shape.seq_len must be an integer, got 'many'"
    assert not launcher.runs_dir.exists()


def test_a_file_that_is_no_text_is_told(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = fill(tmp_path / "own", {"shape/mine.yaml": ""})
    (folder / "shape" / "mine.yaml").write_bytes(b"\xff\xfe")
    monkeypatch.setenv("MXFP8_CONFIG_DIR", str(folder))
    told = f"{folder}/shape/mine.yaml must be UTF-8 text, got byte 0xff; save it as UTF-8"
    assert launcher("shape=mine").refusal() == told


def test_files_that_include_each_other_are_told(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = fill(
        tmp_path / "own",
        {"shape/mine.yaml": "defaults: [other]", "shape/other.yaml": "defaults: [/shape/mine]"},
    )
    told = "must not include itself, got shape/mine -> shape/other -> shape/mine; take one out"
    for words in (["plan", "shape=tiny,mine"], ["--cfg", "job", "shape=mine"]):
        refused = launcher(*words, f"--config-dir={folder}").refusal()
        assert refused == f"{folder}/shape/mine.yaml {told}"
    monkeypatch.setenv("MXFP8_CONFIG_DIR", str(folder))
    assert launcher.complete("python launch.py shape=mine shape.seq") == []
    assert launcher("plan", "shape=tiny").code == 0, "a file that is not asked for breaks nothing"


def test_a_file_that_includes_a_shipped_one_is_composed(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = fill(
        tmp_path / "own",
        {
            "shape/mine.yaml": "defaults: [other, _self_]\nseq_len: 256",
            "shape/other.yaml": "defaults: [tiny]\nbatch: 3",
        },
    )
    monkeypatch.setenv("MXFP8_CONFIG_DIR", str(folder))
    shown = launcher("run", "shape=mine", "--cfg", "job", "--package", "shape").out
    assert "batch: 3\n" in shown
    assert "seq_len: 256\n" in shown


def test_a_file_named_like_a_type_of_the_tool_is_refused(
    launcher: Launcher, tmp_path: Path
) -> None:
    folder = fill(tmp_path / "own", {"schema_sweep.yaml": "{}"})
    told = launcher("plan", f"--config-dir={folder}").refusal()
    assert told == f"{folder}/schema_sweep.yaml hides a type of this tool; give it another name"
