"""A stand-in for the node's interpreter: real Python for the entry, a fault or a pass for a point.

`cluster.python` names it in tests, so that a point takes milliseconds instead of an import of
torch. The act of the point follows from `shape.seed`. It imports nothing of this repository.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from importlib import import_module
from pathlib import Path

PASS = 0
SLOW_PASS = 1
FAIL = 2
UNSUPPORTED = 3
RAISES = 10
EXITS_0 = 11
EXITS_3 = 12
SEGFAULT = 13
KILLED = 14
HANGS = 15
EATS_MEMORY = 16
WRITES_ENVIRONMENT = 20
MISSES_MODULE = 30
MISSES_LIBRARY = 31
EXITS_AT_ONCE = 32
ABORTS_IN_THREAD = 33
PRINTS_AND_RAISES = 34
FORKS_PRINTERS = 35
SPOILS_NEXT = 36
FILLS_DISK = 37
FILLS_DISK_AND_SPARE = 38
LOCKS_FOLDER = 39
SETS_CLOCK_BACK = 40
EATS_MEMORY_OF_ALL = 41
FINDS_DISK_FULL = 43
HANGS_ONCE = 60  # its first attempt hangs, the next one passes
"""Values of `shape.seed`, modulo 100: a sweep may have any number of points with one act."""


def run_point(point_file: Path, attempt: Path) -> None:
    """Do what the point's seed says."""
    given = json.loads(point_file.read_text())
    act = given["point"]["shape"]["seed"] % 100
    identity = {
        "point_id": given["point_id"],
        "sweep_id": given["sweep_id"],
        "job_id": os.environ["MXFP8_JOB_ID"],
        "raw_job_id": os.environ.get("SLURM_JOB_ID"),
        "attempt": int(attempt.name.rpartition("-")[2]),
        "restart_count": int(os.environ.get("SLURM_RESTART_COUNT", "0")),
    }
    start = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
    started = {"identity": identity, "host": socket.gethostname(), "pid": os.getpid()}
    (attempt / "started.json").write_text(json.dumps({**started, "started_at": start}))
    print("point", given["point_id"], "acts", act, flush=True)
    _act(act, attempt)
    record = {
        "identity": identity,
        "config": given["point"],
        "environment": {"host": os.environ.get("SLURMD_NODENAME") or socket.gethostname()},
        "outcome": {FAIL: "FAILED", UNSUPPORTED: "UNSUPPORTED"}.get(act, "PASSED"),
        "reason": "a stand-in",
        "started_at": start,
        "duration_s": 0.0,
        "command": given["command"],
    }
    unfinished = attempt / f".record.json.{os.getpid()}"  # as the node's own writer names it
    unfinished.write_text(json.dumps(record))
    unfinished.rename(attempt / "record.json")


def _act(act: int, attempt: Path) -> None:
    if act == SLOW_PASS:
        time.sleep(1.5)
    elif act == RAISES:
        raise ValueError("the point raised")
    elif act in (EXITS_0, EXITS_3):
        sys.exit(0 if act == EXITS_0 else 3)
    elif act == EXITS_AT_ONCE:
        os._exit(7)
    elif act in (SEGFAULT, KILLED):
        os.kill(os.getpid(), signal.SIGSEGV if act == SEGFAULT else signal.SIGKILL)
    elif act == HANGS or (act == HANGS_ONCE and _is_first(attempt)):
        time.sleep(600)
    elif act in (EATS_MEMORY, EATS_MEMORY_OF_ALL):
        if act == EATS_MEMORY_OF_ALL:  # makes the kernel kill the runner first
            Path(f"/proc/{os.getppid()}/oom_score_adj").write_text("1000")
        blocks = []
        while True:
            blocks.append(bytearray(16 << 20))
    elif act == FINDS_DISK_FULL:
        raise OSError(errno.ENOSPC, "No space left on device", "/scratch/trace.json")
    elif act == SETS_CLOCK_BACK:
        Path(os.environ["NODE_CLOCK"]).write_text("-3600")
        time.sleep(600)
    elif act == MISSES_MODULE:
        import_module("a_module_that_is_not_there")
    elif act == MISSES_LIBRARY:
        ctypes.CDLL("libnot_there.so.9")
    elif act == ABORTS_IN_THREAD:
        thread = threading.Thread(target=ctypes.CDLL(None).abort)
        thread.start()
        thread.join()
    elif act == PRINTS_AND_RAISES:
        _print_mib(200)
        raise ValueError("after a long log")
    elif act == FORKS_PRINTERS:
        for _ in range(16):
            if os.fork() == 0:
                _print_mib(20)
                os._exit(0)
        for _ in range(16):
            os.wait()
    elif act == SPOILS_NEXT:
        _next_point(attempt).write_text("a file in place of a folder")
    elif act in (FILLS_DISK, FILLS_DISK_AND_SPARE):
        if act == FILLS_DISK_AND_SPARE:
            (attempt / ".spare.part").unlink()
        fill(attempt / "fill")
    elif act == LOCKS_FOLDER:
        subprocess.run(["chattr", "+i", str(attempt)], check=True)
    elif act == WRITES_ENVIRONMENT:
        (attempt / "environment.json").write_text(json.dumps([dict(os.environ), os.getcwd()]))


def _next_point(attempt: Path) -> Path:
    """Return the folder of the next point of the plan."""
    point, job = attempt.parent, attempt.parents[1]
    plan = (job.parent / "plan.jsonl").read_text().splitlines()
    ids = [json.loads(line)["point_id"] for line in plan]
    return job / str(ids[ids.index(point.name) + 1])


def fill(path: Path) -> None:
    """Write until the disk is full to the last byte."""
    with path.open("wb", buffering=0) as handle:
        for size in (2**20, 2**12, 1):
            try:
                while True:
                    handle.write(bytes(size))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


def _print_mib(number: int) -> None:
    line = b"a line of a long log".ljust(63, b".") + b"\n"
    for _ in range(number):
        os.write(1, line * 2**14)


def _is_first(attempt: Path) -> bool:
    """Return True for the first attempt of the point, under whatever job."""
    point, sweep = attempt.parent.name, attempt.parents[2]
    return len(list(sweep.glob(f"*/{point}/attempt-*"))) == 1


if __name__ == "__main__":
    if sys.argv[1:3] == ["-m", "jobs.node"]:
        run_point(Path(sys.argv[3]), Path(sys.argv[4]))
    else:
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
