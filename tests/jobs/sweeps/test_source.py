"""Which code ran: the commit, and a hash that changes with every source that differs from it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.sweeps.source import Source, source_of


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """What was asked of git before is not remembered here, nor afterwards."""
    source_of.cache_clear()
    yield
    source_of.cache_clear()


def git(folder: Path, *words: str) -> str:
    """Runs git with a name of its own."""
    name = ["-c", "user.name=me", "-c", "user.email=me@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", "-C", str(folder), *name, *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with one commit."""
    git(tmp_path, "init", "-q")
    (tmp_path / "a.py").write_text("a = 1\n")
    (tmp_path / "README.md").write_text("hello\n")
    (tmp_path / ".gitignore").write_text("/runs/\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "First")
    return tmp_path


def ask(checkout: Path) -> Source:
    """Asks anew."""
    source_of.cache_clear()
    return source_of(checkout)


def test_a_clean_tree_is_its_commit(checkout: Path) -> None:
    commit = git(checkout, "rev-parse", "HEAD")
    assert ask(checkout) == Source(commit=commit, dirty=False, dirty_hash=None)


def test_every_source_that_differs_changes_the_hash(checkout: Path) -> None:
    seen = [ask(checkout).dirty_hash]

    def changed() -> None:
        found = ask(checkout)
        assert found.dirty
        assert found.dirty_hash not in seen
        seen.append(found.dirty_hash)

    (checkout / "a.py").write_text("a = 2\n")
    changed()
    git(checkout, "add", "a.py")
    (checkout / "conf" / "gpu").mkdir(parents=True)
    (checkout / "conf" / "gpu" / "b.yaml").write_text("b: 1\n")  # untracked
    changed()
    (checkout / "conf" / "gpu" / "b.yaml").write_text("b: 2\n")
    changed()
    (checkout / "conf" / "gpu" / "b.yaml").rename(checkout / "conf" / "b.yaml")
    changed()
    (checkout / "beside.py").touch()
    changed()
    (checkout / "jobs").mkdir()
    (checkout / "jobs" / "new.py").touch()
    changed()
    (checkout / "a.py").unlink()
    changed()
    git(checkout, "add", ".")
    before = git(checkout, "rev-parse", "HEAD")
    git(checkout, "commit", "-q", "-m", "Second")
    found = ask(checkout)
    assert found.commit != before
    assert not found.dirty


def test_the_same_change_has_the_same_hash(checkout: Path) -> None:
    (checkout / "a.py").write_text("a = 2\n")
    assert ask(checkout) == ask(checkout)


def test_what_no_run_reads_does_not_count(checkout: Path) -> None:
    (checkout / "README.md").write_text("changed\n")
    (checkout / "notes.txt").touch()
    (checkout / "runs").mkdir()
    (checkout / "runs" / "point.json").touch()  # ignored by git
    assert ask(checkout).dirty is False


@pytest.mark.parametrize(
    "written",
    [
        "myruns/s-1/sweep.json",
        "myruns/s-1/snapshot/jobs/source.py",
        "myresults/c-1/points.json",
        "mine/gpu/b.yaml",
    ],
)
def test_what_a_command_writes_or_a_user_configures_is_no_code(
    checkout: Path, written: str
) -> None:
    before = ask(checkout)
    (checkout / written).parent.mkdir(parents=True)
    (checkout / written).write_text("{}\n")
    assert ask(checkout) == before
    (checkout / "a.py").write_text("a = 2\n")
    changed = ask(checkout)
    (checkout / written).write_text("[]\n")
    assert ask(checkout) == changed
    git(checkout, "add", written)
    assert ask(checkout).dirty_hash != changed.dirty_hash  # what git tracks is of the code


def test_outside_a_checkout_nothing_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert ask(tmp_path) == Source()
    monkeypatch.setenv("PATH", "/nope")
    assert ask(tmp_path) == Source()


def test_a_copy_inside_another_repository_has_no_commit(checkout: Path) -> None:
    copy = checkout / "vendor" / "tool"
    copy.mkdir(parents=True)
    assert source_of(copy) == Source()
