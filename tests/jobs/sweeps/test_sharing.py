"""`launch.share=group`: the group may read every file of a sweep."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.sweeps.sharing import closed_to_group
from tests.launcher import Launcher
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.launching import SlurmUser, install_stand_in


def modes(root: Path) -> set[tuple[str, int]]:
    """Kinds and permissions of all files."""
    return {
        ("folder" if path.is_dir() else "file", stat.S_IMODE(path.stat().st_mode))
        for path in [root, *root.rglob("*")]
        if not path.is_symlink()
    }


@pytest.fixture
def umask_077() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask_077")
@pytest.mark.parametrize(
    ("words", "seen"),
    [
        ([], {("folder", 0o700), ("file", 0o600)}),
        (["launch.share=group"], {("folder", 0o750), ("file", 0o640)}),
    ],
)
def test_all_files_of_a_local_sweep_have_its_permissions(
    launcher: Launcher, tmp_path: Path, words: list[str], seen: set[tuple[str, int]]
) -> None:
    python = f"cluster.python={install_stand_in(tmp_path)}"
    done = launcher("sweep", python, f"shape.seed={node.PASS},{node.RAISES}", *words)
    assert done.code == 1, done
    assert launcher("status").code == 0
    assert modes(launcher.ledger().root) == seen
    assert ("group" in done.out) is bool(words)


@pytest.mark.slurm
@pytest.mark.usefixtures("umask_077")
def test_all_files_of_a_slurm_sweep_have_its_permissions(slurm_user: SlurmUser) -> None:
    seeds = f"shape.seed={node.PASS},{node.RAISES}"
    words = ("launch.share=group", "launch.snapshot=true", "wait=true")
    done, ledger = slurm_user.sweep(seeds, "recipe=mxfp8,fp8_current", *words)
    assert done.returncode == 1, done.stdout + done.stderr
    slurm_user.wait(ledger)
    executable = {("file", 0o750)}  # of the snapshot
    assert modes(ledger.root) - executable == {("folder", 0o750), ("file", 0o640)}
    names = {path.name for path in ledger.root.rglob("*")}
    (line,) = ledger.jobs()
    logs = {f"{line.job_id}_0_batch.out", f"{line.job_id}_0_0_log.out", "record.json"}
    assert names >= {*logs, "output.log", "entry.zip", "entry.pkl", "snapshot", "planned"}


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that anybody can enter, as pytest's own are not."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        if any(parent.stat().st_mode & 0o011 != 0o011 for parent in folder.parents):
            pytest.skip(f"{folder} lies in a folder that is closed to others")
        yield folder


def test_the_outermost_folder_that_is_closed_to_the_group_is_found(open_folder: Path) -> None:
    home = open_folder / "home"
    sweep = home / "runs" / "s-1"
    sweep.mkdir(parents=True)
    gid = sweep.stat().st_gid
    home.chmod(0o710)
    sweep.parent.chmod(0o750)
    assert closed_to_group(sweep, gid) is None
    sweep.parent.chmod(0o710)  # can be entered, and its sweeps cannot be listed
    assert closed_to_group(sweep, gid) == sweep.parent
    home.chmod(0o700)
    assert closed_to_group(sweep, gid) == home
    home.chmod(0o701)  # open to others, which its own group is not
    assert closed_to_group(sweep, gid) == home
    assert closed_to_group(sweep, gid + 1) == sweep.parent
