"""Time to plan and submit a sweep, compared with hydra-submitit-launcher.

    python -m benchmarks.sweep --peer PYTHON [--points 1000] [--repeats 3] [--out FILE]

Starts its own SLURM (as root) and submits the same sweep of held jobs in turn with `launch.py` and
with Hydra's launcher, if PYTHON is an environment with hydra-submitit-launcher and pydantic. The
time runs from the start of the process until its last sbatch has returned. Then runs `status` for
all points. Exit code 1 if a limit is exceeded.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.slurm_cluster.launching import ROOT, SlurmUser
from tests.slurm_cluster.slurm import SlurmCluster

MIN_RATIO = 5.0
LIMITS_S = {"after_last_sbatch_s": 3.0, "status_s": 1.0}
# A wrapper around sbatch that records when it returned.
_RECORDING_SBATCH = '"$REAL" "$@"; code=$?; date +%s.%N >> {marks}; exit $code'


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark; return 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweep", description=__doc__)
    parser.add_argument("--peer", type=Path, help="Python with hydra-submitit-launcher")
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    options = parser.parse_args(arguments)
    figures = measure(options.points, options.repeats, options.peer)
    for key, value in figures.items():
        print(f"{key:<22}{value}")
    if options.out is not None:
        options.out.write_text(json.dumps(figures, indent=2) + "\n")
    return 0 if within_limits(figures) else 1


def within_limits(figures: dict[str, Any]) -> bool:
    """True if no limit is exceeded."""
    fast = figures.get("ratio") is None or figures["ratio"] >= MIN_RATIO
    return fast and all(figures[key] <= limit for key, limit in LIMITS_S.items())


def measure(points: int, repeats: int, peer: Path | None) -> dict[str, Any]:
    """Submit the sweep in turn with both, and return the best times of each.

    The best, because other load can only make a run slower.

    Args:
        points: Number of points, at most MaxArraySize.
        repeats: Sweeps of each.
        peer: Python of the other launcher; None skips it.
    """
    load = os.getloadavg()[0]  # of other work, to recognize figures of a busy machine
    ours: list[tuple[float, float]] = []
    theirs: list[float] = []
    statuses: list[float] = []
    with tempfile.TemporaryDirectory() as name, SlurmCluster() as cluster:
        for number in range(repeats):
            folder = Path(name) / str(number)
            folder.mkdir()
            user = SlurmUser(cluster, folder)
            user.wrap("sbatch", _RECORDING_SBATCH.format(marks=folder / "marks"))
            ours.append(_ours(user, points))
            start = time.monotonic()
            _check(user.run("status"))
            statuses.append(time.monotonic() - start)
            cluster.run("scancel", "--me")
            if peer is not None:
                theirs.append(_theirs(user, points, peer))
                cluster.run("scancel", "--me")
    until, after = (min(column) for column in zip(*ours, strict=True))
    figures: dict[str, Any] = {
        "points": points,
        "repeats": repeats,
        "cores": os.cpu_count(),
        "load_before": round(load, 1),
        "launch_s": round(until, 2),
        "after_last_sbatch_s": round(after, 2),
        "status_s": round(min(statuses), 2),
    }
    if theirs:
        best = min(theirs)
        figures |= {"peer_s": round(best, 2), "ratio": round(best / until, 1)}
        figures["peer"] = _version(peer)
    return figures


def _ours(user: SlurmUser, points: int) -> tuple[float, float]:
    start = time.time()
    _check(
        user.run(
            *("sweep", "cluster=slurm", "benchmark=off", "+cluster.sbatch.hold=''"),
            *(f"shape.seed=range(0,{points})", "launch.memory_gib=1"),
        )
    )
    end = time.time()
    last = _last_mark(user.folder)
    return last - start, end - last


def _theirs(user: SlurmUser, points: int, peer: Path) -> float:
    (user.folder / "marks").unlink()
    folder = user.folder / "peer"
    command = [
        *(str(peer), "-m", "benchmarks.sweep_peer", "--multirun", "benchmark=off"),
        *("hydra/sweeper=basic", "hydra/launcher=submitit_slurm", f"hydra.sweep.dir={folder}"),
        *("+hydra.launcher.additional_parameters.hold=true", "hydra.launcher.mem_gb=1"),
        f"shape.seed=range(0,{points})",
    ]
    env = user.environment() | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    start = time.time()
    # It would wait for every job: the time ends when its sbatch has returned.
    with (user.folder / "peer.log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        while not (user.folder / "marks").exists():
            if process.poll() is not None:
                raise RuntimeError((user.folder / "peer.log").read_text()[-2000:])
            time.sleep(0.05)
        return _last_mark(user.folder) - start
    finally:
        process.kill()
        process.wait()


def _last_mark(folder: Path) -> float:
    return float((folder / "marks").read_text().split()[-1])


def _check(done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)


def _version(peer: Path | None) -> str:
    code = "from importlib.metadata import version as v; print(v('hydra-submitit-launcher'))"
    done = subprocess.run([str(peer), "-c", code], capture_output=True, text=True, check=True)
    return f"hydra-submitit-launcher {done.stdout.strip()}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
