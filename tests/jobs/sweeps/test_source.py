"""The code of a sweep: its commit, and a hash that changes with every changed source."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobs.sweeps.source import Source, source_of


@pytest.fixture(autouse=True)
def empty_cache() -> Iterator[None]:
    """No answer of git is remembered before or after a test."""
    source_of.cache_clear()
    yield
    source_of.cache_clear()


def git(folder: Path, *words: str) -> str:
    """Runs git with a name of its own."""
    name = ["-c", "user.name=me", "-c", "user.email=me@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(folder), *name, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def commit(folder: Path, message: str) -> None:
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", message)


def read_source(checkout: Path) -> Source:
    """The state of a checkout as it is now."""
    source_of.cache_clear()
    return source_of(checkout)


def write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with one commit."""
    git(tmp_path, "init", "-q")
    write(tmp_path / "a.py", "a = 1\n")
    write(tmp_path / "README.md", "hello\n")
    write(tmp_path / ".gitignore", "/runs/\n")
    commit(tmp_path, "First")
    return tmp_path


def test_a_clean_tree_is_its_commit(checkout: Path) -> None:
    head = git(checkout, "rev-parse", "HEAD")
    assert read_source(checkout) == Source(commit=head, dirty=False, dirty_hash=None)


def test_every_changed_source_changes_the_hash(checkout: Path) -> None:
    yaml = checkout / "conf" / "gpu" / "b.yaml"
    changes: list[Callable[[], object]] = [
        lambda: write(checkout / "a.py", "a = 2\n"),
        lambda: write(yaml, "b: 1\n"),
        lambda: write(yaml, "b: 2\n"),
        lambda: yaml.rename(checkout / "conf" / "b.yaml"),
        lambda: write(checkout / "beside.py"),
        lambda: write(checkout / "jobs" / "new.py"),
        lambda: (checkout / "a.py").unlink(),
    ]
    hashes = {read_source(checkout).dirty_hash}
    for change in changes:
        change()
        source = read_source(checkout)
        assert source.dirty
        hashes.add(source.dirty_hash)
        if change is changes[0]:
            git(checkout, "add", "a.py")  # a staged change counts like any other
    assert len(hashes) == len(changes) + 1
    before = git(checkout, "rev-parse", "HEAD")
    commit(checkout, "Second")
    source = read_source(checkout)
    assert (source.commit != before, source.dirty) == (True, False)


def test_the_same_change_has_the_same_hash(checkout: Path) -> None:
    write(checkout / "a.py", "a = 2\n")
    assert read_source(checkout) == read_source(checkout)


def test_files_that_no_run_reads_do_not_count(checkout: Path) -> None:
    for name in ("README.md", "notes.txt", "runs/point.json"):
        write(checkout / name, "changed\n")
    assert read_source(checkout).dirty is False


@pytest.mark.parametrize(
    "name",
    [
        "myruns/s-1/sweep.json",
        "myruns/s-1/snapshot/jobs/source.py",
        "myresults/c-1/points.json",
        "mine/gpu/b.yaml",
    ],
)
def test_results_and_own_configuration_count_only_if_tracked(checkout: Path, name: str) -> None:
    clean = read_source(checkout)
    write(checkout / name, "{}\n")
    assert read_source(checkout) == clean
    write(checkout / "a.py", "a = 2\n")
    changed = read_source(checkout)
    write(checkout / name, "[]\n")
    assert read_source(checkout) == changed
    git(checkout, "add", name)
    assert read_source(checkout).dirty_hash != changed.dirty_hash


def test_a_source_without_git_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert read_source(tmp_path) == Source()
    monkeypatch.setenv("PATH", "/nope")
    assert read_source(tmp_path) == Source()


def test_a_copy_inside_another_repository_has_no_commit(checkout: Path) -> None:
    copy = checkout / "vendor" / "tool"
    copy.mkdir(parents=True)
    assert source_of(copy) == Source()
