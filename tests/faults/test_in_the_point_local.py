"""Faults of one point that need this machine: its disks, and the real node in a process."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import torch

from jobs.record import Cause
from tests.faults import broken_node
from tests.faults.fixtures import Tell
from tests.faults.matrix import Part, Place, fault
from tests.faults.telling import Here, told_of
from tests.launcher import Launcher
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.launching import FAST, install_stand_in

REAL = ("shape=tiny", "recipe=mxfp8", "benchmark=off")


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A disk of 8 MiB in place of a folder; skips the test where none can be mounted."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def lockable(folder: Path) -> Iterator[None]:
    """Folders below this one may be made immutable; skips the test where chattr cannot do that."""
    probe = folder / "probe"
    probe.mkdir()
    done = subprocess.run(["chattr", "+i", probe], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no folder can be made immutable here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["chattr", "-R", "-i", str(folder)], check=True, capture_output=True)


def on_small_disk(launcher: Launcher) -> AbstractContextManager[None]:
    return small_disk(launcher.runs_dir)


def on_lockable_disk(launcher: Launcher) -> AbstractContextManager[None]:
    return lockable(launcher.home.parent)


DISKS = {
    node.FILLS_DISK: (
        on_small_disk,
        fault(
            Part.point,
            "the disk is full as the point ends",
            told="ERROR",
            cause=Cause.storage,
            quotes="OSError: [Errno 28] No space left on device",
            code=1,
            place=Place.machine,
            note="its record is written into space kept aside",
        ),
    ),
    node.FILLS_DISK_AND_SPARE: (
        on_small_disk,
        fault(
            Part.point,
            "the disk is full, and so is the space kept aside",
            told="ERROR",
            cause=Cause.lost,
            quotes="No space left on device; it ended as ERROR storage",
            code=1,
            place=Place.machine,
        ),
    ),
    node.LOCKS_FOLDER: (
        on_lockable_disk,
        fault(
            Part.point,
            "the attempt's folder turns unwritable",
            told="ERROR",
            cause=Cause.lost,
            quotes="Operation not permitted; it ended as ERROR exception",
            code=1,
            place=Place.machine,
        ),
    ),
}


@pytest.mark.parametrize(
    ("act", "disk"), [pytest.param(act, disk, marks=row) for act, (disk, row) in DISKS.items()]
)
def test_a_disk_that_takes_no_more(
    launcher: Launcher,
    tell: Tell,
    act: int,
    disk: Callable[[Launcher], AbstractContextManager[None]],
) -> None:
    python = f"cluster.python={install_stand_in(launcher.home)}"
    user = Here(launcher)
    with disk(launcher):
        done = user.run_apart("sweep", *FAST, f"shape.seed={act},{node.PASS}", python)
        assert (done.returncode, done.stderr) == (1, "")
        ledger = launcher.ledger()
        broken, good = ledger.plan()
        told = told_of(user, ledger, broken.point_id, screen=done.stdout)
        if act == node.LOCKS_FOLDER:
            assert told_of(user, ledger, good.point_id).told == "PASSED"
    tell(told)


@fault(
    Part.point,
    "the disk is full as a good record is written",
    told="PASSED",
    quotes="within tolerance calibrated",
    code=0,
    place=Place.machine,
    slow=True,
    note="written into space kept aside",
)
def test_a_good_record_on_a_full_disk(launcher: Launcher, tell: Tell) -> None:
    python = broken_node.install(launcher.home, broken_node.DISK_FULL)
    with small_disk(launcher.runs_dir):
        done = launcher("run", *REAL, f"cluster.python={python}")
        ledger = launcher.ledger()
        (point,) = ledger.plan()
        (attempt,) = ledger.root.glob("local-*/p-*/attempt-1")
        assert sorted(path.name for path in attempt.iterdir()) == [
            "fill",
            "output.log",
            "record.json",
            "started.json",
        ]
        told = told_of(Here(launcher), ledger, point.point_id, screen=done.out)
    tell(told)


BROKEN = {
    broken_node.GPU_MEMORY: fault(
        Part.point,
        "out of GPU memory, raised by PyTorch",
        told="ERROR",
        cause=Cause.out_of_memory_gpu,
        quotes="OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        code=1,
        place=Place.constructed,
        slow=True,
    ),
    broken_node.LIBRARY: fault(
        Part.point,
        "a library that the node needs late cannot be opened",
        told="ERROR",
        cause=Cause.import_error,
        quotes="OSError: libnot_there.so.9: cannot open shared object file",
        code=1,
        place=Place.machine,
        slow=True,
    ),
    broken_node.NAN: fault(
        Part.point,
        "one NaN in a gradient",
        told="FAILED",
        quotes="elements must be finite, got 1 that are not",
        code=1,
        place=Place.machine,
        slow=True,
    ),
}


@pytest.mark.parametrize("broken", [pytest.param(name, marks=row) for name, row in BROKEN.items()])
def test_a_node_that_breaks(launcher: Launcher, tell: Tell, broken: str) -> None:
    python = broken_node.install(launcher.home, broken)
    done = launcher("run", *REAL, f"cluster.python={python}")
    ledger = launcher.ledger()
    (point,) = ledger.plan()
    tell(told_of(Here(launcher), ledger, point.point_id, screen=done.out))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")
@fault(
    Part.point,
    "out of GPU memory, for another process holds it",
    told="ERROR",
    cause=Cause.out_of_memory_gpu,
    quotes="CUDA out of memory",
    code=1,
    place=Place.gpu,
    slow=True,
    note="run on an H200",
)
def test_a_gpu_that_is_full(launcher: Launcher, tell: Tell) -> None:
    free_bytes, _ = torch.cuda.mem_get_info()
    held = torch.empty(free_bytes - 2**30, dtype=torch.uint8, device="cuda")
    where = ("gpu=h200", "gpu.any=true", "backend=emulated")
    done = launcher("run", *where, "shape=dsv3", "recipe=bf16", "benchmark=off", "tolerance=none")
    del held
    ledger = launcher.ledger()
    (point,) = ledger.plan()
    tell(told_of(Here(launcher), ledger, point.point_id, screen=done.out))
