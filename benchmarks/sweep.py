"""How long a sweep takes to be planned and submitted, beside hydra-submitit-launcher.

    python -m benchmarks.sweep --peer PYTHON [--points 1000] [--repeats 3] [--out FILE]

Starts a SLURM of its own (as root), submits the same sweep of held jobs with `launch.py` and, with
PYTHON (an environment that has hydra-submitit-launcher and pydantic), through Hydra's launcher, in
turn. The clock runs from the start of the process until its last sbatch has returned. Then asks
for the status of all points. Exit code 1 if a limit is not kept.
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

LEAST_RATIO = 5.0
LIMITS_S = {"after_last_sbatch_s": 3.0, "status_s": 1.0}
# An sbatch that notes when it returned.
_NOTING = '"$REAL" "$@"; code=$?; date +%s.%N >> {marks}; exit $code'


def main(arguments: Sequence[str]) -> int:
    """Runs the benchmark.

    Args:
        arguments: The command line.

    Returns:
        0 if every limit is kept, else 1.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweep", description=__doc__)
    parser.add_argument("--peer", type=Path, help="Python with hydra-submitit-launcher")
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, help="where the figures are written as JSON")
    options = parser.parse_args(arguments)
    found = measure(options.points, options.repeats, options.peer)
    for key, value in found.items():
        print(f"{key:<22}{value}")
    if options.out is not None:
        options.out.write_text(json.dumps(found, indent=2) + "\n")
    return 0 if kept(found) else 1


def kept(found: dict[str, Any]) -> bool:
    """Whether the figures keep the limits."""
    fast = found.get("ratio") is None or found["ratio"] >= LEAST_RATIO
    return fast and all(found[key] <= limit for key, limit in LIMITS_S.items())


def measure(points: int, repeats: int, peer: Path | None) -> dict[str, Any]:
    """Submits the sweep in turn with both, and takes the best of each.

    The best, because whatever else a machine does can only make a run slower.

    Args:
        points: Points of the sweep, at most MaxArraySize.
        repeats: Sweeps of each.
        peer: The other's Python; None: it is not measured.

    Returns:
        Figures by name, seconds each.
    """
    load = os.getloadavg()[0]  # of other work: figures from a busy machine say so
    ours: list[tuple[float, float]] = []
    theirs: list[float] = []
    statuses: list[float] = []
    with tempfile.TemporaryDirectory() as name, SlurmCluster() as cluster:
        for number in range(repeats):
            folder = Path(name) / str(number)
            folder.mkdir()
            user = SlurmUser(cluster, folder)
            user.wrap("sbatch", _NOTING.format(marks=folder / "marks"))
            ours.append(_ours(user, points))
            begun = time.monotonic()
            _checked(user.run("status"))
            statuses.append(time.monotonic() - begun)
            cluster.run("scancel", "--me")
            if peer is not None:
                theirs.append(_theirs(user, points, peer))
                cluster.run("scancel", "--me")
    until, after = (min(column) for column in zip(*ours, strict=True))
    found: dict[str, Any] = {
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
        found |= {"peer_s": round(best, 2), "ratio": round(best / until, 1)}
        found["peer"] = _version(peer)
    return found


def _ours(user: SlurmUser, points: int) -> tuple[float, float]:
    begun = time.time()
    _checked(
        user.run(
            *("sweep", "cluster=slurm", "benchmark=off", "+cluster.sbatch.hold=''"),
            *(f"shape.seed=range(0,{points})", "launch.memory_gib=1"),
        )
    )
    ended = time.time()
    last = _last_mark(user.folder)
    return last - begun, ended - last


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
    begun = time.time()
    # It would wait for every job: its clock stops when its sbatch has returned.
    with (user.folder / "peer.log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        while not (user.folder / "marks").exists():
            if process.poll() is not None:
                raise RuntimeError((user.folder / "peer.log").read_text()[-2000:])
            time.sleep(0.05)
        return _last_mark(user.folder) - begun
    finally:
        process.kill()
        process.wait()


def _last_mark(folder: Path) -> float:
    return float((folder / "marks").read_text().split()[-1])


def _checked(done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)


def _version(peer: Path | None) -> str:
    code = "from importlib.metadata import version as v; print(v('hydra-submitit-launcher'))"
    done = subprocess.run([str(peer), "-c", code], capture_output=True, text=True, check=True)
    return f"hydra-submitit-launcher {done.stdout.strip()}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
