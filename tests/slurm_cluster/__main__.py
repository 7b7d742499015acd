"""`python -m tests.slurm_cluster up|down`: a test cluster for a developer to work with by hand."""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from pathlib import Path

from tests.slurm_cluster.daemons import missing_requirement
from tests.slurm_cluster.processes import load_pids
from tests.slurm_cluster.slurm import ClusterError, SlurmCluster


def main(arguments: list[str]) -> int:
    """Start or stop the cluster; returns the exit code."""
    default = Path(tempfile.gettempdir()) / "slurm-by-hand"
    parser = argparse.ArgumentParser(prog="python -m tests.slurm_cluster", description=__doc__)
    parser.add_argument("action", choices=("up", "down"))
    parser.add_argument("--folder", type=Path, default=default, help=f"default: {default}")
    parser.add_argument("--accounting", choices=("dbd", "none"), default="dbd")
    options = parser.parse_args(arguments)
    folder: Path = options.folder.absolute()
    return up(folder, options.accounting) if options.action == "up" else down(folder)


def up(folder: Path, accounting: str) -> int:
    """Start the cluster in `folder` and say how to use it."""
    if reason := missing_requirement("dbd" if accounting == "dbd" else "none"):
        print(f"no cluster can be started: {reason}", file=sys.stderr)
        return 2
    if any(process.is_alive() for process in load_pids(folder / "run" / "pids.json").values()):
        print(f"--folder must hold no running cluster, got {folder}; stop it: {_down(folder)}")
        return 2
    if folder.exists() and any(folder.iterdir()):
        print(f"--folder must be new or empty, got {folder}", file=sys.stderr)
        return 2
    cluster = SlurmCluster(
        folder, accounting="dbd" if accounting == "dbd" else "none", bound=False
    )
    try:
        cluster.start()
    except ClusterError as error:
        print(f"the cluster did not start: {error}", file=sys.stderr)
        return 1
    print(cluster.run("sinfo"))
    print(f"memory limits: cgroup {cluster.cgroup} ({cluster.cgroup_reason})")
    print(f"stop it with:  {_down(folder)}")
    print(f"export SLURM_CONF={shlex.quote(str(cluster.slurm_conf))}")
    return 0


def down(folder: Path) -> int:
    """Stop the cluster in `folder` and remove what it left."""
    if not (folder / "etc" / "slurm.conf").is_file():
        print(f"--folder must hold a cluster, got {folder}", file=sys.stderr)
        return 2
    SlurmCluster(folder).stop()
    print(f"stopped; {folder} is removed")
    return 0


def _down(folder: Path) -> str:
    return f"python -m tests.slurm_cluster down --folder {shlex.quote(str(folder))}"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
