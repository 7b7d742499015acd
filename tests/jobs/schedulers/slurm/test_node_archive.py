"""The archive runs on a bare interpreter, and a snapshot holds the tree as it was submitted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jobs.errors import UsageError
from jobs.schedulers.slurm.node_archive import pack_entry, take_snapshot


def test_the_archive_holds_all_that_submitit_needs_on_a_bare_interpreter(tmp_path: Path) -> None:
    archive = pack_entry(tmp_path)
    modules = "submitit.core.submission, jobs.runner.bootstrap, jobs.runner.slot"
    done = subprocess.run(
        [sys.executable, "-s", "-S", "-c", f"import {modules}"],
        env={"PYTHONPATH": str(archive)}, capture_output=True, text=True, check=False, cwd="/",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [archive.name]


def test_a_snapshot_needs_a_checkout(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        take_snapshot(tmp_path / "sweep", tmp_path)


def test_a_snapshot_holds_what_is_new_and_not_what_git_ignores(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    for command in (["init", "-q"], ["add", "."]):
        (tree / ".gitignore").write_text("runs/\n")
        subprocess.run(["git", "-C", str(tree), *command], check=True)
    (tree / "new.py").write_text("1")
    (tree / "runs").mkdir()
    (tree / "runs" / "huge").write_text("1")
    (tree / "myruns" / "s-1").mkdir(parents=True)  # runs_dir=myruns, which git does not ignore
    (tree / "myruns" / "s-1" / "entry.py").write_text("1")
    (tmp_path / "sweep").mkdir()
    copy = take_snapshot(tmp_path / "sweep", tree)
    assert sorted(path.name for path in copy.iterdir()) == [".gitignore", "new.py"]
    (tree / "new.py").write_text("2")
    assert (take_snapshot(tmp_path / "sweep", tree) / "new.py").read_text() == "1"


def test_what_a_killed_process_left_of_a_snapshot_goes(tmp_path: Path) -> None:
    (tmp_path / "sweep" / ".snapshot.4711").mkdir(parents=True)
    copy = take_snapshot(tmp_path / "sweep")
    assert list((tmp_path / "sweep").iterdir()) == [copy]
