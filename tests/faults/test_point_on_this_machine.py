"""Faults of one point that need this machine: its disks, and the real node in a process."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import pytest
import torch

from jobs.record import Cause, read_record
from tests.faults import broken_node
from tests.faults.matrix import Check, Part, Place, fault
from tests.faults.reports import LocalUser, report_of
from tests.launcher import Launcher
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.launching import FAST, install_stand_in

row = partial(fault, Part.point, place=Place.machine)

REAL = ("shape=tiny", "recipe=mxfp8", "benchmark=off")


@contextmanager
def small_disk(launcher: Launcher) -> Iterator[None]:
    """Mount a disk of 8 MiB as the folder of sweeps, or skip the test."""
    folder = launcher.runs_dir
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
def lockable_disk(launcher: Launcher) -> Iterator[None]:
    """Allow folders of the test to be made immutable, or skip the test."""
    folder = launcher.home.parent
    probe = folder / "probe"
    probe.mkdir()
    done = subprocess.run(["chattr", "+i", probe], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no folder can be made immutable here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["chattr", "-R", "-i", str(folder)], check=True, capture_output=True)


DISKS = {
    node.FILLS_DISK: (
        small_disk,
        row(
            "the disk is full when the point ends",
            "ERROR",
            Cause.storage,
            names="OSError: [Errno 28] No space left on device",
            note="the record is written into reserved space",
        ),
    ),
    node.FILLS_DISK_AND_SPARE: (
        small_disk,
        row(
            "the disk is full, and so is the reserved space",
            "ERROR",
            Cause.lost,
            names=("No space left on device", "storage"),
        ),
    ),
    node.LOCKS_FOLDER: (
        lockable_disk,
        row(
            "the attempt's folder becomes unwritable",
            "ERROR",
            Cause.lost,
            names=("Operation not permitted", "exception"),
        ),
    ),
}


@pytest.mark.parametrize(
    ("act", "disk"), [pytest.param(act, disk, marks=mark) for act, (disk, mark) in DISKS.items()]
)
def test_a_disk_that_takes_no_more(
    launcher: Launcher,
    check: Check,
    act: int,
    disk: Callable[[Launcher], AbstractContextManager[None]],
) -> None:
    python = f"cluster.python={install_stand_in(launcher.home)}"
    user = LocalUser(launcher)
    with disk(launcher):
        done = user.run_apart("sweep", *FAST, f"shape.seed={act},{node.PASS}", python)
        assert (done.returncode, done.stderr) == (1, "")
        ledger = launcher.ledger()
        broken, good = ledger.plan()
        report = report_of(user, ledger, broken.point_id, output=done.stdout)
        if act == node.LOCKS_FOLDER:
            assert report_of(user, ledger, good.point_id).state == "PASSED"
    check(report)


@row(
    "the disk is full when a good record is written",
    "PASSED",
    names="calibrated",
    slow=True,
    note="written into reserved space",
)
def test_a_good_record_on_a_full_disk(launcher: Launcher, check: Check) -> None:
    python = broken_node.install(launcher.home, broken_node.DISK_FULL)
    with small_disk(launcher):
        done = launcher("run", *REAL, f"cluster.python={python}")
        (attempt,) = launcher.ledger().root.glob("local-*/p-*/attempt-1")
        files = {path.name for path in attempt.iterdir()}
        assert files == {"fill", "output.log", "record.json", "started.json"}
        check(LocalUser(launcher).report(output=done.out))


BROKEN = {
    broken_node.GPU_MEMORY: fault(
        Part.point,
        "out of GPU memory, raised by PyTorch",
        "ERROR",
        Cause.out_of_memory_gpu,
        names="OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        place=Place.constructed,
        slow=True,
    ),
    broken_node.LIBRARY: row(
        "a library that the node loads late cannot be opened",
        "ERROR",
        Cause.import_error,
        names="OSError: libnot_there.so.9: cannot open shared object file",
        slow=True,
    ),
    broken_node.NAN: row("one NaN in a gradient", "FAILED", names="dx", slow=True),
}


@pytest.mark.parametrize(
    "broken", [pytest.param(name, marks=mark) for name, mark in BROKEN.items()]
)
def test_a_node_that_breaks(launcher: Launcher, check: Check, broken: str) -> None:
    python = broken_node.install(launcher.home, broken)
    done = launcher("run", *REAL, f"cluster.python={python}")
    check(LocalUser(launcher).report(output=done.out))
    if broken == broken_node.NAN:
        (path,) = launcher.ledger().root.glob("local-*/p-*/attempt-1/record.json")
        validation = read_record(path).validation
        assert validation is not None
        nonfinite = {(one.tensor, one.nonfinite_count) for one in validation.tensors}
        assert {pair for pair in nonfinite if pair[1]} == {("dx", 1)}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")
@fault(
    Part.point,
    "out of GPU memory because another process holds it",
    "ERROR",
    Cause.out_of_memory_gpu,
    names="CUDA out of memory",
    place=Place.gpu,
    slow=True,
    note="run on an H200",
)
def test_a_gpu_that_is_full(launcher: Launcher, check: Check) -> None:
    free_bytes, _ = torch.cuda.mem_get_info()
    held = torch.empty(free_bytes - 2**30, dtype=torch.uint8, device="cuda")
    where = ("gpu=h200", "gpu.any=true", "backend=emulated")
    done = launcher("run", *where, "shape=dsv3", "recipe=bf16", "benchmark=off", "tolerance=none")
    del held
    check(LocalUser(launcher).report(output=done.out))
